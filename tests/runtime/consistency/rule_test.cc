// Tests the consistency rules by scenarios (scripts/README.md), and by properties that must hold for every
// order of arrivals.
#include "runtime/consistency/rule.h"

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <random>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "runtime/base/file.h"

namespace tethys {
namespace {

namespace fs = std::filesystem;

std::unique_ptr<ConsistencyRule> RuleOf(const std::string& config, int workers, int64_t batch) {
  proto::ParameterServer message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(config, &message)) << config;
  return CreateRule(message, workers, batch);
}

class Scenario {
 public:
  std::string Do(const std::string& command) {
    const std::vector<std::string> words = absl::StrSplit(command, ' ');
    if (words[0] == "rule") return Make(command.substr(5));
    if (words.size() < 2 || rule_ == nullptr || !absl::SimpleAtoi(words[1], &push_.worker)) return "unknown";
    const int worker = push_.worker;
    uint64_t number = 0;
    if (words.size() > 2 && !absl::SimpleAtoi(words[2], &number)) return "unknown";
    if (words[0] == "push" || words[0] == "open") {
      if (const std::string refused = Open(number, words); !refused.empty()) return refused;
      return words[0] == "open" ? "ok" : Make(rule_->Arrived(worker));
    }
    if (words[0] == "arrive") return Make(rule_->Arrived(worker));
    if (words[0] == "may") return rule_->MayBegin(worker, number) ? "yes" : "no";
    if (words[0] == "out") return Make(rule_->TakesPart(worker, false, 0));
    if (words[0] == "in") return Make(rule_->TakesPart(worker, true, number));
    if (words[0] != "replace") return "unknown";
    rule_->Replaced(worker);
    return "ok";
  }

 private:
  std::string Make(const std::string& text) {
    const std::vector<std::string> parts = absl::StrSplit(text, "; ");
    int workers = 0;
    if (parts.size() != 3 || !absl::SimpleAtoi(absl::StripSuffix(parts[1], " workers"), &workers) ||
        !absl::SimpleAtoi(absl::StripPrefix(parts[2], "batch "), &batch_)) {
      return "unknown";
    }
    rule_ = RuleOf(parts[0], workers, batch_);
    return rule_->lock_step() ? "in lock step" : "made";
  }

  // Opens a push. Returns the reason if the push is refused, otherwise "".
  std::string Open(uint64_t step, const std::vector<std::string>& words) {
    push_ = {.worker = push_.worker,
             .step = step,
             .version = version_,
             .samples = 1,
             .global_samples = batch_,
             .position = step * static_cast<uint64_t>(batch_)};
    for (size_t i = 3; i < words.size(); ++i) {
      const std::pair<std::string, std::string> field = absl::StrSplit(words[i], '=');
      int64_t value = 0;
      if (!absl::SimpleAtoi(field.second, &value)) return "unknown";
      if (field.first == "samples") push_.samples = value;
      if (field.first == "global") push_.global_samples = value;
      if (field.first == "at") push_.position = static_cast<uint64_t>(value);
      if (field.first == "version") push_.version = static_cast<uint64_t>(value);
    }
    const absl::Status checked = rule_->Check(push_, version_);
    if (!checked.ok()) return absl::StrCat("refused: ", StatusText(checked));
    rule_->Open(push_);
    return "";
  }

  std::string Make(const std::vector<DueUpdate>& due) {
    if (due.empty()) return "wait";
    std::vector<std::string> words;
    for (const DueUpdate& update : due) {
      const std::string workers = absl::StrJoin(update.workers, "+");
      words.push_back(update.divisor == 0 ? absl::StrCat(workers, " none")
                                          : absl::StrCat(workers, " /", update.divisor));
      for (const int worker : update.workers) rule_->Close(worker);
      if (update.divisor > 0) ++version_;
    }
    return absl::StrJoin(words, "; ");
  }

  std::unique_ptr<ConsistencyRule> rule_;
  int64_t batch_ = 0;
  uint64_t version_ = 0;
  PushedStep push_;
};

std::vector<std::string> Scripts() {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(TETHYS_SCRIPTS)) {
    if (entry.path().extension() == ".txt") names.push_back(entry.path().stem());
  }
  std::sort(names.begin(), names.end());
  return names;
}

