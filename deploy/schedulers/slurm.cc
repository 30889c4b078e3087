#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "deploy/schedulers/scheduler_environment.h"
#include "deploy/schedulers/variables.h"

namespace tethys {
namespace {

constexpr size_t kMaxHosts = 65536;
constexpr size_t kMaxNameBytes = 255;
constexpr size_t kMaxDigits = 10;
constexpr int kMaxGpus = 1024;  // The most GPUs of a node.

constexpr char kGpusPerTask[] = "SLURM_GPUS_PER_TASK";
constexpr char kVisibleGpus[] = "CUDA_VISIBLE_DEVICES";
constexpr char kRemedy[] = "start this command by srun";

bool IsDigits(absl::string_view text) {
  return !text.empty() && text.size() <= kMaxDigits &&
         text.find_first_not_of("0123456789") == absl::string_view::npos;
}

// "01-03,7" is 01, 02, 03, 7: the numbers of a range have as many digits as its first number.
absl::StatusOr<std::vector<std::string>> ParseRanges(absl::string_view text) {
  std::vector<std::string> numbers;
  for (absl::string_view range : absl::StrSplit(text, ',')) {
    const std::pair<absl::string_view, absl::string_view> ends =
        absl::StrSplit(range, absl::MaxSplits('-', 1));
    const absl::string_view last = ends.second.empty() ? ends.first : ends.second;
    uint32_t from = 0, to = 0;
    const bool numeric = IsDigits(ends.first) && IsDigits(last) && absl::SimpleAtoi(ends.first, &from) &&
                         absl::SimpleAtoi(last, &to);
    if (!numeric || from > to || range.back() == '-') {
      return absl::InvalidArgumentError(
          absl::StrCat("'", range, "' in brackets is no number and no range such as 01-03"));
    }
    if (to - from >= kMaxHosts - numbers.size()) {
      return absl::InvalidArgumentError(absl::StrCat("'", range, "' makes more than ", kMaxHosts, " hosts"));
    }
    for (uint64_t i = from; i <= to; ++i) {
      numbers.push_back(absl::StrFormat("%0*d", static_cast<int>(ends.first.size()), i));
    }
  }
  return numbers;
}

// Expands one entry of a list of hosts, with any number of brackets.
absl::StatusOr<std::vector<std::string>> ExpandEntry(absl::string_view entry) {
  if (entry.empty()) return absl::InvalidArgumentError("an entry is empty");
  std::vector<std::string> names = {""};
  while (!entry.empty()) {
    const size_t open = entry.find_first_of("[]");
    const absl::string_view text = entry.substr(0, open);
    if (names[0].size() + text.size() > kMaxNameBytes) {
      return absl::InvalidArgumentError(absl::StrCat("a name longer than ", kMaxNameBytes, " characters"));
    }
    for (std::string& name : names) absl::StrAppend(&name, text);
    if (open == absl::string_view::npos) break;
    const size_t close = entry.find_first_of("[]", open + 1);
    if (entry[open] != '[' || close == absl::string_view::npos || entry[close] != ']') {
      return absl::InvalidArgumentError(absl::StrCat("brackets do not match in '", entry, "'"));
    }
    TETHYS_ASSIGN_OR_RETURN(const std::vector<std::string> numbers,
                            ParseRanges(entry.substr(open + 1, close - open - 1)));
    if (names.size() * numbers.size() > kMaxHosts) {
      return absl::InvalidArgumentError(absl::StrCat("more than ", kMaxHosts, " hosts"));
    }
    std::vector<std::string> longer;
    for (const std::string& name : names) {
      for (const std::string& number : numbers) longer.push_back(name + number);
    }
    names = std::move(longer);
    entry.remove_prefix(close + 1);
  }
  return names;
}

absl::StatusOr<std::vector<std::string>> Nodes(const Environment& environment) {
  for (const char* variable : {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST"}) {
    const absl::optional<std::string> text = environment(variable);
    if (!text.has_value()) continue;
    const absl::StatusOr<std::vector<std::string>> nodes = ParseNodelist(*text);
    if (!nodes.ok())
      return BadVariable(variable, absl::StrCat("is '", *text, "': ", nodes.status().message()));
    return nodes;
  }
  return BadVariable("SLURM_JOB_NODELIST", absl::StrCat("is not set: ", kRemedy));
}

// Parses "2", or numbers by GPU type such as "a100:1,h100:1", whose sum is 2.
absl::StatusOr<int> GpusPerTask(absl::string_view text) {
  int sum = 0;
  for (absl::string_view entry : absl::StrSplit(text, ',')) {
    int count = 0;
    if (!absl::SimpleAtoi(entry.substr(entry.rfind(':') + 1), &count) || count < 1 || count > kMaxGpus) {
      return BadVariable(kGpusPerTask, absl::StrCat("is '", text, "', expected a number from 1 to ", kMaxGpus,
                                                    ", or such numbers by type as in a100:1"));
    }
    sum += count;
  }
  return sum;
}

// The number of GPUs in a list of indices or UUIDs. Slurm writes NoDevFiles for an empty list.
int CountGpus(absl::string_view list) {
  if (list.empty() || list == "NoDevFiles") return 0;
  return static_cast<int>(std::count(list.begin(), list.end(), ',')) + 1;
}

int SlurmPortOffset(const Environment& environment) {
  constexpr uint32_t kStepsApart = 8;
  uint32_t job = 0;
  uint32_t step = 0;
  if (!absl::SimpleAtoi(environment("SLURM_JOB_ID").value_or(""), &job)) job = 0;
  if (!absl::SimpleAtoi(environment("SLURM_STEP_ID").value_or(""), &step)) step = 0;
  return static_cast<int>((uint64_t{job} * kStepsApart + step) % 1000);
}

}  // namespace

absl::StatusOr<ScheduledTask> TaskFromSlurm(const SchedulerFacts& facts) {
  const Environment& environment = facts.environment;
  const int servers = facts.shape.servers;
  TETHYS_ASSIGN_OR_RETURN(const int process, VariableNumber(environment, "SLURM_PROCID", kRemedy));
  TETHYS_ASSIGN_OR_RETURN(const int processes, VariableNumber(environment, "SLURM_NTASKS", kRemedy));
  if (process >= processes) {
    return BadVariable("SLURM_PROCID", absl::StrCat("is ", process, ", but SLURM_NTASKS is ", processes));
  }
  if (processes < servers + 2) {
    return BadVariable("SLURM_NTASKS",
                       absl::StrCat("is ", processes, ", but ", ProcessesText(/*chief=*/true, servers, 1),
                                    " need ", servers + 2, ": give srun --ntasks"));
  }
  ScheduledTask task = TaskByNumber(process, processes - 1 - servers, servers);
  TETHYS_ASSIGN_OR_RETURN(task.hosts, Nodes(environment));
  task.chief_host = task.hosts[0];
  TETHYS_ASSIGN_OR_RETURN(task.host, VariableText(environment, "SLURMD_NODENAME", kRemedy));
  task.port_offset = SlurmPortOffset(environment);
  return task;
}

absl::StatusOr<bool> SlurmGivesOwnGpus(const Environment& environment) {
  const absl::optional<std::string> text = environment(kGpusPerTask);
  const absl::optional<std::string> visible = environment(kVisibleGpus);
  if (!text.has_value() || !visible.has_value()) return false;
  TETHYS_ASSIGN_OR_RETURN(const int per_task, GpusPerTask(*text));
  const int shown = CountGpus(*visible);
  if (shown == per_task) return true;
  for (const char* variable : {"SLURM_STEP_GPUS", "SLURM_JOB_GPUS"}) {
    const absl::optional<std::string> all = environment(variable);
    if (!all.has_value()) continue;
    if (shown == CountGpus(*all)) return false;
    return BadVariable(kVisibleGpus, absl::StrCat("is '", *visible, "', ", shown, " GPUs, but ", kGpusPerTask,
                                                  " is '", *text, "' and ", variable, " is '", *all,
                                                  "': one of these two variables must have as many GPUs as "
                                                  "CUDA_VISIBLE_DEVICES; let srun set CUDA_VISIBLE_DEVICES"));
  }
  return false;
}

absl::StatusOr<std::vector<std::string>> ParseNodelist(absl::string_view text) {
  std::vector<std::string> hosts;
  size_t begin = 0;
  int depth = 0;
  // Commas within brackets do not separate entries.
  for (size_t i = 0; i <= text.size(); ++i) {
    if (i < text.size() && text[i] == '[') ++depth;
    if (i < text.size() && text[i] == ']') --depth;
    if (i < text.size() && (text[i] != ',' || depth > 0)) continue;
    TETHYS_ASSIGN_OR_RETURN(const std::vector<std::string> names, ExpandEntry(text.substr(begin, i - begin)));
    hosts.insert(hosts.end(), names.begin(), names.end());
    if (hosts.size() > kMaxHosts) {
      return absl::InvalidArgumentError(absl::StrCat("more than ", kMaxHosts, " hosts"));
    }
    begin = i + 1;
  }
  return hosts;
}

}  // namespace tethys
