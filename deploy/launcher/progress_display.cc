#include "deploy/launcher/progress_display.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "deploy/process/output_queue.h"
#include "deploy/text.h"

namespace tethys {
namespace {

constexpr int kBarWidth = 20;
constexpr int kShortBarWidth = 10;
constexpr size_t kMostLateLines = 5;
constexpr size_t kMostComparisonLines = 3;
constexpr char kClearToEnd[] = "\x1b[K";  // ECMA-48: erase from the cursor to the end of the line.
constexpr char kClearBelow[] = "\x1b[J";  // Erase from the cursor to the end of the screen.
constexpr char kRed[] = "\x1b[31m";
constexpr char kYellow[] = "\x1b[33m";
constexpr char kUsual[] = "\x1b[0m";

// The epoch as text, "epoch 3/25", counted from 1 and of constant width.
std::string EpochText(int64_t last, int64_t epochs) {
  const int64_t epoch = std::min(last, INT64_MAX - 1) + 1;
  if (epochs <= 0) return absl::StrCat("epoch ", epoch);
  const std::string total = std::to_string(epochs);
  return absl::StrFormat("epoch %*d/%s", static_cast<int>(total.size()), epoch, total);
}

std::string Bar(double share, int width) {
  const int filled = static_cast<int>(std::lround(share * width));
  return absl::StrCat("[", std::string(filled, '#'), std::string(width - filled, '-'), "]");
}

std::string RateText(double samples_per_second) {
  const double rate = std::isfinite(samples_per_second) ? std::clamp(samples_per_second, 0.0, 1e15) : 0;
  return absl::StrCat(CountText(std::llround(rate)), " samples/s");
}

// The first of `lines` that fits into the width; if none fits, the last line, truncated.
std::string FirstThatFits(const std::vector<std::string>& lines, int columns) {
  for (const std::string& line : lines) {
    if (columns <= 0 || DisplayWidth(line) <= columns) return line;
  }
  return Truncate(lines.back(), columns);
}

class ProgressDisplay final : public ProgressListener {
 public:
  ProgressDisplay(int fd, const DisplayOptions& options) : fd_(fd), options_(options), output_(fd) {
    fold_.Expect(options.expectation);
  }
  ~ProgressDisplay() override { ClearLiveLines(); }

  bool Behind() const override { return output_.behind(); }

  void OnLogLine(const std::string& line) override { Print(line); }

  void OnEvent(const proto::ProgressEvent& event) override {
    switch (event.event_case()) {
      case proto::ProgressEvent::kStarted:
        epochs_ = event.started().epochs();
        Print(absl::StrFormat("started in %.1f s", event.started().seconds()));
        return;
      case proto::ProgressEvent::kPulse:
        fold_.Add(event);
        return;
      case proto::ProgressEvent::kProgress:
        fold_.Add(event);
        ShowLiveLines(event.progress());
        return;
      case proto::ProgressEvent::kEpoch:
        Print(EpochLine(event.epoch(), epochs_, Columns()));
        return;
      case proto::ProgressEvent::kTaskLost:
        Print(event.task_lost().reason(), kRed);
        return;
      case proto::ProgressEvent::kNote:
        Print(event.note());
        return;
      default:
        return;
    }
  }

