// Tests that moving statistics in checkpoints are read as they were saved, and that damage to their file is
// detected.
#include "runtime/checkpoint/statistics_file.h"

#include <cmath>
#include <limits>

#include "runtime/checkpoint/checkpoint_format.h"
#include "tests/runtime/checkpoint/checkpoint_fixture.h"

namespace tethys {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

VariableSet StatisticsOf(const std::vector<std::pair<std::string, int64_t>>& statistics) {
  VariableSet set;
  for (const auto& [name, channels] : statistics) {
    EXPECT_TRUE(set.Add(name, {channels}, "channels", InitialValue::kZeros, 0, 0).ok());
  }
  return set;
}

class StatisticsFileTest : public CheckpointTest {
 protected:
  StatisticsFileTest() : CheckpointTest(QuickDirectory()) {}

  // An arena of statistics, different for each salt. Padding is 0.
  std::vector<float> Arena(float salt) const {
    std::vector<float> values(set_.arena_size());
    for (const Variable& variable : set_.variables()) {
      for (int64_t i = variable.range.begin; i < variable.range.end(); ++i) {
        values[i] = salt + 0.1f * static_cast<float>(i);
      }
    }
    return values;
  }

  absl::Status Commit(int64_t step, const MovingStatistics& values) {
    const auto writer = Begin(step);
    for (const int slot : {0, 1}) TETHYS_RETURN_IF_ERROR(writer->Write(slot, 0, Values(slot)));
    return writer->Commit({}, {}, {set_, values});
  }

  absl::StatusOr<MovingStatistics> Read(int64_t step, const VariableSet& expected) {
    TETHYS_ASSIGN_OR_RETURN(const auto reader, CheckpointReader::Open(Path(step), &model_));
    return reader->ReadStatistics(expected);
  }
  proto::CheckpointManifest Manifest(int64_t step) {
    return CheckpointReader::Open(Path(step), &model_).value()->manifest();
  }

  // Expects that opening the checkpoint of step 1 fails with an error that names the file.
  void ExpectDamageIsFound(const std::string& how) {
    const absl::Status status = CheckpointReader::Open(Path(1), &model_).status();
    ASSERT_TRUE(absl::IsDataLoss(status)) << how << ": " << status;
    ASSERT_THAT(std::string(status.message()), HasSubstr("step-1/statistics.safetensors")) << how;
  }

