#include "runtime/job/job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_replace.h"
#include "runtime/job/job_file.h"
#include "runtime/job/job_validation.h"
#include "runtime/shape/job_shape.h"

namespace tethys {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kLeastJob[] = R"(
model { layer { flatten {} } layer { dense { units: 5 activation: RELU } } layer { dense { units: 3 } } }
data { idx { train_images: "i" train_labels: "l" } classes: 3 }
optimizer { sgd {} learning_rate: 0.1 }
batch_size_per_worker: 32
epochs: 2
)";

proto::Job Job(const std::vector<std::string>& overrides = {}) {
  auto job = ParseJob(kLeastJob, "some dir/least job.textproto", overrides);
  EXPECT_TRUE(job.ok()) << job.status();
  return job.ok() ? *std::move(job) : proto::Job();
}

TEST(ResolveTest, ResolvedJobHasEveryDefaultSet) {
  const proto::Job job = Job();
  EXPECT_EQ(job.name(), "least_job");
  EXPECT_TRUE(job.has_workers());
  EXPECT_EQ(job.workers(), 1);
  EXPECT_TRUE(job.has_seed());
  EXPECT_TRUE(job.evaluate_each_epoch());
  EXPECT_EQ(StrategyName(job), "local");
  EXPECT_EQ(job.device().threads_per_rank(), 1);
  EXPECT_TRUE(job.tuning().graph());
  EXPECT_EQ(job.checkpoint().keep(), 2);
  EXPECT_EQ(job.checkpoint().every_epochs(), 1);
  EXPECT_EQ(job.checkpoint().min_seconds(), 60);
  EXPECT_EQ(job.timeouts().start(), 60);
  EXPECT_EQ(job.timeouts().silence(), 10);
  EXPECT_EQ(job.timeouts().step(), 30);
  EXPECT_EQ(job.timeouts().shutdown(), 3);
  EXPECT_THAT(job.data().deviation(), ElementsAre(1));
  EXPECT_TRUE(job.data().shuffle().has_full());
  EXPECT_TRUE(job.data().has_sharding());
  EXPECT_EQ(job.data().sharding(), proto::Data::GLOBAL);
  EXPECT_TRUE(job.optimizer().schedule().has_constant());
  EXPECT_TRUE(job.optimizer().sgd().has_momentum());
  EXPECT_THAT(job.optimizer().no_weight_decay(), ElementsAre("/bias", "/scale", "/offset"));
}

TEST(ResolveTest, BlockShuffleGetsDefaultBlockAndWindowSizes) {
  const proto::Job job = Job({"data.shuffle=blocks", "data.sharding=AUTO"});
  EXPECT_EQ(job.data().shuffle().blocks().samples(), 1024);
  EXPECT_EQ(job.data().shuffle().blocks().window(), 8);
  EXPECT_EQ(job.data().sharding(), proto::Data::AUTO);
}

TEST(ResolveTest, SavesWithAConfiguredInterval_HaveNoMinimumSecondsBetweenThem) {
  EXPECT_EQ(Job({"checkpoint.every_steps=5"}).checkpoint().min_seconds(), 0);
  EXPECT_EQ(Job({"checkpoint.every_steps=5"}).checkpoint().every_epochs(), 0);
  EXPECT_EQ(Job({"checkpoint.every_epochs=2"}).checkpoint().min_seconds(), 0);
  EXPECT_EQ(Job({"checkpoint.every_epochs=0"}).checkpoint().every_epochs(), 0) << "none but the last";
}

TEST(ResolveTest, FieldsThatUseValidation_AreRefusedWithoutValidation) {
  for (const std::string field : {"early_stopping.patience=3", "checkpoint.keep_best=true"}) {
    const auto job = ParseJob(kLeastJob, "least.textproto", {field});
    EXPECT_THAT(std::string(job.status().message()), HasSubstr("but no epoch is validated")) << field;
    EXPECT_TRUE(ParseJob(kLeastJob, "least.textproto", {field, "data.validation_samples=5"}).ok()) << field;
  }
}

TEST(ResolveTest, LayersWithoutNamesAreNamedByKindAndIndex) {
  const proto::Job job = Job();
  EXPECT_EQ(job.model().layer(0).name(), "flatten_0");
  EXPECT_EQ(job.model().layer(1).name(), "dense_1");
  EXPECT_EQ(job.model().layer(2).name(), "dense_2");
}

TEST(ResolveTest, GivesConvolutionAndPoolingLayersTheirDefaults) {
  const std::string text =
      absl::StrReplaceAll(kLeastJob, {{"layer { flatten {} }",
                                       "layer { convolution { filters: 6 kernel_size: 5 activation: RELU } } "
                                       "layer { max_pooling { size: 3 } } layer { flatten {} }"}});
  const proto::Job job = ParseJob(text, "lenet.textproto", {}).value();
  EXPECT_EQ(job.model().layer(0).name(), "convolution_0");
  EXPECT_EQ(job.model().layer(0).convolution().stride(), 1);
  EXPECT_EQ(job.model().layer(0).convolution().initializer(), proto::HE_NORMAL);
  EXPECT_EQ(job.model().layer(1).name(), "max_pooling_1");
  EXPECT_EQ(job.model().layer(1).max_pooling().stride(), 3);
}

