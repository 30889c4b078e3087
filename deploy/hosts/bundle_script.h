// The text of deploy/bundle.sh, embedded in the program so that the program can make its own bundle. Pure;
// any thread.
#ifndef TETHYS_DEPLOY_HOSTS_BUNDLE_SCRIPT_H_
#define TETHYS_DEPLOY_HOSTS_BUNDLE_SCRIPT_H_

#include "absl/strings/string_view.h"

namespace tethys {

absl::string_view BundleScript();

}  // namespace tethys

#endif  // TETHYS_DEPLOY_HOSTS_BUNDLE_SCRIPT_H_