  const VariableSet set_ = StatisticsOf(
      {{"a/moving_mean", 3}, {"a/moving_variance", 3}, {"b/moving_mean", 17}, {"b/moving_variance", 17}});
};

TEST_F(StatisticsFileTest, StatisticsOfOneWorkerAreReadAsSaved) {
  const MovingStatistics saved = {.mean = Arena(0.3f), .workers = {Arena(0.3f)}};
  ASSERT_TRUE(Commit(1, saved).ok());
  EXPECT_EQ(Read(1, set_).value(), saved);
  EXPECT_EQ(*Load(Path(1), 0), Values(0));
  EXPECT_EQ(*Load(Path(1), 1), Values(1));
}

TEST_F(StatisticsFileTest, StatisticsOfThreeWorkersAreReadAsSaved) {
  const MovingStatistics saved = {.mean = Arena(7), .workers = {Arena(-1), Arena(2.5f), Arena(1e-30f)}};
  ASSERT_TRUE(Commit(1, saved).ok());
  EXPECT_EQ(Read(1, set_).value(), saved);
}

TEST_F(StatisticsFileTest, MeanStatisticsSavedWithoutStatisticsPerWorkerAreRead) {
  ASSERT_TRUE(Commit(1, {.mean = Arena(7)}).ok());
  EXPECT_EQ(Read(1, set_).value().mean, Arena(7));
}

TEST_F(StatisticsFileTest, SavingAStepAgainReplacesItsStatistics) {
  ASSERT_TRUE(Commit(1, {.mean = Arena(0), .workers = {Arena(1), Arena(2)}}).ok());
  const MovingStatistics later = {.mean = Arena(3), .workers = {Arena(3)}};
  ASSERT_TRUE(Commit(1, later).ok());
  EXPECT_EQ(Read(1, set_).value(), later);
}

TEST_F(StatisticsFileTest, ManifestHasFormatTwoOnlyIfTheCheckpointHasStatistics) {
  ASSERT_TRUE(Save(1).ok());
  EXPECT_EQ(Manifest(1).format(), 1u);
  EXPECT_FALSE(Manifest(1).has_statistics());
  EXPECT_FALSE(FileExists(Path(1) + "/statistics.safetensors"));
  ASSERT_TRUE(Commit(2, {.mean = Arena(0)}).ok());
  EXPECT_EQ(Manifest(2).format(), 2u);
  EXPECT_EQ(Manifest(2).statistics().name(), "statistics.safetensors");
  EXPECT_EQ(Manifest(2).statistics().bytes(), Contents(Path(2) + "/statistics.safetensors").size());
}

TEST_F(StatisticsFileTest, CheckpointOfALaterFormatIsRefused) {
  ASSERT_TRUE(Commit(1, {.mean = Arena(0)}).ok());
  proto::CheckpointManifest manifest = Manifest(1);
  manifest.set_format(3);
  Overwrite(Path(1) + "/manifest.textproto", EncodeManifest(manifest));
  const absl::Status status = CheckpointReader::Open(Path(1), &model_).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("format 3; this build reads formats 1 and 2"));
}

TEST_F(StatisticsFileTest, CheckpointWithoutStatisticsIsRefused) {
  ASSERT_TRUE(Save(1).ok());
  const absl::Status status = Read(1, set_).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("step-1 has no moving statistics (it is of format 1)"),
                    HasSubstr("batch normalisation ('a/moving_mean')")));
}

TEST_F(StatisticsFileTest, StatisticsThatDifferFromThoseOfTheJobAreRefusedNamingBoth) {
  ASSERT_TRUE(Commit(1, {.mean = Arena(0)}).ok());
  ASSERT_TRUE(Commit(2, {.mean = Arena(0), .workers = {Arena(1), Arena(2)}}).ok());
  const auto expect_refused = [this](const VariableSet& other, const std::string& difference) {
    for (const int64_t step : {1, 2}) {
      const absl::Status status = Read(step, other).status();
      EXPECT_TRUE(absl::IsFailedPrecondition(status)) << step << ": " << status;
      EXPECT_THAT(std::string(status.message()), HasSubstr(difference)) << step;
    }
  };
  expect_refused(StatisticsOf({{"a/moving_mean", 3}, {"a/moving_variance", 4}}),
                 "moving statistic 1 is 'a/moving_variance' [3] in the checkpoint and 'a/moving_variance' "
                 "[4] in the job");
  expect_refused(
      StatisticsOf({{"c/moving_mean", 3}}),
      "moving statistic 0 is 'a/moving_mean' [3] in the checkpoint and 'c/moving_mean' [3] in the job");
  expect_refused(StatisticsOf({{"a/moving_mean", 3}, {"a/moving_variance", 3}}),
                 "moving statistic 2 is 'b/moving_mean' [17] in the checkpoint and nothing in the job");
}

TEST_F(StatisticsFileTest, MissingMovingStatisticIsNamedInTheRefusal) {
  const VariableSet longer = StatisticsOf({{"a/moving_mean", 3},
                                           {"a/moving_variance", 3},
                                           {"b/moving_mean", 17},
                                           {"b/moving_variance", 17},
                                           {"c/moving_mean", 2}});
  ASSERT_TRUE(Commit(1, {.mean = Arena(0)}).ok());
  EXPECT_THAT(
      std::string(Read(1, longer).status().message()),
      HasSubstr("moving statistic 4 is nothing in the checkpoint and 'c/moving_mean' [2] in the job"));
  ASSERT_TRUE(Commit(2, {.mean = Arena(0), .workers = {Arena(1), Arena(2)}}).ok());
  const absl::Status status = Read(2, longer).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("'c/moving_mean' [2] in the job"));
}

