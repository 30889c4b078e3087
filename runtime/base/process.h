// Queries facts about processes and about this host, ends this process, and sets this process's signal
// handling and limits.
#ifndef TETHYS_RUNTIME_BASE_PROCESS_H_
#define TETHYS_RUNTIME_BASE_PROCESS_H_

#include <cstdint>
#include <string>

#include "absl/types/optional.h"
#include "runtime/base/status.h"

namespace tethys {

// Resident memory of this process; 0 if /proc does not give it.
int64_t ResidentBytes();

std::string HostName();

// "this machine is overloaded: load 25.3 on 2 cores" if the average load of the last minute is more than four
// for each core; otherwise empty.
std::string OverloadText();

// The boot id of the kernel; empty: not known. Hosts with the same boot id are parts of one computer.
std::string BootId();

// The start time of a process of this host, in clock ticks since the host started. The start time and the
// process number together identify the process, even if the number is used again. nullopt: there is no such
// process, or /proc does not show it.
absl::optional<int64_t> ProcessStart(int64_t process);

// Ends this process with status 1, without destructors and without waiting for its threads.
[[noreturn]] void EndProcessAtOnce();

// Ends this process with `status` after flushing stdout and stderr; for the end of main. Exit handlers and
// static destructors do not run: threads of libraries, such as the threads by which gRPC reconnects, still
// use the objects that would be destroyed, and a crash of such a thread would replace `status`.
[[noreturn]] void EndProcess(int status);

// Starts a thread that takes the signals of this process from now on, and blocks the signals in the calling
// thread and in the threads that the caller starts later. Processes that only compute call this, so that a
// signal does not wait for the end of a computation (runtime/base/blocked_signals.h). Signals of a thread's
// own faults (SIGSEGV and the like) are not blocked. Call this once, before a computing thread is started.
// ResourceExhausted: the system starts no further thread.
absl::Status KeepSignalsOffThisThread();

// Lets this process, and the processes it starts, open as many descriptors as the system allows: raises the
// soft limit to the hard limit. If raising is not permitted, the soft limit stays as it is.
void RaiseDescriptorLimit();

}  // namespace tethys

#endif  // TETHYS_RUNTIME_BASE_PROCESS_H_
