// Writes the actions that the chief's pure classes return as short texts, for their tests.
#ifndef TETHYS_TESTS_RUNTIME_CHIEF_ACTION_TEXT_H_
#define TETHYS_TESTS_RUNTIME_CHIEF_ACTION_TEXT_H_

#include <string>
#include <utility>
#include <vector>

#include "proto/chief_state.pb.h"
#include "proto/telemetry.pb.h"
#include "runtime/chief/chief_actions.h"

namespace tethys {

// The text of an action: "w0 run" (an order to worker 0), "p1 save" (an order to server 1), "open", "commit",
// "abandon" or "end OK". The text is empty for a Pong order and for all other kinds of action.
inline std::string ActionText(const Action& action) {
  if (const auto* send = absl::get_if<SendOrder>(&action)) {
    const auto* field =
        send->order.GetDescriptor()->FindFieldByNumber(static_cast<int>(send->order.message_case()));
    if (field->name() == "pong") return "";
    return absl::StrCat(send->task.role == proto::PS ? "p" : "w", send->task.index, " ", field->name());
  }
  if (absl::holds_alternative<OpenSave>(action)) return "open";
  if (absl::holds_alternative<CommitSave>(action)) return "commit";
  if (absl::holds_alternative<AbandonSave>(action)) return "abandon";
  if (const auto* end = absl::get_if<EndJob>(&action)) {
    return absl::StrCat("end ", absl::StatusCodeToString(end->status.code()));
  }
  return "";
}

// The non-empty texts of `actions`, in order; clears `actions`.
inline std::vector<std::string> TakeTexts(Actions& actions) {
  std::vector<std::string> texts;
  for (const Action& action : std::exchange(actions, {})) {
    if (std::string text = ActionText(action); !text.empty()) texts.push_back(std::move(text));
  }
  return texts;
}

struct ActionWriter {
  static std::string Task(TaskId task) { return absl::StrCat(proto::Role_Name(task.role), " ", task.index); }
  std::string operator()(const SendOrder& send) const {
    return absl::StrCat("to ", Task(send.task), ": ", send.order.ShortDebugString());
  }
  std::string operator()(const WriteJournal& journal) const { return absl::StrCat("journal ", journal.line); }
  std::string operator()(const Report& report) const {
    if (!report.event.has_pulse()) return absl::StrCat("report ", report.event.ShortDebugString());
    proto::ProgressEvent event = report.event;
    event.mutable_pulse()->clear_machine();
    for (proto::TaskPulse& task : *event.mutable_pulse()->mutable_task()) {
      proto::TaskPulse kept;
      kept.set_role(task.role());
      kept.set_index(task.index());
      kept.set_host(task.host());
      kept.set_state(task.state());
      kept.set_step(task.step());
      kept.set_lag(task.lag());
      kept.set_silent_seconds(task.silent_seconds());
      task = kept;
    }
    return absl::StrCat("report ", event.ShortDebugString());
  }
  std::string operator()(const KeepRecords& keep) const {
    return absl::StrCat("records ", keep.clock_offset, " ", keep.records.ShortDebugString());
  }
  std::string operator()(const KeepResources& keep) const {
    std::string text = absl::StrCat("resources ", Task(keep.task), " ", keep.host, " ", keep.clock_offset);
    for (const proto::ResourceSample& sample : keep.samples) {
      absl::StrAppend(&text, " ", sample.ShortDebugString());
    }
    return text;
  }
  std::string operator()(const OpenSave& open) const {
    proto::StatisticsState statistics;
    statistics.mutable_mean()->Assign(open.statistics.mean.begin(), open.statistics.mean.end());
    for (const std::vector<float>& own : open.statistics.workers) {
      statistics.add_averaged()->mutable_value()->Assign(own.begin(), own.end());
    }
    return absl::StrCat("open ", open.id, " ", open.state.ShortDebugString(), " ",
                        statistics.ShortDebugString());
  }
  std::string operator()(const CommitSave&) const { return "commit"; }
  std::string operator()(const AbandonSave&) const { return "abandon"; }
  std::string operator()(const EndJob& end) const {
    return absl::StrCat("end ", StatusText(end.status), " by ", Task(end.culprit));
  }
};

// Every field of every action, except the measurements that are not part of a chief's state.
inline std::string FullText(const Actions& actions) {
  std::string text;
  for (const Action& action : actions) absl::StrAppend(&text, absl::visit(ActionWriter(), action), "\n");
  return text;
}

}  // namespace tethys

#endif  // TETHYS_TESTS_RUNTIME_CHIEF_ACTION_TEXT_H_
