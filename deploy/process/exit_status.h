// The exit statuses of the `tethys` command, which launchers and agents also read.
#ifndef TETHYS_DEPLOY_PROCESS_EXIT_STATUS_H_
#define TETHYS_DEPLOY_PROCESS_EXIT_STATUS_H_

namespace tethys {

constexpr int kExitSuccess = 0;
constexpr int kExitFailed = 1;      // The job was started and failed.
constexpr int kExitBadRequest = 2;  // Nothing was started.
constexpr int kExitMishap = 75;     // A worker failed, but its replacement may succeed.

}  // namespace tethys

#endif  // TETHYS_DEPLOY_PROCESS_EXIT_STATUS_H_