 private:
  // The number of columns to use; 0 if the output is not a terminal. The last column stays free, because some
  // terminals wrap the line after a character in it.
  int Columns() const { return std::max(0, TerminalColumns(fd_) - 1); }
  std::string Coloured(const std::string& text, const char* colour) const {
    return options_.colour && *colour != '\0' ? absl::StrCat(colour, text, kUsual) : text;
  }
  void ShowLiveLines(const proto::Progress& progress) {
    // A live line in the queue would be outdated when it is shown.
    if (!options_.live || output_.behind()) return;
    const int columns = Columns() > 0 ? Columns() : kUsualColumns;
    const proto::LiveState& state = fold_.state();
    const auto left = state.has_left() ? absl::make_optional(state.left()) : absl::nullopt;
    std::string text = absl::StrCat("\r", LiveLine(progress, epochs_, columns, left), kClearToEnd);
    const std::vector<std::string> compared = ComparisonLines(state, columns);
    const std::vector<std::string> late = LateTaskLines(progress, state);
    for (const std::string& line : compared) absl::StrAppend(&text, "\n", line, kClearToEnd);
    for (const std::string& line : late) {
      absl::StrAppend(&text, "\n", Coloured(Truncate(line, columns), kYellow), kClearToEnd);
    }
    const size_t below = compared.size() + late.size();
    if (below < lines_below_) absl::StrAppend(&text, "\n", kClearBelow, "\x1b[A");
    if (below > 0) absl::StrAppend(&text, "\x1b[", below, "A");  // Moves the cursor back up.
    lines_below_ = below;
    Write(text);
    line_shown_ = true;
  }
  void ClearLiveLines() {
    if (line_shown_) Write(absl::StrCat("\r", lines_below_ > 0 ? kClearBelow : kClearToEnd));
    line_shown_ = false;
    lines_below_ = 0;
  }
  void Print(const std::string& line, const char* colour = "") {
    ClearLiveLines();
    const int columns = Columns();
    const std::string text =
        columns > 0 && DisplayWidth(line) > columns ? Wrap(line, "", columns) : line + "\n";
    Write(Coloured(text, colour));
  }
  void Write(std::string text) { output_.Write(std::move(text)); }

  static constexpr int kUsualColumns = 79;

