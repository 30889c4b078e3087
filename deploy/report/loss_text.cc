#include "deploy/report/loss_text.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "deploy/text.h"

namespace tethys {
namespace {

std::string OmittedText(int64_t unrecorded) {
  if (unrecorded == 0) return "";
  return absl::StrCat("; losses and accuracies omit ", PluralText(unrecorded, "sample"),
                      ", whose records were lost with a worker");
}

std::string LostLine(const proto::WorkerLoss& loss) {
  std::string text = absl::StrCat("after ", TimeText(loss.seconds()), " worker ", loss.worker(),
                                  loss.host().empty() ? "" : absl::StrCat(" on ", loss.host()),
                                  " was lost: ", loss.reason());
  if (loss.replaced_seconds() > 0) {
    absl::StrAppend(&text, "; a replacement took part ", TimeText(loss.replaced_seconds()), " later");
  }
  return absl::StrCat(text, OmittedText(loss.unrecorded_samples()));
}

std::string ChangeLine(const proto::GroupChange& change) {
  std::string text =
      absl::StrCat("after ", TimeText(change.seconds()), " ", PluralText(change.worker_size(), "worker"),
                   " went on from step ", change.step(), " (", change.cause(),
                   "), after training had stood still for ", TimeText(change.stall_seconds()));
  if (change.steps_again() > 0) {
    absl::StrAppend(&text, "; ", PluralText(change.steps_again(), "step"),
                    change.steps_again() == 1 ? " was" : " were", " made again");
  }
  return absl::StrCat(text, OmittedText(change.unrecorded_samples()));
}

}  // namespace

double StoodStill(const proto::RunSummary& summary) {
  double seconds = 0;
  for (const proto::GroupChange& change : summary.group_change()) seconds += change.stall_seconds();
  return seconds;
}

std::string LossText(const proto::RunSummary& summary) {
  const int lost = summary.worker_loss_size();
  const int changes = summary.group_change_size();
  if (lost == 0 && changes == 0) return "";
  int64_t again = 0;
  for (const proto::GroupChange& change : summary.group_change()) again += change.steps_again();
  // An exchange that fails without a loss makes the same workers form a new group.
  std::string text = lost > 0
                         ? absl::StrCat(PluralText(lost, "worker"), lost == 1 ? " was lost" : " were lost")
                         : absl::StrCat("the workers formed a new group ", PluralText(changes, "time"));
  if (changes == 0) return text;
  absl::StrAppend(&text, "; training stood still for ", TimeText(StoodStill(summary)), " in all");
  if (again > 0) {
    absl::StrAppend(&text, ", and ", PluralText(again, "step"), again == 1 ? " was" : " were", " made again");
  }
  return text;
}

std::vector<std::string> LossLines(const proto::RunSummary& summary) {
  std::vector<std::pair<double, std::string>> lines;
  for (const proto::WorkerLoss& loss : summary.worker_loss()) {
    lines.emplace_back(loss.seconds(), LostLine(loss));
  }
  for (const proto::GroupChange& change : summary.group_change()) {
    lines.emplace_back(change.seconds(), ChangeLine(change));
  }
  std::stable_sort(lines.begin(), lines.end(),
                   [](const auto& one, const auto& other) { return one.first < other.first; });
  std::vector<std::string> texts;
  for (auto& [seconds, text] : lines) texts.push_back(std::move(text));
  return texts;
}

}  // namespace tethys
