// Writes the actions that the chief's pure classes return as short texts, for their tests.
#ifndef TETHYS_TESTS_RUNTIME_CHIEF_ACTION_TEXT_H_
#define TETHYS_TESTS_RUNTIME_CHIEF_ACTION_TEXT_H_

#include <string>
#include <utility>
#include <vector>

#include "runtime/chief/chief_actions.h"

namespace tethys {

// "w0 run" (an order to worker 0), "p1 save" (to server 1), "open", "commit", "abandon", "end OK". Empty for
// answers to heartbeats and for actions that are not an order, part of a save or the end of the job.
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

}  // namespace tethys

#endif  // TETHYS_TESTS_RUNTIME_CHIEF_ACTION_TEXT_H_
