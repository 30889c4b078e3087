#include "runtime/chief/chief_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/base/file.h"
#include "tests/testing/temp_directory.h"

namespace tethys {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ChiefLogTest : public ::testing::Test {
 protected:
  static proto::ChiefRecord At(int64_t now) {
    proto::ChiefRecord record;
    record.set_now_ns(now);
    record.set_tick(true);
    return record;
  }
  // The times of the records that a successor reads; it then ends.
  std::vector<int64_t> Times() {
    std::vector<proto::ChiefRecord> records;
    const auto log = ChiefLog::Continue(path_, records);
    EXPECT_TRUE(log.ok()) << log.status();
    std::vector<int64_t> times;
    for (const proto::ChiefRecord& record : records) times.push_back(record.now_ns());
    return times;
  }
  absl::Status Error() {
    std::vector<proto::ChiefRecord> records;
    return ChiefLog::Continue(path_, records).status();
  }
  // A process writes these records to a new log, and ends.
  void Write(const std::vector<int64_t>& times, int64_t most_bytes = ChiefLog::kMostBytes) {
    const auto log = ChiefLog::Create(path_, most_bytes);
    ASSERT_TRUE(log.ok()) << log.status();
    for (const int64_t now : times) (*log)->Append(At(now));
  }

  // A record of `bytes` bytes and a few more.
  static proto::ChiefRecord Large(int64_t bytes) {
    proto::ChiefRecord record = At(1);
    record.set_overload(std::string(bytes, 'x'));
    return record;
  }

