// A process of its own that is killed as it is about to make its Nth system call, whichever that is: what a
// crash at that instant leaves behind. For tests of what must survive one:
//
//   for (int call = 0; RunKilledBefore(call, Crash::kKill, save) == ProcessEnd::kKilled; ++call) { look at
//   the disk }
//
// The process is a fork of the test, traced by it (ptrace(2)). Blocking; not from several threads at once.
#ifndef TETHYS_TESTS_TESTING_KILLED_PROCESS_H_
#define TETHYS_TESTS_TESTING_KILLED_PROCESS_H_

#include <functional>
#include <string>

namespace tethys::testing {

enum class Crash {
  kKill,  // What was written stays.
  // Files also lose their second half if they were written to and not synced since. (What a rename or a new
  // name in a directory does without a sync of that directory is not played.)
  kPowerCut,
};

enum class ProcessEnd {
  kKilled,    // Before system call `call`, counted from 0. That call was not made.
  kFinished,  // It made fewer, and the body returned true.
  kFailed,    // The body returned false, or the process ended by itself in another way.
};

ProcessEnd RunKilledBefore(int call, Crash crash, const std::function<bool()>& body);

// Why no process can be traced here (a container may forbid it); empty where one can.
std::string WhyNotTraced();

}  // namespace tethys::testing

#endif  // TETHYS_TESTS_TESTING_KILLED_PROCESS_H_
