// While a SignalSource exists, some signals to this process arrive at a descriptor, for a loop that polls:
// SIGCHLD, and the signals by which a user ends a job (SIGINT, SIGTERM, SIGHUP). An ignored signal stays
// ignored (nohup). At most one SignalSource may exist. It must be created on the main thread, before other
// threads are started. Nothing blocks.
//
// An interrupt may arrive after the loop has ended and its job is done. If an InterruptsHeld exists, this
// interrupt stays pending, so that it still ends a sequence of jobs.
#ifndef TETHYS_DEPLOY_PROCESS_SIGNAL_SOURCE_H_
#define TETHYS_DEPLOY_PROCESS_SIGNAL_SOURCE_H_

#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>

#include "runtime/base/file.h"

namespace tethys {

inline bool IsIgnored(int number) {
  struct sigaction action;
  return sigaction(number, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

class SignalSource {
 public:
  SignalSource() {
    sigset_t taken;
    sigemptyset(&taken);
    sigaddset(&taken, SIGCHLD);
    for (int number : {SIGINT, SIGTERM, SIGHUP}) {
      if (!IsIgnored(number)) sigaddset(&taken, number);
    }
    signal(SIGCHLD, SIG_DFL);  // If SIGCHLD were inherited as ignored, waitpid would fail.
    sigprocmask(SIG_BLOCK, &taken, &before_);
    fd_ = FileDescriptor(signalfd(-1, &taken, SFD_NONBLOCK | SFD_CLOEXEC));
  }
  ~SignalSource() {
    // Discards pending interrupts, unless an InterruptsHeld keeps them pending. Otherwise they would end this
    // process before it has reported the job's result.
    while (sigismember(&before_, SIGINT) == 0 && Next() != 0) {
    }
    sigprocmask(SIG_SETMASK, &before_, nullptr);
  }
  SignalSource(const SignalSource&) = delete;
  SignalSource& operator=(const SignalSource&) = delete;

  int fd() const { return fd_.get(); }
  // Takes the next signal and returns its number; 0 if no signal has arrived.
  int Next() {
    signalfd_siginfo info;
    return read(fd_.get(), &info, sizeof(info)) == sizeof(info) ? static_cast<int>(info.ssi_signo) : 0;
  }

 private:
  sigset_t before_;
  FileDescriptor fd_;
};

// While an InterruptsHeld exists, SIGINT, SIGTERM and SIGHUP stay pending, and a SignalSource that is created
// in this time receives them. An InterruptsHeld must be created before other threads are started; it may be
// created while another InterruptsHeld exists.
class InterruptsHeld {
 public:
  InterruptsHeld() {
    sigemptyset(&held_);
    for (int number : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&held_, number);
    sigprocmask(SIG_BLOCK, &held_, &before_);
  }
  ~InterruptsHeld() { Release(); }
  InterruptsHeld(const InterruptsHeld&) = delete;
  InterruptsHeld& operator=(const InterruptsHeld&) = delete;

  void Release() {
    if (!released_) sigprocmask(SIG_SETMASK, &before_, nullptr);
    released_ = true;
  }
  // Releases and discards the interrupts that have arrived, unless another InterruptsHeld keeps them pending.
  void ReleaseAndDiscard() {
    const timespec now = {};
    while (!released_ && sigismember(&before_, SIGINT) == 0 && sigtimedwait(&held_, nullptr, &now) > 0) {
    }
    Release();
  }

 private:
  sigset_t held_, before_;
  bool released_ = false;
};

// True if an interrupt has arrived that an InterruptsHeld keeps pending. Ignored signals do not count.
inline bool InterruptPending() {
  sigset_t pending;
  sigpending(&pending);
  for (int number : {SIGINT, SIGTERM, SIGHUP}) {
    if (sigismember(&pending, number) == 1 && !IsIgnored(number)) return true;
  }
  return false;
}

// Takes a pending interrupt, so that it is no longer pending, and returns its number; 0: no interrupt is
// pending.
inline int TakeInterrupt() {
  sigset_t taken;
  sigemptyset(&taken);
  for (int number : {SIGINT, SIGTERM, SIGHUP}) {
    if (!IsIgnored(number)) sigaddset(&taken, number);
  }
  const timespec now = {};
  return std::max(0, sigtimedwait(&taken, nullptr, &now));
}

}  // namespace tethys

#endif  // TETHYS_DEPLOY_PROCESS_SIGNAL_SOURCE_H_
