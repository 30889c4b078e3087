// Facts about processes and this host; and the end, the signals and the limits of this process.
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

// The boot id of the kernel; empty: not known. Hosts with the same boot id are parts of one computer.
std::string BootId();

// When a process of this host started, in clock ticks since the host started; this time and the process
// number together identify a process forever. nullopt: there is no such process, or /proc does not show it.
absl::optional<int64_t> ProcessStart(int64_t process);

// Ends this process with status 1, without destructors and without waiting for its threads.
[[noreturn]] void EndProcessAtOnce();

// Ends this process with `status` after flushing stdout and stderr; for the end of main. Exit handlers and
// static destructors do not run: threads of libraries, such as the threads by which gRPC reconnects, still
// use the objects that would be destroyed, and a crash of such a thread would replace `status`.
[[noreturn]] void EndProcess(int status);

// Starts a thread that takes the signals of this process from now on, and blocks them in the calling thread
// and in the threads that the caller starts later. This is needed for threads that compute: oneDNN's AVX
// kernels (2.6) keep data more than 128 bytes below the stack pointer, where a signal handler overwrites
// them, so a handler that runs on such a thread corrupts memory. Signals of a thread's own faults (SIGSEGV
// and the like) are not blocked. Call this once, before a computing thread is started. ResourceExhausted: as
// Thread::Start.
absl::Status KeepSignalsOffThisThread();

// Lets this process, and the processes it starts, open as many descriptors as the system allows: raises the
// soft limit to the hard limit. If raising is not permitted, the soft limit stays as it is.
void RaiseDescriptorLimit();

}  // namespace tethys

#endif  // TETHYS_RUNTIME_BASE_PROCESS_H_
