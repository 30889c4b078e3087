#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "deploy/first_job/first_job.h"
#include "runtime/job/job_file.h"

namespace tethys {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

SampleFacts Facts(const Shape& shape, int64_t train, int64_t test = 0) {
  return {.shape = shape,
          .train = train,
          .test = test,
          .different_labels = 10,
          .smallest_label = 0,
          .largest_label = 9};
}

SourceGuess Source() {
  SourceGuess source;
  source.data.mutable_npy()->set_train_images("x.npy");
  source.data.mutable_npy()->set_train_labels("y.npy");
  return source;
}

proto::Job Guessed(const SampleFacts& facts) { return GuessJob(Source(), facts).job; }

TEST(FirstJobTest, NetworkFollowsTheShapeOfSamples) {
  EXPECT_TRUE(Guessed(Facts({28, 28}, 6000)).model().has_lenet());
  EXPECT_TRUE(Guessed(Facts({32, 32, 3}, 6000)).model().has_lenet());
  EXPECT_EQ(Guessed(Facts({48, 48, 3}, 6000)).model().resnet().depth(), 18);
  EXPECT_EQ(Guessed(Facts({12}, 6000)).model().layer_size(), 2);
  EXPECT_EQ(Guessed(Facts({8, 8}, 6000)).model().layer_size(), 3)
      << "too small for LeNet, so it is flattened";
}

TEST(FirstJobTest, LargePicturesAndPicturesInFilesAreResized) {
  EXPECT_FALSE(Guessed(Facts({28, 28}, 6000)).data().has_resize());
  EXPECT_EQ(Guessed(Facts({480, 640, 3}, 6000)).data().resize().width(), 64);
  SampleFacts pictures = Facts({28, 30}, 6000);
  pictures.files = true;
  EXPECT_EQ(Guessed(pictures).data().resize().width(), 30);
  EXPECT_FALSE(Guessed(Facts({480}, 6000)).data().has_resize());
}

TEST(FirstJobTest, TenthIsKeptForValidationWithoutATest) {
  EXPECT_EQ(Guessed(Facts({28, 28}, 6000)).data().validation_samples(), 600);
  EXPECT_FALSE(Guessed(Facts({28, 28}, 6000, 10)).data().has_validation_samples());
  SampleFacts sorted = Facts({28, 28}, 6000);
  sorted.sorted = true;
  EXPECT_FALSE(Guessed(sorted).data().has_validation_samples());
  EXPECT_THAT(GuessJob(Source(), sorted).reasons.at("data"), HasSubstr("sorted by class"));
}

TEST(FirstJobTest, SmallDataGetMoreEpochsOfSmallerBatches) {
  const proto::Job large = Guessed(Facts({12}, 60000)), small = Guessed(Facts({12}, 150));
  EXPECT_EQ(large.batch_size_per_worker(), 64);
  EXPECT_EQ(large.epochs(), 5);
  EXPECT_EQ(small.batch_size_per_worker(), 16);
  EXPECT_EQ(small.epochs(), 100);
  EXPECT_EQ(Guessed(Facts({12}, 4)).batch_size_per_worker(), 2);
}

TEST(FirstJobTest, BatchOfOneSampleIsDroppedForBatchNormalisation) {
  EXPECT_TRUE(Guessed(Facts({48, 48}, 6401, 10)).drop_remainder());
  EXPECT_FALSE(Guessed(Facts({48, 48}, 6400, 10)).has_drop_remainder());
  EXPECT_FALSE(Guessed(Facts({28, 28}, 6401, 10)).has_drop_remainder());
}

TEST(FirstJobTest, TextIsAJobWithAReasonForEveryField) {
  SourceGuess source = Source();
  source.reasons["data.npy"] = "By their names.";
  const std::string text = FirstJobText(GuessJob(source, Facts({28, 28}, 6000)), "About this job.");
  EXPECT_THAT(text, AllOf(StartsWith("# proto-file: proto/job.proto\n"), HasSubstr("# About this job.\n"),
                          HasSubstr("  # By their names.\n  npy {"),
                          HasSubstr("# Labels are 0 to 9.\n  classes: 10\n")));
  const absl::StatusOr<proto::Job> job = ParseJob(text, "first.textproto", {});
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->data().npy().train_labels(), "y.npy");
}

}  // namespace
}  // namespace tethys
