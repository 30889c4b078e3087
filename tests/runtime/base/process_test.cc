#include "runtime/base/process.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <thread>

namespace tethys {
namespace {

std::atomic<pid_t> g_handled_by{0};  // The thread that ran the signal handler; 0: no thread so far.

pid_t ThreadThatHandlesSignal() {
  g_handled_by = 0;
  kill(getpid(), SIGUSR1);
  while (g_handled_by == 0) usleep(1000);
  return g_handled_by;
}

// The main thread blocks the signal, because the kernel would otherwise deliver it to the main thread.
TEST(KeepSignalsOffThisThreadTest, SignalHandlersRunOnAnotherThread) {
  struct sigaction action = {};
  action.sa_handler = [](int) { g_handled_by = gettid(); };
  ASSERT_EQ(sigaction(SIGUSR1, &action, nullptr), 0);
  sigset_t signal;
  sigemptyset(&signal);
  sigaddset(&signal, SIGUSR1);
  ASSERT_EQ(pthread_sigmask(SIG_BLOCK, &signal, nullptr), 0);
  std::thread([&signal] {
    ASSERT_EQ(pthread_sigmask(SIG_UNBLOCK, &signal, nullptr), 0);
    EXPECT_EQ(ThreadThatHandlesSignal(), gettid()) << "the only thread that does not block the signal";
    ASSERT_TRUE(KeepSignalsOffThisThread().ok());
    EXPECT_NE(ThreadThatHandlesSignal(), gettid());
    std::thread([] { EXPECT_NE(ThreadThatHandlesSignal(), gettid()); }).join();
  }).join();
}

}  // namespace
}  // namespace tethys
