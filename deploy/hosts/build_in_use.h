// Protects the unpacked bundle of this process against removal: a launcher that installs a newer build
// removes builds that were not touched for a month (cluster_hosts.h). A thread touches the folder, so that
// launchers on other machines that share the folder see its use, too.
#ifndef TETHYS_DEPLOY_HOSTS_BUILD_IN_USE_H_
#define TETHYS_DEPLOY_HOSTS_BUILD_IN_USE_H_

#include <string>

#include "runtime/base/clock.h"
#include "runtime/base/mutex.h"
#include "runtime/base/thread.h"

namespace tethys {

class BuildInUse {
 public:
  static constexpr Nanoseconds kInterval = 24 * 3600 * kSecond;

  // Touches `folder` now and every `interval`, until destroyed; does nothing if `folder` is empty.
  // If no thread can be started, the folder is touched once.
  BuildInUse(std::string folder, Nanoseconds interval);
  ~BuildInUse();

 private:
  void Touch() const;
  void Run();

  const std::string folder_;
  const Nanoseconds interval_;
  Mutex mu_;
  CondVar end_;
  bool ended_ ABSL_GUARDED_BY(mu_) = false;
  Thread thread_;
};

}  // namespace tethys

#endif  // TETHYS_DEPLOY_HOSTS_BUILD_IN_USE_H_
