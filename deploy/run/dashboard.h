// The live view of this command's run: `tethys watch` as a child process (deploy/command/watch.cc). Must be
// created on the main thread, because the kernel kills the child process when the thread that started it
// ends.
#ifndef TETHYS_DEPLOY_RUN_DASHBOARD_H_
#define TETHYS_DEPLOY_RUN_DASHBOARD_H_

#include <string>
#include <utility>
#include <vector>

#include "deploy/process/subprocess.h"
#include "runtime/base/status.h"

namespace tethys {

// Invariant: the view ends when this object is destroyed or this process ends, in whatever way it ends.
class Dashboard {
 public:
  // Starts the view of the run in `run_dir`, whose job file must have been written, and waits for the view's
  // addresses, at most 20 s. `metrics`: the view's flags for metrics (metrics_flags.h).
  static absl::StatusOr<Dashboard> Start(const std::string& run_dir, const std::vector<std::string>& metrics);
  Dashboard(Dashboard&&) = default;
  // Asks the view to end, and waits at most 2 s for the view to remove its address file.
  ~Dashboard();

  // Text for the terminal: "live view: http://127.0.0.1:PORT/?token=TOKEN". With an address for metrics, a
  // second line names the address for metrics.
  const std::string& lines() const { return lines_; }

 private:
  Dashboard(Subprocess process, std::string lines) : process_(std::move(process)), lines_(std::move(lines)) {}

  Subprocess process_;
  std::string lines_;
};

}  // namespace tethys

#endif  // TETHYS_DEPLOY_RUN_DASHBOARD_H_