  const testing::TempDirectory dir_;
  const std::string path_ = dir_.path() + "/chief.log";
  const std::string new_path_ = path_ + ChiefLog::kNewSuffix;
};

TEST_F(ChiefLogTest, RecordsAreReadInOrder) {
  Write({1, 2, 3});
  EXPECT_THAT(Times(), ElementsAre(1, 2, 3));
}

TEST_F(ChiefLogTest, RecordThatWasCutOffIsRemoved) {
  Write({1});
  const std::string one = *ReadFile(path_);
  for (size_t cut = 1; cut < one.size(); ++cut) {
    ASSERT_TRUE(WriteFileAtomically(path_, one + one.substr(0, cut)).ok());
    std::vector<proto::ChiefRecord> records;
    (*ChiefLog::Continue(path_, records))->Append(At(2));
    ASSERT_EQ(records.size(), 1) << cut;
    ASSERT_THAT(Times(), ElementsAre(1, 2)) << cut;
  }
}

TEST_F(ChiefLogTest, DamagedRecordIsAnErrorThatNamesItsPlace) {
  Write({1});
  const size_t first = ReadFile(path_)->size();
  Write({1, 2});
  std::string bytes = *ReadFile(path_);
  bytes.back() ^= 1;
  ASSERT_TRUE(WriteFileAtomically(path_, bytes).ok());
  EXPECT_TRUE(absl::IsDataLoss(Error())) << Error();
  EXPECT_THAT(std::string(Error().message()), HasSubstr(absl::StrCat("the record at byte ", first)));
}

TEST_F(ChiefLogTest, LogBeyondItsLargestLengthIsRemoved) {
  Write({1}, /*most_bytes=*/40);
  EXPECT_TRUE(FileExists(path_));
  Write({1, 2, 3, 4, 5}, /*most_bytes=*/40);
  EXPECT_FALSE(FileExists(path_));
  EXPECT_TRUE(absl::IsNotFound(Error()));
}

TEST_F(ChiefLogTest, NewLogReplacesTheOldOne) {
  Write({1});
  Write({2});
  EXPECT_THAT(Times(), ElementsAre(2));
}

TEST_F(ChiefLogTest, LogOfAProcessThatLivesIsRefused) {
  const auto log = ChiefLog::Create(path_);
  (*log)->Append(At(1));
  EXPECT_TRUE(absl::IsAlreadyExists(Error())) << Error();
}

TEST_F(ChiefLogTest, ReplacedLog_HasTheNewFirstRecordAndLaterOnes) {
  {
    const auto log = ChiefLog::Create(path_);
    for (const int64_t now : {1, 2, 3}) (*log)->Append(At(now));
    ASSERT_TRUE((*log)->Replace(At(4)).ok());
    (*log)->Append(At(5));
    EXPECT_FALSE(FileExists(new_path_));
    EXPECT_TRUE(absl::IsAlreadyExists(Error())) << "the new log is locked, too: " << Error();
  }
  EXPECT_THAT(Times(), ElementsAre(4, 5));
}

TEST_F(ChiefLogTest, ReplacedLog_CanBeContinuedAndReplacedAgain) {
  Write({1});
  std::vector<proto::ChiefRecord> records;
  {
    const auto log = ChiefLog::Continue(path_, records);
    ASSERT_TRUE((*log)->Replace(At(2)).ok());
  }
  {
    const auto log = ChiefLog::Continue(path_, records);
    (*log)->Append(At(3));
    ASSERT_TRUE((*log)->Replace(At(4)).ok());
  }
  EXPECT_THAT(Times(), ElementsAre(4));
}

TEST_F(ChiefLogTest, NewLogThatAKillLeftBesideTheLog_IsRemoved) {
  const auto leave = [&] {  // The process was killed before it renamed the new log.
    Write({7});
    EXPECT_EQ(rename(path_.c_str(), new_path_.c_str()), 0);
  };
  leave();
  Write({1, 2});
  EXPECT_FALSE(FileExists(new_path_)) << "a process that begins a log";
  leave();
  ASSERT_TRUE(WriteFileAtomically(path_, *ReadFile(new_path_) + *ReadFile(new_path_)).ok());
  EXPECT_THAT(Times(), ElementsAre(7, 7));
  EXPECT_FALSE(FileExists(new_path_)) << "a process that takes over";
  leave();
  EXPECT_TRUE(absl::IsNotFound(Error())) << "a new log alone is no log";
  ASSERT_TRUE(ChiefLog::Remove(path_).ok());
  EXPECT_FALSE(FileExists(new_path_));
}

TEST_F(ChiefLogTest, LeftoverOfANewLog_DoesNotGetIntoTheNextOne) {
  const auto log = ChiefLog::Create(path_);
  ASSERT_TRUE(WriteFileAtomically(new_path_, std::string(1000, '?')).ok());
  ASSERT_TRUE((*log)->Replace(At(1)).ok());
  EXPECT_LT(ReadFile(path_)->size(), 100);
}

TEST_F(ChiefLogTest, FailedReplacement_LeavesTheLogAsItWas) {
  {
    const auto log = ChiefLog::Create(path_, /*most_bytes=*/100);
    (*log)->Append(At(1));
    EXPECT_TRUE(absl::IsResourceExhausted((*log)->Replace(Large(100))));
    ASSERT_TRUE(CreateDirectories(new_path_).ok());
    EXPECT_FALSE((*log)->Replace(At(2)).ok());
    (*log)->Append(At(3));
  }
  EXPECT_THAT(Times(), ElementsAre(1, 3));
}

TEST_F(ChiefLogTest, LogIsLong_OnceRepeatingItTakesLongerThanItsFirstRecord) {
  constexpr int64_t kBytes = ChiefLog::kLongBytes;
  const auto log = ChiefLog::Create(path_);
  (*log)->Append(Large(kBytes - 100));
  EXPECT_FALSE((*log)->IsLong());
  (*log)->Append(Large(100));
  EXPECT_TRUE((*log)->IsLong());
  ASSERT_TRUE((*log)->Replace(Large(3 * kBytes)).ok());
  (*log)->Append(Large(2 * kBytes));
  EXPECT_FALSE((*log)->IsLong());
  (*log)->Append(Large(kBytes));
  EXPECT_TRUE((*log)->IsLong());
}

TEST_F(ChiefLogTest, ContinuedLog_IsLongAtTheSameLength) {
  const auto is_long = [&] {
    std::vector<proto::ChiefRecord> records;
    return (*ChiefLog::Continue(path_, records))->IsLong();
  };
  {
    const auto log = ChiefLog::Create(path_);
    (*log)->Append(Large(2 * ChiefLog::kLongBytes));
    (*log)->Append(Large(ChiefLog::kLongBytes));
  }
  EXPECT_FALSE(is_long());
  {
    std::vector<proto::ChiefRecord> records;
    (*ChiefLog::Continue(path_, records))->Append(Large(ChiefLog::kLongBytes));
  }
  EXPECT_TRUE(is_long());
}

}  // namespace
}  // namespace tethys
