#include "runtime/base/blocked_signals.h"

#include <initializer_list>

#include "runtime/base/status.h"

namespace tethys {

sigset_t BlockableSignals() {
  sigset_t signals;
  sigfillset(&signals);
  for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS})
    sigdelset(&signals, fault);
  return signals;
}

BlockedSignals::BlockedSignals() {
  const sigset_t blocked = BlockableSignals();
  TETHYS_CHECK(pthread_sigmask(SIG_BLOCK, &blocked, &before_) == 0);
}

BlockedSignals::~BlockedSignals() { TETHYS_CHECK(pthread_sigmask(SIG_SETMASK, &before_, nullptr) == 0); }

}  // namespace tethys
