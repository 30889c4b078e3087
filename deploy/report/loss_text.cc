#include "deploy/report/loss_text.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "deploy/text.h"

namespace tethys {
namespace {

std::string OmittedText(int64_t unrecorded) {
  if (unrecorded == 0) return "";
  return absl::StrCat("; training loss and accuracy omit ", PluralText(unrecorded, "sample"),
                      ", whose records were lost with a worker");
}

template <typename Loss>
std::string LostLine(const Loss& loss, const std::string& task) {
  std::string text = absl::StrCat("after ", TimeText(loss.seconds()), " ", task,
                                  loss.host().empty() ? "" : absl::StrCat(" on ", loss.host()),
                                  " was lost: ", loss.reason());
  if (loss.replaced_seconds() > 0) {
    absl::StrAppend(&text, "; a replacement took part ", TimeText(loss.replaced_seconds()), " later");
  }
  return text;
}

std::string ChangeLine(const proto::GroupChange& change) {
  std::string text =
      absl::StrCat("after ", TimeText(change.seconds()), " ", PluralText(change.worker_size(), "worker"),
                   " went on from step ", change.step(), " (", change.cause(),
                   "), after training had stood still for ", TimeText(change.stall_seconds()));
  if (change.steps_again() > 0) {
    absl::StrAppend(&text, "; ", PluralText(change.steps_again(), "step"),
                    change.steps_again() == 1 ? " was" : " were", " repeated");
  }
  return absl::StrCat(text, OmittedText(change.unrecorded_samples()));
}

// Describes the lost workers and servers, and the groups that then formed.
std::string TasksText(const proto::RunSummary& summary) {
  const int servers = summary.server_loss_size();
  const int lost = summary.worker_loss_size() + servers;
  const int changes = summary.group_change_size();
  if (lost == 0 && changes == 0) return "";
  int64_t again = 0;
  for (const proto::GroupChange& change : summary.group_change()) again += change.steps_again();
  // If an exchange fails although no worker was lost, the same workers form a new group.
  std::vector<std::string> texts;
  if (lost > servers) texts.push_back(LostText(lost - servers));
  if (servers > 0) {
    texts.push_back(absl::StrCat(PluralText(servers, "server"), servers == 1 ? " was" : " were",
                                 " lost and restored from ", servers == 1 ? "its copy" : "their copies"));
  }
  std::string text = lost > 0 ? absl::StrJoin(texts, " and ")
                              : absl::StrCat("the workers formed a new group ", PluralText(changes, "time"));
  if (changes == 0) return text;
  absl::StrAppend(&text, "; training stood still for ", TimeText(StoodStill(summary)), " in all");
  if (again > 0) {
    absl::StrAppend(&text, ", and ", PluralText(again, "step"), again == 1 ? " was" : " were", " repeated");
  }
  return text;
}

}  // namespace

double StoodStill(const proto::RunSummary& summary) {
  double seconds = 0;
  for (const proto::GroupChange& change : summary.group_change()) seconds += change.stall_seconds();
  return seconds;
}

std::string AttemptsText(const proto::RunSummary& summary) {
  if (summary.attempt_size() < 2) return "";
  int64_t again = 0;
  proto::Attempt earlier;  // The sums over all attempts but the last.
  for (const proto::Attempt& attempt : summary.attempt()) {
    again += attempt.steps_again();
    if (&attempt == &*summary.attempt().rbegin()) break;
    earlier.set_lost_workers(earlier.lost_workers() + attempt.lost_workers());
    earlier.set_lost_servers(earlier.lost_servers() + attempt.lost_servers());
    earlier.set_lost_chiefs(earlier.lost_chiefs() + attempt.lost_chiefs());
  }
  const std::string outlived = OutlivedText(earlier);
  return absl::StrCat(
      "over ", summary.attempt_size(), " attempts",
      again > 0 ? absl::StrCat(", which repeated ", PluralText(again, "step")) : "",
      outlived.empty() ? "" : absl::StrCat("; the attempts before the last outlived ", outlived));
}

std::string OutlivedText(const proto::Attempt& attempt) {
  std::vector<std::string> parts;
  const auto add = [&parts](int count, const char* what) {
    if (count > 0) parts.push_back(PluralText(count, what));
  };
  add(attempt.lost_workers(), "lost worker");
  add(attempt.lost_servers(), "lost server");
  add(attempt.lost_chiefs(), "lost chief");
  return NamesText(parts);
}

std::string LostText(int64_t workers) {
  return absl::StrCat(PluralText(workers, "worker"), workers == 1 ? " was lost" : " were lost");
}

std::string LossText(const proto::RunSummary& summary) {
  std::vector<std::string> texts;
  if (const std::string text = TasksText(summary); !text.empty()) texts.push_back(text);
  if (const int chiefs = summary.chief_loss_size(); chiefs > 0) {
    texts.push_back(absl::StrCat("the chief was lost and replaced",
                                 chiefs > 1 ? absl::StrCat(" ", chiefs, " times") : ""));
  }
  return absl::StrJoin(texts, "; ");
}

std::string DisturbanceText(const proto::RunSummary& summary) {
  const std::string losses = LossText(summary), attempts = AttemptsText(summary);
  return absl::StrCat(losses, losses.empty() || attempts.empty() ? "" : "; ",
                      attempts.empty() ? "" : absl::StrCat("trained ", attempts));
}

std::vector<std::string> LossLines(const proto::RunSummary& summary) {
  std::vector<std::pair<double, std::string>> lines;
  for (const proto::WorkerLoss& loss : summary.worker_loss()) {
    lines.emplace_back(loss.seconds(), absl::StrCat(LostLine(loss, absl::StrCat("worker ", loss.worker())),
                                                    OmittedText(loss.unrecorded_samples())));
  }
  for (const proto::ServerLoss& loss : summary.server_loss()) {
    lines.emplace_back(loss.seconds(), LostLine(loss, absl::StrCat("ps ", loss.server())));
  }
  for (const proto::GroupChange& change : summary.group_change()) {
    lines.emplace_back(change.seconds(), ChangeLine(change));
  }
  for (const proto::ChiefLoss& loss : summary.chief_loss()) {
    lines.emplace_back(loss.seconds(),
                       absl::StrCat("after ", TimeText(loss.seconds()), " another chief took over; for ",
                                    TimeText(loss.absent_seconds()), " there was no chief"));
  }
  std::stable_sort(lines.begin(), lines.end(),
                   [](const auto& one, const auto& other) { return one.first < other.first; });
  std::vector<std::string> texts;
  for (auto& [seconds, text] : lines) texts.push_back(std::move(text));
  return texts;
}

}  // namespace tethys
