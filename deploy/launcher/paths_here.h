// In notes of a chief on another machine ("saved RUN_DIR/checkpoints/step-8"), replaces the chief's run
// directory by the run directory of this machine, to which the launcher fetches the chief's files. Warnings
// keep the chief's path.
#ifndef TETHYS_DEPLOY_LAUNCHER_PATHS_HERE_H_
#define TETHYS_DEPLOY_LAUNCHER_PATHS_HERE_H_

#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"
#include "deploy/launcher/launcher.h"

namespace tethys {

class PathsHere final : public ForwardingListener {
 public:
  PathsHere(std::string there, std::string here, ProgressListener& next)
      : ForwardingListener(next), there_(std::move(there)), here_(std::move(here)) {}
  void OnEvent(const proto::ProgressEvent& event) override {
    if (there_ == here_ || event.note().empty() || absl::StartsWith(event.note(), "warning")) {
      return next().OnEvent(event);
    }
    proto::ProgressEvent changed = event;
    changed.set_note(absl::StrReplaceAll(event.note(), {{there_, here_}}));
    next().OnEvent(changed);
  }

 private:
  const std::string there_, here_;
};

}  // namespace tethys

#endif  // TETHYS_DEPLOY_LAUNCHER_PATHS_HERE_H_
