// A library to be preloaded (LD_PRELOAD). It installs a signal handler and makes the process receive that
// signal in every millisecond of its CPU time, as under a profiler.
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
