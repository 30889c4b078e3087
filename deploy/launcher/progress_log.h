// Writes a run's events to RUN_DIR/progress.jsonl (deploy/live/progress_file.h) and forwards them. If writing
// fails, the next listener gets a note once, and the run goes on without the file.
#ifndef TETHYS_DEPLOY_LAUNCHER_PROGRESS_LOG_H_
#define TETHYS_DEPLOY_LAUNCHER_PROGRESS_LOG_H_

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "deploy/launcher/launcher.h"
#include "deploy/live/progress_file.h"

namespace tethys {

class ProgressLog final : public ForwardingListener {
 public:
  ProgressLog(const std::string& run_dir, ProgressListener& next) : ForwardingListener(next) {
    absl::StatusOr<std::unique_ptr<ProgressFile>> file = ProgressFile::Open(run_dir);
    if (file.ok()) {
      file_ = *std::move(file);
    } else {
      Warn(file.status());
    }
  }
  void OnEvent(const proto::ProgressEvent& event) override {
    Record(event);
    next().OnEvent(event);
  }
  // Writes an event that is not forwarded.
  void Record(const proto::ProgressEvent& event) {
    if (file_ == nullptr) return;
    const absl::Status written = file_->Add(event);
    if (written.ok()) return;
    file_ = nullptr;
    Warn(written);
  }

 private:
  void Warn(const absl::Status& status) {
    proto::ProgressEvent event;
    event.set_note(absl::StrCat("warning: ", kProgressFile, " ends here: ", status.message()));
    next().OnEvent(event);
  }

  std::unique_ptr<ProgressFile> file_;  // Null after an error.
};

}  // namespace tethys

#endif  // TETHYS_DEPLOY_LAUNCHER_PROGRESS_LOG_H_