TEST_F(StatisticsFileTest, EveryFlippedByteIsDetectedByOpen) {
  ASSERT_TRUE(Commit(1, {.mean = Arena(0), .workers = {Arena(1), Arena(2)}}).ok());
  const std::string file = Path(1) + "/statistics.safetensors", good = Contents(file);
  for (size_t byte = 0; byte < good.size(); ++byte) {
    std::string damaged = good;
    damaged[byte] ^= static_cast<char>(1 << byte % 8);
    Overwrite(file, damaged);
    ExpectDamageIsFound(absl::StrCat("byte ", byte));
  }
  Overwrite(file, good);
  EXPECT_TRUE(CheckpointReader::Open(Path(1), &model_).ok());
}

TEST_F(StatisticsFileTest, EveryTruncationIsDetectedByOpen) {
  ASSERT_TRUE(Commit(1, {.mean = Arena(0)}).ok());
  const std::string file = Path(1) + "/statistics.safetensors", good = Contents(file);
  for (size_t size = 0; size < good.size(); ++size) {
    Overwrite(file, good.substr(0, size));
    ExpectDamageIsFound(absl::StrCat(size, " bytes"));
  }
  Overwrite(file, good + '\0');
  ExpectDamageIsFound("one byte more");
}

TEST_F(StatisticsFileTest, MissingFileIsDetectedByOpen) {
  ASSERT_TRUE(Save(2).ok());
  ASSERT_TRUE(Commit(1, {.mean = Arena(0)}).ok());
  std::filesystem::remove(Path(1) + "/statistics.safetensors");
  ExpectDamageIsFound("without the file");
}

TEST_F(StatisticsFileTest, DamageAfterOpenIsDetectedByReadStatistics) {
  ASSERT_TRUE(Commit(1, {.mean = Arena(0)}).ok());
  const auto reader = CheckpointReader::Open(Path(1), &model_).value();
  const std::string file = Path(1) + "/statistics.safetensors";
  std::string contents = Contents(file);
  contents.back() ^= 1;
  Overwrite(file, contents);
  EXPECT_TRUE(absl::IsDataLoss(reader->ReadStatistics(set_).status()));
}

TEST_F(StatisticsFileTest, NonFiniteValueIsRefusedAndItsTensorNamed) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float bad : {std::nanf(""), infinity, -infinity}) {
    MovingStatistics statistics = {.mean = Arena(0), .workers = {Arena(1), Arena(2)}};
    statistics.mean[set_.variables()[1].range.begin + 2] = bad;
    const absl::Status status = Commit(1, statistics);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr("'a/moving_variance'"), HasSubstr("not finite")));
    statistics.mean = Arena(0);
    statistics.workers[1][set_.variables()[2].range.begin] = bad;
    const absl::Status of_worker = Commit(1, statistics);
    EXPECT_TRUE(absl::IsInvalidArgument(of_worker)) << of_worker;
    EXPECT_THAT(std::string(of_worker.message()), HasSubstr("'b/moving_mean'"));
  }
  EXPECT_THAT(Files(), IsEmpty());
}

TEST_F(StatisticsFileTest, StatisticsOfAWrongNumberOfElementsAreRefused) {
  for (const MovingStatistics& statistics :
       {MovingStatistics(), MovingStatistics{.mean = {1, 2}},
        MovingStatistics{.mean = Arena(0), .workers = {Arena(0), {1, 2}}}}) {
    const absl::Status status = Commit(1, statistics);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(absl::StrCat("the model has ", set_.arena_size())));
  }
  EXPECT_THAT(Files(), IsEmpty());
}

}  // namespace
}  // namespace tethys
