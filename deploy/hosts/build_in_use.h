// Keeps the unpacked bundle that this process runs out of from being removed: a launcher that brings a newer
// build removes those that nobody touched for a month (cluster_hosts.h). A thread of its own touches the
// folder, which also tells launchers on other machines that share it.
#ifndef TETHYS_DEPLOY_HOSTS_BUILD_IN_USE_H_
#define TETHYS_DEPLOY_HOSTS_BUILD_IN_USE_H_

#include <string>
#include <thread>

#include "runtime/base/clock.h"
#include "runtime/base/mutex.h"

namespace tethys {

class BuildInUse {
 public:
  static constexpr Nanoseconds kInterval = 24 * 3600 * kSecond;

  // Touches `folder` now and every `interval`, until it is destroyed; empty: nothing is done.
  BuildInUse(std::string folder, Nanoseconds interval);
  ~BuildInUse();

 private:
  void Run();

  const std::string folder_;
  const Nanoseconds interval_;
  Mutex mu_;
  CondVar end_;
  bool ended_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;
};

}  // namespace tethys

#endif  // TETHYS_DEPLOY_HOSTS_BUILD_IN_USE_H_
