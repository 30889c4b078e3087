#include "deploy/progress_display.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "deploy/output_queue.h"
#include "deploy/text.h"

namespace tethys {
namespace {

constexpr int kBarWidth = 20;
constexpr char kClearToEnd[] = "\x1b[K";  // ECMA-48: erase from the cursor to the end of the line.

// "epoch  3/25": counted from 1, as wide for every epoch.
std::string EpochText(int64_t last, int64_t epochs) {
  const int64_t epoch = std::min(last, INT64_MAX - 1) + 1;
  if (epochs <= 0) return absl::StrCat("epoch ", epoch);
  const std::string total = std::to_string(epochs);
  return absl::StrFormat("epoch %*d/%s", static_cast<int>(total.size()), epoch, total);
}

std::string Bar(double share) {
  const int filled = static_cast<int>(std::lround(share * kBarWidth));
  return absl::StrCat("[", std::string(filled, '#'), std::string(kBarWidth - filled, '-'), "]");
}

std::string RateText(double samples_per_second) {
  const double rate = std::isfinite(samples_per_second) ? std::clamp(samples_per_second, 0.0, 1e15) : 0;
  return absl::StrCat(CountText(std::llround(rate)), " samples/s");
}

int TerminalColumns(int fd) {
  winsize size;
  return ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

class ProgressDisplay final : public ProgressListener {
 public:
  ProgressDisplay(int fd, bool live) : fd_(fd), live_(live), output_(fd) {}
  ~ProgressDisplay() override { ClearLiveLine(); }

  bool Behind() const override { return output_.behind(); }

  void OnEvent(const proto::ProgressEvent& event) override {
    switch (event.event_case()) {
      case proto::ProgressEvent::kStarted:
        epochs_ = event.started().epochs();
        Print(absl::StrFormat("started in %.1f s", event.started().seconds()));
        return;
      case proto::ProgressEvent::kProgress:
        ShowLiveLine(event.progress());
        return;
      case proto::ProgressEvent::kEpoch:
        Print(EpochLine(event.epoch(), epochs_));
        return;
      case proto::ProgressEvent::kWorkerLost:
        Print(event.worker_lost().reason());
        return;
      case proto::ProgressEvent::kNote:
        Print(event.note());
        return;
      default:
        return;
    }
  }

 private:
  void ShowLiveLine(const proto::Progress& progress) {
    if (output_.behind()) return;  // It would be old by the time it is seen.
    // The last column stays free: a character there makes some terminals wrap.
    if (live_) Write(absl::StrCat("\r", LiveLine(progress, epochs_, TerminalColumns(fd_) - 1), kClearToEnd));
    line_shown_ = live_;
  }
  void ClearLiveLine() {
    if (line_shown_) Write(absl::StrCat("\r", kClearToEnd));
    line_shown_ = false;
  }
  void Print(const std::string& line) {
    ClearLiveLine();
    Write(line + "\n");
  }
  void Write(std::string text) { output_.Write(std::move(text)); }

  const int fd_;
  const bool live_;
  int64_t epochs_ = 0;
  bool line_shown_ = false;
  OutputQueue output_;
};

}  // namespace

std::string LiveLine(const proto::Progress& progress, int64_t epochs, int columns) {
  const double share = progress.epoch_samples() > 0
                           ? std::clamp(static_cast<double>(progress.epoch_samples_done()) /
                                            static_cast<double>(progress.epoch_samples()),
                                        0.0, 1.0)
                           : 0;
  std::string line = absl::StrFormat("%s %s %3d %%", EpochText(progress.epoch(), epochs), Bar(share),
                                     static_cast<int>(share * 100));
  if (progress.epoch_samples_done() > 0) {
    absl::StrAppendFormat(&line, "  loss %.4f  accuracy %.4f  %s  %s left", progress.loss(),
                          progress.accuracy(), RateText(progress.samples_per_second()),
                          DurationText(progress.eta_seconds()));
  }
  return Truncate(line, columns);
}

std::string EpochLine(const proto::EpochResult& result, int64_t epochs) {
  std::string line = absl::StrFormat("%s  loss %.4f  accuracy %.4f", EpochText(result.epoch(), epochs),
                                     result.train_loss(), result.train_accuracy());
  if (result.validated()) {
    absl::StrAppendFormat(&line, "  validation loss %.4f  accuracy %.4f", result.validation_loss(),
                          result.validation_accuracy());
  }
  absl::StrAppendFormat(&line, "  %.1f s  %s", result.train_seconds(), RateText(result.samples_per_second()));
  return line;
}

std::unique_ptr<ProgressListener> CreateProgressDisplay(int fd, bool live) {
  return std::make_unique<ProgressDisplay>(fd, live);
}

bool IsTerminal(int fd) {
  // The command may read the environment, the library may not.
  const char* kind = std::getenv("TERM");
  return isatty(fd) == 1 && kind != nullptr && absl::string_view(kind) != "dumb";
}

}  // namespace tethys
