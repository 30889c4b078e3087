// A child process of the launcher that only sends heartbeats. They tell the agents on other machines
// (deploy/launcher/host_agent.h) that the launcher is alive, even while the launcher is stopped (Ctrl-Z, a
// debugger) or waits for a disk. The kernel's parent-death signal kills the child when the launcher dies, so
// agents notice the launcher's death but not its pauses.
//
// Used by the launcher's connections. Thread-compatible; never blocks. The child is a fork without exec and
// makes system calls only, so other threads of the launcher do no harm.
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

  // Sends a heartbeat (deploy/launcher/agent_frames.h) every kAgentBeat to each of `pipes`, which must be
  // non-blocking. The child holds these pipes open until Stop or a call with other pipes. If `pipes` is
  // empty, no child runs. Call Beat repeatedly: it restarts a child that was killed or could not be started.
  void Beat(std::vector<int> pipes);
  void Stop();

  pid_t pid() const { return pid_; }  // -1: no process runs.

 private:
  std::vector<int> pipes_;
  pid_t pid_ = -1;
};

}  // namespace tethys

#endif  // TETHYS_DEPLOY_LAUNCHER_LAUNCHER_HEART_H_
