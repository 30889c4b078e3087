#include "runtime/chief/chief_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

  const testing::TempDirectory dir_;
  const std::string path_ = dir_.path() + "/chief.log";
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

}  // namespace
}  // namespace tethys
