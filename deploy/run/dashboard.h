// The live view of a run that this command makes: `tethys watch` as a child process
// (deploy/command/watch.cc). Create it on the main thread; see deploy/process/subprocess.h.
#ifndef TETHYS_DEPLOY_RUN_DASHBOARD_H_
#define TETHYS_DEPLOY_RUN_DASHBOARD_H_

#include <string>
#include <utility>
#include <vector>

#include "deploy/process/subprocess.h"
#include "runtime/base/status.h"

namespace tethys {

// Invariant: the view ends with this object and with this process, however that ends.
class Dashboard {
 public:
  // Starts the view of a run whose job file is written, and waits for its addresses, some seconds at most.
  // `metrics`: its flags for metrics (metrics_flags.h).
  static absl::StatusOr<Dashboard> Start(const std::string& run_dir, const std::vector<std::string>& metrics);
  Dashboard(Dashboard&&) = default;
  // Gives the view a moment to remove its file with the address.
  ~Dashboard();

  // "live view: http://127.0.0.1:PORT/?token=TOKEN". With an address for metrics, a second line names that
  // address.
  const std::string& lines() const { return lines_; }

 private:
  Dashboard(Subprocess process, std::string lines) : process_(std::move(process)), lines_(std::move(lines)) {}

  Subprocess process_;
  std::string lines_;
};

}  // namespace tethys

#endif  // TETHYS_DEPLOY_RUN_DASHBOARD_H_
