// Preloaded into a process, gives it a signal with a handler in every millisecond of CPU time, as a profiler
// or a scheduler may.
#include <signal.h>
#include <sys/time.h>

namespace {

struct SignalStorm {
  SignalStorm() {
    struct sigaction action = {};
    action.sa_handler = [](int) {};
    action.sa_flags = SA_RESTART;
    sigaction(SIGPROF, &action, nullptr);
    const itimerval interval = {{0, 1000}, {0, 1000}};
    setitimer(ITIMER_PROF, &interval, nullptr);
  }
} storm;

}  // namespace
