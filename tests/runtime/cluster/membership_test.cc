// Tests memberships by scenarios (membership_scripts/README.md).
#include "runtime/cluster/membership.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/types/optional.h"
#include "runtime/base/file.h"
#include "tests/runtime/chief/small_job.h"

namespace tethys {
namespace {

namespace fs = std::filesystem;

std::string TextOf(const Membership& membership) {
  std::vector<std::string> words = {absl::StrCat("g", membership.generation())};
  for (const proto::Role role : {proto::WORKER, proto::PS}) {
    for (const TaskId task : membership.Members(role)) {
      words.push_back(
          absl::StrCat(role == proto::PS ? "p" : "w", task.index, ":", membership.IncarnationOf(task)));
    }
  }
  std::string text = absl::StrJoin(words, " ");
  if (membership.placement().shard_size() > 0) absl::StrAppend(&text, "; shards");
  for (const proto::Shard& shard : membership.placement().shard())
    absl::StrAppend(&text, " ", shard.server());
  return text;
}

class Scenario {
 public:
  std::string Do(absl::string_view command) {
    const std::vector<std::string> words = absl::StrSplit(command, ' ');
    if (words[0] == "job") {
      plan_ = Plan(std::string(command.substr(4)));
      now_ = Membership::Of(plan_);
      return TextOf(*now_);
    }
    if (!now_.has_value()) return "unknown";
    if (words[0] == "regroup") return Become(now_->Regroup(Workers(words)));
    if (words.size() < 2) return "unknown";
    if (words[0] == "place") return Become(now_->Place(Placement(words)));
    const TaskId task = Task(words[1]);
    uint32_t incarnation = 0;
    if (words.size() > 2 && !absl::SimpleAtoi(words[2], &incarnation)) return "unknown";
    if (words[0] == "add") return Become(now_->Add(task, incarnation));
    if (words[0] == "remove") return Become(now_->Remove(task));
    if (words[0] == "replace") return Become(now_->Replace(task, incarnation));
    if (words[0] == "rank") return absl::StrCat(now_->RankOf(task));
    if (words[0] == "share") return absl::StrCat(now_->ShareOf(task), " of ", now_->shares());
    return "unknown";
  }

 private:
  static TaskId Task(const std::string& word) {
    int index = -1;
    EXPECT_TRUE(absl::SimpleAtoi(word.substr(1), &index)) << word;
    return {word[0] == 'p' ? proto::PS : proto::WORKER, index};
  }
  // "w0:1", "w2:3".
  static std::map<TaskId, uint32_t> Workers(const std::vector<std::string>& words) {
    std::map<TaskId, uint32_t> workers;
    for (size_t i = 1; i < words.size(); ++i) {
      const std::pair<std::string, std::string> parts = absl::StrSplit(words[i], ':');
      EXPECT_TRUE(absl::SimpleAtoi(parts.second, &workers[Task(parts.first)])) << words[i];
    }
    return workers;
  }
  proto::Placement Placement(const std::vector<std::string>& words) const {
    proto::Placement placement = plan_.placement();
    placement.clear_shard();
    for (size_t i = 1; i < words.size(); ++i) {
      proto::Shard& shard = *placement.add_shard();
      if (static_cast<int>(i) <= plan_.placement().shard_size()) shard = plan_.placement().shard(i - 1);
      int server = -1;
      EXPECT_TRUE(absl::SimpleAtoi(words[i], &server)) << words[i];
      shard.set_server(server);
    }
    return placement;
  }
  // Makes `next` the current membership and returns it as text. The membership must not change when it is
  // saved and restored.
  std::string Become(const absl::StatusOr<Membership>& next) {
    if (!next.ok()) return absl::StrCat("refused: ", next.status().message());
    proto::MembershipState state;
    next->Save(state);
    const absl::StatusOr<Membership> restored = Membership::Restore(plan_, state);
    if (!restored.ok()) return absl::StrCat("not restored: ", restored.status().message());
    EXPECT_EQ(TextOf(*restored), TextOf(*next));
    now_ = *restored;
    return TextOf(*now_);
  }

  proto::JobPlan plan_;
  absl::optional<Membership> now_;
};

std::vector<std::string> Scripts() {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(TETHYS_SCRIPTS)) {
    if (entry.path().extension() == ".txt") names.push_back(entry.path().stem());
  }
  std::sort(names.begin(), names.end());
  return names;
}

class MembershipScriptTest : public ::testing::TestWithParam<std::string> {};

TEST_P(MembershipScriptTest, ScriptedScenarioGivesTheAnswersInTheScript) {
  const absl::StatusOr<std::string> text = ReadFile(absl::StrCat(TETHYS_SCRIPTS, "/", GetParam(), ".txt"));
  ASSERT_TRUE(text.ok()) << text.status();
  Scenario scenario;
  std::vector<std::string> lines;
  for (const absl::string_view line : absl::StrSplit(*text, '\n')) {
    if (line.empty() || line[0] == '#') {
      lines.emplace_back(line);
      continue;
    }
    const absl::string_view command = line.substr(0, line.find(" -> "));
    lines.push_back(absl::StrCat(command, " -> ", scenario.Do(command)));
  }
  EXPECT_EQ(absl::StrJoin(lines, "\n"), *text);
}

INSTANTIATE_TEST_SUITE_P(All, MembershipScriptTest, ::testing::ValuesIn(Scripts()),
                         [](const auto& script) { return script.param; });

proto::MembershipState SavedTwoWorkers() {
  proto::MembershipState state;
  Membership::Of(Plan("workers: 2 strategy { mirrored {} }")).Save(state);
  return state;
}

TEST(MembershipTest, MembershipStateThatNoJobCanHaveIsRefused) {
  const proto::JobPlan plan = Plan("workers: 2 strategy { mirrored {} }");
  const auto refuses = [&](const proto::MembershipState& state) {
    return absl::IsInvalidArgument(Membership::Restore(plan, state).status());
  };
  proto::MembershipState state = SavedTwoWorkers();
  EXPECT_FALSE(refuses(state));
  state.set_generation(0x10000);
  EXPECT_TRUE(refuses(state));
  state = SavedTwoWorkers();
  state.mutable_seat(0)->set_member(false);
  EXPECT_FALSE(refuses(state));
  state.mutable_seat(1)->set_member(false);
  EXPECT_TRUE(refuses(state)) << "no worker";
  state.add_seat();
  EXPECT_TRUE(refuses(state)) << "three seats";
  state = SavedTwoWorkers();
  state.mutable_seat()->SwapElements(0, 1);
  EXPECT_TRUE(refuses(state));
}

TEST(MembershipTest, NumberOfGenerationsOfOneChiefIsLimited) {
  const proto::JobPlan plan = Plan("workers: 2 strategy { mirrored {} }");
  proto::MembershipState state = SavedTwoWorkers();
  for (proto::MembershipState::Seat& seat : *state.mutable_seat()) seat.set_incarnation(1);
  state.set_generation(0x2fffe);
  const absl::StatusOr<Membership> last = Membership::Restore(plan, state)->Replace({proto::WORKER, 0}, 2);
  ASSERT_TRUE(last.ok()) << last.status();
  EXPECT_EQ(last->generation(), 0x2ffffu);
  EXPECT_TRUE(absl::IsFailedPrecondition(last->Replace({proto::WORKER, 0}, 3).status()));
}

}  // namespace
}  // namespace tethys
