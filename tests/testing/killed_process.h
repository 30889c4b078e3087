// Runs code in a separate process and kills the process before its Nth system call. The test then sees the
// state that a crash at this instant leaves. For tests of data that must survive a crash:
//
//   for (int call = 0; RunKilledBefore(call, Crash::kKill, save) == ProcessEnd::kKilled; ++call) CheckDisk();
//
// The process is a fork of the test, which traces it (ptrace(2)). Calls block until the process has ended,
// and only one thread at a time may make them.
#ifndef TETHYS_TESTS_TESTING_KILLED_PROCESS_H_
#define TETHYS_TESTS_TESTING_KILLED_PROCESS_H_

#include <functional>
#include <string>

namespace tethys::testing {

enum class Crash {
  kKill,  // Only kills the process: data that it has written stays.
  // Files that were written to and not synced since also lose their second half. (The loss of a rename or a
  // new name in a directory that was not synced is not simulated.)
  kPowerCut,
};

enum class ProcessEnd {
  kKilled,    // Killed before its system call number `call`, counted from 0; that call was not made.
  kFinished,  // The process made fewer calls, and the body returned true.
  kFailed,    // The body returned false, or the process ended by itself in another way.
};

ProcessEnd RunKilledBefore(int call, Crash crash, const std::function<bool()>& body);

// The reason why no process can be traced here (a container may forbid tracing); empty if tracing works.
std::string WhyNotTraced();

}  // namespace tethys::testing

#endif  // TETHYS_TESTS_TESTING_KILLED_PROCESS_H_
