// Keeps signal handlers off a thread while it computes.
#ifndef TETHYS_RUNTIME_BASE_BLOCKED_SIGNALS_H_
#define TETHYS_RUNTIME_BASE_BLOCKED_SIGNALS_H_

#include <signal.h>

namespace tethys {

// All signals except those of a thread's own faults (SIGSEGV and the like), which cannot wait.
sigset_t BlockableSignals();

// Blocks these signals in the calling thread during the lifetime of the object, which must end in the same
// thread. Signals that arrive meanwhile are handled by another thread or afterwards. Needed around oneDNN:
// its AVX kernels (2.6) keep data more than 128 bytes below the stack pointer, where a signal handler
// overwrites the data, so a handler that runs on the thread corrupts memory.
class BlockedSignals {
 public:
  BlockedSignals();
  ~BlockedSignals();
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

 private:
  sigset_t before_;
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_BASE_BLOCKED_SIGNALS_H_