class RuleScriptTest : public ::testing::TestWithParam<std::string> {};

TEST_P(RuleScriptTest, ScriptedScenarioGivesTheAnswersInTheScript) {
  const absl::StatusOr<std::string> text = ReadFile(absl::StrCat(TETHYS_SCRIPTS, "/", GetParam(), ".txt"));
  ASSERT_TRUE(text.ok()) << text.status();
  Scenario scenario;
  std::vector<std::string> lines;
  for (const absl::string_view line : absl::StrSplit(*text, '\n')) {
    if (line.empty() || line[0] == '#') {
      lines.emplace_back(line);
      continue;
    }
    const std::string command(line.substr(0, line.find(" -> ")));
    lines.push_back(absl::StrCat(command, " -> ", scenario.Do(command)));
  }
  EXPECT_EQ(absl::StrJoin(lines, "\n"), *text);
}

INSTANTIATE_TEST_SUITE_P(All, RuleScriptTest, ::testing::ValuesIn(Scripts()),
                         [](const auto& script) { return script.param; });

// The result of a simulation in which workers push in a random order, each only when the rule permits.
struct Trace {
  std::vector<DueUpdate> updates;
  uint64_t widest = 0;  // The largest number of applied pushes by which a worker led the slowest.
  bool all_done = false;
};

Trace RandomOrder(ConsistencyRule& rule, int workers, uint64_t steps, uint32_t seed) {
  Trace trace;
  std::mt19937 random(seed);
  std::vector<uint64_t> sent(workers, 0), applied(workers, 0);
  std::vector<int> free(workers);
  for (int worker = 0; worker < workers; ++worker) free[worker] = worker;
  uint64_t version = 0;
  while (!free.empty()) {
    std::swap(free[random() % free.size()], free.back());
    const int worker = free.back();
    free.pop_back();
    const uint64_t step = sent[worker]++;
    const PushedStep push = {.worker = worker,
                             .step = step,
                             .version = version,
                             .samples = 1,
                             .global_samples = workers,
                             .position = step * static_cast<uint64_t>(workers)};
    EXPECT_TRUE(rule.Check(push, version).ok()) << rule.Check(push, version);
    EXPECT_TRUE(rule.MayBegin(worker, step)) << "an answered worker may begin";
    rule.Open(push);
    for (const DueUpdate& update : rule.Arrived(worker)) {
      trace.updates.push_back(update);
      ++version;
      for (const int due : update.workers) {
        ++applied[due];
        rule.Close(due);
        if (sent[due] < steps) free.push_back(due);
      }
    }
    const auto [least, most] = std::minmax_element(applied.begin(), applied.end());
    trace.widest = std::max(trace.widest, *most - *least);
  }
  trace.all_done = applied == std::vector<uint64_t>(workers, steps);
  return trace;
}

TEST(RuleTest, StalenessBoundHoldsInAnyOrderAndNoWorkerWaitsForever) {
  for (const uint64_t bound : {0, 1, 3}) {
    for (uint32_t seed = 0; seed < 20; ++seed) {
      const auto rule = RuleOf(absl::StrCat("stale_synchronous { bound: ", bound, " }"), 5, 100);
      const Trace trace = RandomOrder(*rule, 5, 40, seed);
      EXPECT_TRUE(trace.all_done);
      EXPECT_LE(trace.widest, bound);
    }
  }
}

TEST(RuleTest, StalenessBoundOfZeroGivesTheUpdatesOfBulkSynchronousTraining) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    const auto stale = RuleOf("stale_synchronous { bound: 0 gradient_scale: GLOBAL_MEAN }", 4, 100);
    const auto bulk = RuleOf("bulk_synchronous {}", 4, 100);
    EXPECT_EQ(RandomOrder(*stale, 4, 10, seed).updates, RandomOrder(*bulk, 4, 10, seed + 1).updates);
  }
}

TEST(RuleTest, AsynchronousWorkersNeverWait) {
  const auto rule = RuleOf("asynchronous {}", 5, 100);
  const Trace trace = RandomOrder(*rule, 5, 40, 1);
  EXPECT_TRUE(trace.all_done);
  EXPECT_EQ(trace.updates.size(), 5 * 40);
  EXPECT_GT(trace.widest, 3);
}

}  // namespace
}  // namespace tethys