TEST(ResolveTest, GivesBatchNormalisationItsDefaults) {
  const std::string text = absl::StrReplaceAll(
      kLeastJob, {{"layer { flatten {} }",
                   "layer { batch_normalisation {} } layer { batch_normalisation { decay: "
                   "0.99 epsilon: 1e-3 activation: RELU } } layer { flatten {} }"}});
  const proto::Job job = ParseJob(text, "normalised.textproto", {}).value();
  EXPECT_EQ(job.model().layer(0).name(), "batch_normalisation_0");
  EXPECT_EQ(job.model().layer(0).batch_normalisation().decay(), 0.9);
  EXPECT_EQ(job.model().layer(0).batch_normalisation().epsilon(), 1e-5);
  EXPECT_TRUE(job.model().layer(0).batch_normalisation().has_activation());
  EXPECT_EQ(job.model().layer(1).batch_normalisation().decay(), 0.99);
  EXPECT_EQ(job.model().layer(1).batch_normalisation().epsilon(), 1e-3);
  EXPECT_EQ(job.model().layer(1).batch_normalisation().activation(), proto::RELU);
}

TEST(ResolveTest, AsManyVirtualReplicasAsSamplesAreAccepted) {
  EXPECT_EQ(Job().strategy().local().virtual_replicas(), 1);
  EXPECT_EQ(Job({"strategy.local.virtual_replicas=32"}).strategy().local().virtual_replicas(), 32);
}

TEST(ResolveTest, ActivationDecidesTheDefaultInitializer) {
  const proto::Job job = Job();
  EXPECT_EQ(job.model().layer(1).dense().initializer(), proto::HE_NORMAL);
  EXPECT_EQ(job.model().layer(2).dense().initializer(), proto::GLOROT_UNIFORM);
}

TEST(ResolveTest, FieldsOfParameterServersGetTheirDefaults) {
  const proto::Job job = Job({"strategy=parameter_server", "strategy.parameter_server.servers=3"});
  const proto::ParameterServer& ps = job.strategy().parameter_server();
  EXPECT_TRUE(ps.has_bulk_synchronous());
  EXPECT_TRUE(ps.bulk_synchronous().has_summation());
  EXPECT_FALSE(job.tuning().has_message_bytes()) << "depends on where the servers are";
  EXPECT_FALSE(job.tuning().has_partitioner()) << "depends on the number of servers";
  const proto::Job cut = Job({"tuning.partitioner=min_size"});
  EXPECT_EQ(cut.tuning().partitioner().min_size().min_shard_bytes(), 256 << 10);
  EXPECT_FALSE(cut.tuning().partitioner().min_size().has_max_shards()) << "as many as servers";
}

TEST(ResolveTest, MirroredDefaultsToFloat32AndNoBucketSize) {
  const proto::Job job = Job({"strategy=mirrored"});
  EXPECT_FALSE(job.tuning().has_bucket_bytes()) << "the exchange chooses it";
  EXPECT_TRUE(job.strategy().mirrored().has_gradients());
  EXPECT_EQ(job.strategy().mirrored().gradients(), proto::Device::FP32);
}

TEST(ResolveTest, MirroredGradientsOnGpusMayBeExchangedInBfloat16) {
  const proto::Job job = Job({"device.kind=CUDA", "strategy.mirrored.gradients=BF16"});
  EXPECT_EQ(job.strategy().mirrored().gradients(), proto::Device::BF16);
}

TEST(ResolveTest, ComputedStandardisationLeavesMeanAndDeviationUnset) {
  const proto::Job job = Job({"data.compute_standardisation=true"});
  EXPECT_EQ(job.data().mean_size(), 0);
  EXPECT_EQ(job.data().deviation_size(), 0);
}

TEST(ResolveTest, TextOfAResolvedJobResolvesToTheSameJob) {
  for (const std::string strategy : {"local", "mirrored", "parameter_server"}) {
    for (const std::string compute : {"true", "false"}) {
      const proto::Job job = Job({"strategy=" + strategy, "data.compute_standardisation=" + compute});
      const auto again = ParseJob(ResolvedText(job), "job.textproto", {});
      ASSERT_TRUE(again.ok()) << again.status();
      EXPECT_EQ(ResolvedText(*again), ResolvedText(job));
      EXPECT_EQ(JobHash(*again), JobHash(job));
    }
  }
}

TEST(JobTest, JobHashChangesWithTheValueOfAField) {
  EXPECT_EQ(JobHash(Job()), JobHash(Job()));
  EXPECT_NE(JobHash(Job()), JobHash(Job({"seed=1"})));
  EXPECT_NE(JobHash(Job()), JobHash(Job({"optimizer.learning_rate=0.2"})));
}

TEST(JobTest, GlobalBatchIsWorkersTimesTheirBatch) {
  const proto::Job job = Job({"strategy=mirrored", "workers=5"});
  EXPECT_EQ(GlobalBatch(job), 160);
  EXPECT_EQ(BatchPerWorkerRows(job), 32);
}

TEST(JobTest, RowsPerWorkerAreTheShareOfTheGlobalBatchRoundedUp) {
  const proto::Job job = Job({"strategy=mirrored", "workers=5", "global_batch_size=128"});
  EXPECT_EQ(GlobalBatch(job), 128);
  EXPECT_EQ(BatchPerWorkerRows(job), 26);
}

TEST(JobTest, ServerCountIsZeroWithoutParameterServers) {
  EXPECT_EQ(ShapeOf(Job()).servers, 0);
  EXPECT_EQ(ShapeOf(Job({"strategy.parameter_server.servers=2"})).servers, 2);
}

TEST(TrainingLengthTest, DropRemainderIsRefusedIfAnEpochIsShorterThanABatch) {
  const proto::Job job = Job({"drop_remainder=true"});
  EXPECT_TRUE(CheckTrainingLength(32, job).ok());
  EXPECT_TRUE(CheckTrainingLength(31, Job()).ok());
  EXPECT_THAT(std::string(CheckTrainingLength(31, job).message()),
              HasSubstr("the global batch is 32 samples, but an epoch has only 31"));
}

}  // namespace
}  // namespace tethys
