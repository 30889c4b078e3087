// A process that does nothing but beat: it tells the agents on other machines (deploy/launcher/host_agent.h)
// that their launcher lives, also while the launcher itself is stopped (Ctrl-Z, a debugger) or waits for a
// disk. It dies with the launcher, by the kernel's parent-death signal; and so the agents hear of a
// launcher's death, but not of its pauses.
//
// Used by the launcher's connections. Thread-compatible; never blocks. The child is a fork without exec,
// which makes system calls only, so other threads of this process do no harm.
#ifndef TETHYS_DEPLOY_LAUNCHER_LAUNCHER_HEART_H_
#define TETHYS_DEPLOY_LAUNCHER_LAUNCHER_HEART_H_

#include <sys/types.h>

#include <vector>

namespace tethys {

class LauncherHeart {
 public:
  LauncherHeart() = default;
  ~LauncherHeart() { Stop(); }
  LauncherHeart(const LauncherHeart&) = delete;
  LauncherHeart& operator=(const LauncherHeart&) = delete;

  // A heartbeat (deploy/launcher/agent_frames.h) goes to each of `pipes`, which must not block, every
  // kAgentBeat. They are held open until Stop or a call with others. No pipes: nothing beats. Called again
  // and again: a heart that somebody has killed, or that could not be started, is started anew.
  void Beat(std::vector<int> pipes);
  void Stop();

  pid_t pid() const { return pid_; }  // -1: nothing beats.

 private:
  std::vector<int> pipes_;
  pid_t pid_ = -1;
};

}  // namespace tethys

#endif  // TETHYS_DEPLOY_LAUNCHER_LAUNCHER_HEART_H_
