#include "runtime/chief/journal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "runtime/chief/interval_set.h"
#include "runtime/chief/journal_check.h"
#include "tests/testing/temp_directory.h"

namespace tethys {
namespace {

using ::testing::HasSubstr;

// The journal line of an attempt that begins at `position` of `epoch`. An epoch has ten positions, unless the
// test says otherwise.
std::string Attempt(int64_t epoch, int64_t position, int servers = 0, int64_t epoch_length = 10) {
  proto::TrainingState state;
  state.set_epoch(epoch);
  state.set_position(position);
  state.set_train_samples(10);
  return journal::Attempt(state, epoch_length, 2, servers, "mirrored");
}
std::string End(int64_t epoch, int64_t position) {
  proto::TrainingState state;
  state.set_epoch(epoch);
  state.set_position(position);
  return journal::End(state);
}
std::string Used(int64_t begin, int64_t count) { return journal::Used(0, 0, begin, count); }
std::string Applied(int server, int64_t begin, int64_t count) {
  proto::AppliedPush push;
  push.set_sample_begin(begin);
  push.set_sample_count(count);
  return journal::Applied(server, push);
}

void ExpectGood(const std::string& text, int64_t samples) {
  const auto result = journal::Check(text);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->samples, samples);
}
void ExpectBad(const std::string& text, const std::string& fragment) {
  const auto result = journal::Check(text);
  ASSERT_FALSE(result.ok());
  EXPECT_TRUE(absl::IsDataLoss(result.status()));
  EXPECT_THAT(std::string(result.status().message()), HasSubstr(fragment));
}

TEST(JournalCheckTest, CompleteEpochsWithSamplesInAnyOrderPassTheCheck) {
  ExpectGood(Attempt(0, 0) + Used(5, 5) + Used(0, 5) + Used(10, 10) + Used(20, 0) + End(2, 0), 20);
}

TEST(JournalCheckTest, ResumeAtAnEpochStartWithAnotherEpochLengthUndoesUsesFromThatEpochOn) {
  // The next attempt begins at the start of epoch 1, and so undoes the four samples used in epoch 1.
  const std::string first = Attempt(0, 0) + Used(0, 10) + Used(10, 4);
  ExpectGood(first + Attempt(1, 0, 0, 30) + Used(30, 30) + End(2, 0), 40);
  ExpectGood(first + Attempt(1, 0, 0, 5) + Used(5, 5) + End(2, 0), 15);
  ExpectBad(first + Attempt(1, 0, 0, 30) + Used(30, 29) + End(2, 0), "position 29 of epoch 1 was not used");
  ExpectBad(Attempt(0, 0) + Used(0, 9) + Attempt(1, 0, 0, 30) + Used(30, 30) + End(2, 0),
            "position 9 of epoch 0 was not used");
}

TEST(JournalCheckTest, MissingSampleFailsTheCheckAndIsNamed) {
  ExpectBad(Attempt(0, 0) + Used(0, 10) + Used(10, 4) + Used(15, 5) + End(2, 0),
            "position 4 of epoch 1 was not used");
}

TEST(JournalCheckTest, SampleUsedTwiceFailsTheCheckAndIsNamed) {
  ExpectBad(Attempt(0, 0) + Used(0, 10) + Used(9, 1) + End(1, 0), "position 9 of epoch 0 was used twice");
}

TEST(JournalCheckTest, ResumeUndoesUsesAfterThePositionWhereItStarts) {
  ExpectGood(Attempt(0, 0) + Used(0, 4) + Used(4, 4) + Attempt(0, 4) + Used(4, 6) + End(1, 0), 10);
  ExpectBad(Attempt(0, 0) + Used(0, 3) + Used(4, 4) + Attempt(0, 4) + Used(4, 6) + End(1, 0), "position 3");
}

TEST(JournalCheckTest, ResumeFromAnEarlierState_UndoesUsesOfAllAttemptsAfterThatState) {
  const std::string text = Attempt(0, 0) + Used(0, 4) + Used(4, 4) + Attempt(0, 8) + Used(8, 2);
  ExpectGood(text + Attempt(0, 4) + Used(4, 6) + End(1, 0), 10);
  ExpectBad(text + Attempt(0, 4) + Used(5, 5) + End(1, 0), "position 4 of epoch 0 was not used");
  ExpectGood(text + Attempt(0, 0) + Used(0, 10) + End(1, 0), 10);
}

TEST(JournalCheckTest, AttemptThatStartsWithinAUsedBatch_IsRefused) {
  ExpectBad(Attempt(0, 0) + Used(0, 8) + Attempt(0, 4) + Used(4, 6) + End(1, 0), "journal line 2: 8 samples");
}

TEST(JournalCheckTest, BatchThatCrossesTheEpochEnd_IsRefused) {
  ExpectBad(Attempt(0, 0) + Used(8, 4), "journal line 2: 4 samples from position 8 of epoch 0 extend beyond");
}

TEST(JournalCheckTest, UseOfASampleBeyondTheEndOfTheJob_FailsTheCheckAndIsNamed) {
  ExpectBad(Attempt(0, 0) + Used(0, 10) + Used(10, 1) + End(1, 0), "position 0 of epoch 1 was used");
}

// The file is longer than the reader's buffer, so some lines cross its boundaries.
TEST(JournalCheckTest, FileLongerThanTheReadBuffer_IsCheckedLikeAShortFile) {
  const testing::TempDirectory directory;
  const std::string path = directory.Path("journal");
  const std::string member = absl::StrCat("member worker 0 1 ", std::string(3 << 20, 'x'), " y\n");
  std::string text = Attempt(0, 0) + member;
  for (int64_t begin = 0; begin < 1'000'000; begin += 5) absl::StrAppend(&text, Used(begin, 5));
  const auto check = [&](const std::string& end) {
    std::ofstream(path, std::ios::trunc) << text << end;
    return journal::CheckFile(path);
  };
  auto result = check(End(100'000, 0) + "used 0 0 torn");
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->samples, 1'000'000);
  EXPECT_TRUE(result->ended);
  EXPECT_EQ(check(End(100'001, 0)).status(), journal::Check(text + End(100'001, 0)).status());
}

TEST(JournalCheckTest, UnreadableFile_IsUnavailableAndNotDataLoss) {
  const absl::Status status = journal::CheckFile("/no/such/journal").status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("cannot read /no/such/journal: No such file"));
}

TEST(IntervalSetTest, AdjacentIntervals_AreMerged) {
  IntervalSet set;
  for (const auto& [begin, end] : {std::pair(0, 2), std::pair(6, 8), std::pair(4, 6), std::pair(2, 4)}) {
    EXPECT_EQ(set.Add(begin, end), IntervalSet::kNone);
  }
  EXPECT_EQ(set.intervals().size(), 1u);
  EXPECT_EQ(set.count(), 8);
  EXPECT_EQ(set.Add(7, 9), 7);
  EXPECT_EQ(set.Add(10, 12), IntervalSet::kNone);
  EXPECT_EQ(set.Add(8, 11), 10);
  EXPECT_EQ(set.count(), 10);
}

TEST(JournalCheckTest, UnfinishedJobIsCheckedOnlyForSamplesUsedTwice) {
  ExpectGood(Attempt(0, 0) + Used(0, 2) + Used(6, 2), 4);
  ExpectBad(Attempt(0, 0) + Used(0, 2) + Used(1, 2), "used twice");
}

TEST(JournalCheckTest, SampleThatOneServerDidNotApplyFailsTheCheckNamingTheServer) {
  const std::string used = Attempt(0, 0, 2) + Used(0, 10) + Applied(0, 0, 10);
  ExpectGood(used + Applied(1, 0, 5) + Applied(1, 5, 5) + End(1, 0), 10);
  ExpectBad(used + End(1, 0), "ps 1");
  ExpectBad(used + Applied(1, 0, 10) + Applied(1, 3, 2) + End(1, 0), "ps 1");
}

TEST(JournalCheckTest, TornBatchIsNotMissingOnServersThatDidNotApplyIt) {
  const std::string begin = Attempt(0, 0, 2) + Used(0, 10) + Applied(0, 0, 10) + Applied(1, 0, 6);
  ExpectBad(begin + End(1, 0), "position 6 of epoch 0 was not used by ps 1");
  ExpectGood(begin + journal::Torn(1, 6, 4, {0}) + End(1, 0), 10);
  ExpectBad(begin + journal::Torn(1, 6, 4, {1}) + End(1, 0), "used twice by ps 0");
}

TEST(JournalCheckTest, SamplesOfADroppedRemainderAreNotMissing) {
  ExpectGood(Attempt(0, 0) + Used(0, 8) + journal::EpochDone(0, 8) + Used(10, 8) + journal::EpochDone(1, 8) +
                 End(2, 0),
             16);
  ExpectBad(Attempt(0, 0) + Used(0, 8) + Used(8, 1) + journal::EpochDone(0, 8) + End(1, 0),
            "though it should not have been used");
}

TEST(JournalCheckTest, PartlyWrittenLastLineIsIgnored) {
  ExpectGood(Attempt(0, 0) + Used(0, 4) + "used 0 0 4 60", 4);
}

TEST(JournalCheckTest, DamagedTextIsRefused) {
  EXPECT_TRUE(absl::IsDataLoss(journal::Check("").status()));
  EXPECT_TRUE(absl::IsDataLoss(journal::Check("used 0 0 0 1\n").status()));
  EXPECT_TRUE(absl::IsDataLoss(journal::Check("attempt 0 0 0 0 1 0 local\n").status()));
  EXPECT_TRUE(absl::IsDataLoss(journal::Check(Attempt(0, 0) + "used 0 0 zero 1\n").status()));
}

TEST(JournalCheckTest, NumbersOutOfRangeInAJournalAreRefused) {
  const std::string most = std::to_string(INT64_MAX);
  ExpectBad(Attempt(0, 0) + "used 0 0 0 " + most + "\n", "line 2: field 4 is not a number from 0 to");
  ExpectBad("attempt 0 0 0 10 1 " + most + " ps_sync\n", "line 1: field 6 is not a number from 0 to");
  ExpectBad(absl::StrCat("attempt 0 ", int64_t{1} << 60, " 0 10 1 0 local\n"), "no position 0 of epoch");
  ExpectBad(Attempt(0, 0) + End(int64_t{1} << 57, 0), "position 0 of epoch 0 was not used");
}

TEST(JournalTest, ControlCharactersInTextsFromTasksAreReplaced) {
  proto::Member member;
  member.set_role(proto::WORKER);
  member.set_host("a\nused 0 0 0 10");
  member.set_data_address("b\r\n");
  EXPECT_EQ(journal::Member(member), "member worker 0 0 a?used 0 0 0 10 b??\n");
  EXPECT_EQ(journal::Lost(proto::PS, 1, "c\nd"), "lost ps 1 c?d\n");
}

}  // namespace
}  // namespace tethys
