// A process that only sends heartbeats: they tell the agents on other machines
// (deploy/launcher/host_agent.h) that their launcher is alive, even while it is stopped (Ctrl-Z, a debugger)
// or waits for a disk. It dies with the launcher, by the kernel's parent-death signal, so agents notice a
// launcher's death but not its pauses.
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

  // Sends a heartbeat (deploy/launcher/agent_frames.h) to each of `pipes`, which must not block, every
  // kAgentBeat. They are held open until Stop or a call with others. Without pipes, no process runs. Call
  // this repeatedly: a heart that was killed or could not be started is started again.
  void Beat(std::vector<int> pipes);
  void Stop();

  pid_t pid() const { return pid_; }  // -1: no process runs.

 private:
  std::vector<int> pipes_;
  pid_t pid_ = -1;
};

}  // namespace tethys

#endif  // TETHYS_DEPLOY_LAUNCHER_LAUNCHER_HEART_H_