  const int fd_;
  const DisplayOptions options_;
  int64_t epochs_ = 0;
  LiveFold fold_;  // Receives only progress and pulses.
  bool line_shown_ = false;
  size_t lines_below_ = 0;
  OutputQueue output_;
};

}  // namespace

std::string LiveLine(const proto::Progress& progress, int64_t epochs, int columns,
                     const absl::optional<proto::Estimate>& interval) {
  // True if all epochs are trained, so that only the evaluation of the test samples and the last checkpoint
  // are left.
  const bool trained = epochs > 0 && progress.epoch() >= epochs;
  const double share = trained ? 1
                       : progress.epoch_samples() > 0
                           ? std::clamp(static_cast<double>(progress.epoch_samples_done()) /
                                            static_cast<double>(progress.epoch_samples()),
                                        0.0, 1.0)
                           : 0;
  const std::string epoch = EpochText(trained ? epochs - 1 : progress.epoch(), epochs);
  const std::string percent = absl::StrFormat("%3d %%", static_cast<int>(share * 100));
  const std::string with_bar = absl::StrCat(epoch, " ", Bar(share, kBarWidth), " ", percent);
  const std::string with_short_bar = absl::StrCat(epoch, " ", Bar(share, kShortBarWidth), " ", percent);
  const std::string doing = progress.doing().empty() ? "" : absl::StrCat("  ", progress.doing());
  if (progress.epoch_samples_done() <= 0) {
    return FirstThatFits({with_bar + doing, with_short_bar + doing, epoch + doing, epoch}, columns);
  }
  const std::string loss = absl::StrFormat("  loss %.4f", progress.loss());
  const std::string accuracy =
      progress.has_accuracy() ? absl::StrFormat("  accuracy %.4f", progress.accuracy()) : "";
  const std::string rate = absl::StrCat("  ", RateText(progress.samples_per_second()));
  const double seconds = interval.has_value() ? interval->value() : progress.eta_seconds();
  const std::string left = doing.empty() ? absl::StrCat("  ", DurationText(seconds), " left") : doing;
  const std::string range =
      interval.has_value() && doing.empty()
          ? absl::StrCat("  ", DurationText(seconds), " (", DurationText(interval->low()), "-",
                         DurationText(interval->high()), ") left")
          : left;
  return FirstThatFits(
      {absl::StrCat(with_bar, loss, accuracy, rate, range),
       absl::StrCat(with_bar, loss, accuracy, rate, left), absl::StrCat(with_short_bar, loss, accuracy, left),
       absl::StrCat(epoch, " ", percent, loss, accuracy, left),
       absl::StrCat(epoch, " ", percent, accuracy, left), absl::StrCat(epoch, " ", percent, left),
       absl::StrCat(epoch, " ", percent), epoch},
      columns);
}

std::vector<std::string> ComparisonLines(const proto::LiveState& state, int columns) {
  if (!state.has_comparison()) return {};
  std::vector<std::string> lines =
      absl::StrSplit(Wrap(state.comparison().text(), "  ", columns), '\n', absl::SkipEmpty());
  lines.resize(std::min(lines.size(), kMostComparisonLines));
  for (std::string& line : lines) line = Truncate(line, columns);
  return lines;
}

std::vector<std::string> LateTaskLines(const proto::Progress& progress, const proto::LiveState& state) {
  std::vector<std::string> lines;
  std::set<std::string> late;
  for (const proto::LateTask& task : progress.late()) {
    late.insert(task.name());
    lines.push_back(task.silent_seconds() > 0
                        ? absl::StrFormat("  %s: silent for %.0f s", task.name(), task.silent_seconds())
                        : absl::StrCat("  ", task.name(), ": behind, at step ", CountText(task.step()),
                                       "; the others are at about ", CountText(task.usual_step())));
  }
  for (const proto::LiveTask& task : state.task()) {
    const proto::TaskPulse& pulse = task.pulse();
    const std::string name = absl::StrCat(pulse.role(), " ", pulse.index(), " on ", pulse.host());
    if (late.count(name) > 0) continue;
    if (task.health() == "lost") lines.push_back(absl::StrCat("  ", name, ": lost"));
    if (task.health() == "slow") {
      lines.push_back(absl::StrFormat("  %s: slow, computes %.1f times as long as the median of all workers",
                                      name, task.compute_ratio()));
    }
  }
  if (lines.size() <= kMostLateLines) return lines;
  const size_t more = lines.size() - (kMostLateLines - 1);
  lines.resize(kMostLateLines - 1);
  lines.push_back(absl::StrCat("  and ", more, " more"));
  return lines;
}

std::string EpochLine(const proto::EpochResult& result, int64_t epochs, int columns) {
  const std::string epoch = EpochText(result.epoch(), epochs);
  const std::string loss = absl::StrFormat("  loss %.4f", result.train_loss());
  const std::string accuracy =
      result.has_train_accuracy() ? absl::StrFormat("  accuracy %.4f", result.train_accuracy()) : "";
  const std::string seconds = absl::StrFormat("  %.1f s", result.train_seconds());
  const std::string rate = absl::StrCat("  ", RateText(result.samples_per_second()));
  if (!result.validated()) {
    return FirstThatFits({absl::StrCat(epoch, loss, accuracy, seconds, rate),
                          absl::StrCat(epoch, loss, accuracy, seconds), absl::StrCat(epoch, accuracy)},
                         columns);
  }
  const std::string validation_loss = absl::StrFormat("  validation loss %.4f", result.validation_loss());
  if (!result.has_validation_accuracy()) {
    return FirstThatFits({absl::StrCat(epoch, loss, validation_loss, seconds, rate),
                          absl::StrCat(epoch, loss, validation_loss), absl::StrCat(epoch, loss), epoch},
                         columns);
  }
  const std::string validation = absl::StrFormat("%.4f", result.validation_accuracy());
  const std::string iou = result.has_validation_mean_iou()
                              ? absl::StrFormat("  mean IoU %.4f", result.validation_mean_iou())
                              : "";
  return FirstThatFits(
      {absl::StrCat(epoch, loss, accuracy, validation_loss, "  accuracy ", validation, iou, seconds, rate),
       absl::StrCat(epoch, loss, accuracy, validation_loss, "  accuracy ", validation, seconds, rate),
       absl::StrCat(epoch, loss, accuracy, validation_loss, "  accuracy ", validation, seconds),
       absl::StrCat(epoch, loss, accuracy, "  validation ", validation, seconds),
       absl::StrCat(epoch, accuracy, "  validation ", validation, seconds),
       absl::StrCat(epoch, "  validation ", validation), epoch},
      columns);
}

std::unique_ptr<ProgressListener> CreateProgressDisplay(int fd, const DisplayOptions& options) {
  return std::make_unique<ProgressDisplay>(fd, options);
}

int TerminalColumns(int fd) {
  winsize size;
  if (isatty(fd) != 1) return 0;
  constexpr int kUsual = 80;
  return ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : kUsual;
}

bool WantsColour(int fd) {
  const char* refused = std::getenv("NO_COLOR");
  return IsTerminal(fd) && (refused == nullptr || *refused == '\0');
}

bool IsTerminal(int fd) {
  // The code of the `tethys` command may read environment variables; the runtime may not.
  const char* kind = std::getenv("TERM");
  return isatty(fd) == 1 && kind != nullptr && absl::string_view(kind) != "dumb";
}

}  // namespace tethys
