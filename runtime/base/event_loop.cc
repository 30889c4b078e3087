#include "runtime/base/event_loop.h"

namespace tethys {

void EventLoop::Post(std::function<void()> function) {
  MutexLock lock(mu_);
  if (stopped_) return;
  posted_.push_back(std::move(function));
  changed_.NotifyOne();
}

void EventLoop::Run(Nanoseconds interval, const std::function<void()>& tick) {
  Nanoseconds next_tick = clock_.Now() + interval;
  while (true) {
    std::deque<std::function<void()>> ready;
    {
      MutexLock lock(mu_);
      while (!stopped_ && posted_.empty() && clock_.Now() < next_tick) {
        changed_.WaitFor(mu_, next_tick - clock_.Now());
      }
      if (stopped_) return;
      ready.swap(posted_);
    }
    // All posted functions run before the tick. After a pause of the whole process, the loop thereby handles
    // the messages that arrived during the pause before the tick.
    for (const std::function<void()>& function : ready) {
      function();
      MutexLock lock(mu_);
      if (stopped_) return;
    }
    if (clock_.Now() >= next_tick) {
      tick();
      next_tick = clock_.Now() + interval;
    }
  }
}

void EventLoop::Stop() {
  MutexLock lock(mu_);
  stopped_ = true;
  posted_.clear();
  changed_.NotifyAll();
}

}  // namespace tethys
