#include "deploy/schedulers/variables.h"

#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "deploy/text.h"

namespace tethys {
namespace {

constexpr int kMaxTasks = 1 << 20;

}  // namespace

absl::Status BadVariable(absl::string_view variable, absl::string_view problem) {
  return absl::InvalidArgumentError(absl::StrCat(variable, ": ", problem));
}

absl::StatusOr<std::string> VariableText(const Environment& environment, const std::string& variable,
                                         absl::string_view remedy) {
  const absl::optional<std::string> text = environment(variable);
  if (text.has_value() && !text->empty()) return *text;
  return BadVariable(variable, absl::StrCat("is ", text.has_value() ? "empty" : "not set", ": ", remedy));
}

absl::StatusOr<int> VariableNumber(const Environment& environment, const std::string& variable,
                                   absl::string_view remedy) {
  TETHYS_ASSIGN_OR_RETURN(const std::string text, VariableText(environment, variable, remedy));
  int value = 0;
  if (absl::SimpleAtoi(text, &value) && value >= 0 && value <= kMaxTasks) return value;
  return BadVariable(variable, absl::StrCat("is '", text, "', expected a number from 0 to ", kMaxTasks));
}

std::string ProcessesText(bool chief, int servers, int workers) {
  std::vector<std::string> parts;
  if (chief) parts.push_back("a chief");
  if (servers > 0) parts.push_back(PluralText(servers, "server"));
  parts.push_back(PluralText(workers, "worker"));
  return NamesText(parts);
}

ScheduledTask TaskByNumber(int number, int workers, int servers) {
  ScheduledTask task;
  task.workers = workers;
  task.servers = servers;
  task.starts_chief = number == 0;
  if (number == 0) {
    task.role = proto::CHIEF;
  } else if (number <= servers) {
    task.role = proto::PS;
    task.index = number - 1;
  } else {
    task.role = proto::WORKER;
    task.index = number - 1 - servers;
  }
  return task;
}

}  // namespace tethys
