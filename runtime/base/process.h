// Facts about the running process and its host.
#ifndef TETHYS_RUNTIME_BASE_PROCESS_H_
#define TETHYS_RUNTIME_BASE_PROCESS_H_

#include <cstdint>
#include <string>

namespace tethys {

// Resident memory; 0 if /proc does not give it.
int64_t ResidentBytes();

std::string HostName();

// Ends this process with status 1, without destructors and without waiting for its threads.
[[noreturn]] void EndProcessAtOnce();

// Starts a thread that takes the signals of this process from now on, and blocks them in the calling thread
// and in the threads that it starts later. For threads that compute: oneDNN's AVX kernels (2.6) keep data on
// the stack farther below its end than a signal handler leaves untouched, so a handler that runs on such a
// thread corrupts memory. Faults of a thread (SIGSEGV and the like) stay its own. Call it once, before such a
// thread starts others.
void KeepSignalsOffThisThread();

// Lets this process, and those it starts, open as many descriptors as the system allows it: the soft limit
// becomes the hard one. If that is not permitted, the limit stays as it is.
void RaiseDescriptorLimit();

}  // namespace tethys

#endif  // TETHYS_RUNTIME_BASE_PROCESS_H_
