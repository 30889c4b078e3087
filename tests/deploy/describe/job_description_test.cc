#include "deploy/describe/job_description.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "deploy/describe/layer_list.h"
#include "deploy/describe/prediction_text.h"
#include "runtime/nn/zoo/zoo.h"

namespace tethys {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

proto::JobPlan Parse(const std::string& text) {
  proto::JobPlan plan;
  TETHYS_CHECK(google::protobuf::TextFormat::ParseFromString(text, &plan));
  return plan;
}

// A 784-10 network on two servers with three workers.
proto::JobPlan ServerPlan() {
  return Parse(R"pb(
    job {
      name: "mnist"
      model {
        layer {
          name: "flatten"
          flatten {}
        }
        layer {
          name: "dense"
          dense { units: 10 }
        }
      }
      data {
        idx { train_images: "images" train_labels: "labels" }
        classes: 10
      }
      optimizer {
        sgd { momentum: 0.9 }
        learning_rate: 0.1
        scale_with_workers: true
      }
      epochs: 5
      workers: 3
      strategy {
        parameter_server {
          servers: 2
          bulk_synchronous {}
        }
      }
    }
    variable { name: "dense/weights" shape: 784 shape: 10 begin: 0 }
    variable { name: "dense/bias" shape: 10 begin: 7840 }
    placement {
      servers: 2
      shard { variable: "dense/weights" begin: 0 count: 3920 server: 0 }
      shard { variable: "dense/weights" begin: 3920 count: 3920 server: 1 }
      shard { variable: "dense/bias" begin: 7840 count: 10 server: 0 }
    }
    train_samples: 54000
    validation_samples: 6000
    test_samples: 10000
    sample_shape: 28
    sample_shape: 28
    batch_per_worker: 43
    global_batch: 128
  )pb");
}

TEST(JobSummaryTest, ListsModelDataAndPlacement) {
  EXPECT_EQ(JobSummary(ServerPlan()),
            "mnist: ps_sync, 3 workers, 2 servers\n"
            "  model          2 variables, 7,850 parameters (31 KiB)\n"
            "  data           54,000 training, 6,000 validation, 10,000 test samples of [28, 28]\n"
            "  length         5 epochs, seed 0\n"
            "  global batch   128 samples, at most 43 a worker\n"
            "  optimizer      sgd, momentum 0.9\n"
            "  learning rate  0.3 (0.1 x 3 workers)\n"
            "  gradients      mean over the global batch\n"
            "  placement      3 shards: ps 0 15 KiB, ps 1 15 KiB\n");
}

TEST(JobSummaryTest, ShowsSamplesOverWhichLearningRateDecays) {
  proto::JobPlan plan = ServerPlan();
  proto::LinearDecay& decay =
      *plan.mutable_job()->mutable_optimizer()->mutable_schedule()->mutable_linear_decay();
  EXPECT_THAT(JobSummary(plan), HasSubstr(", decaying to 0 over 270,000 samples\n"));
  decay.set_samples(77);
  EXPECT_THAT(JobSummary(plan), HasSubstr(", decaying to 0 over 77 samples\n"));
}

TEST(JobSummaryTest, ShowsShuffleAndTheSamplesOfEachWorker) {
  proto::JobPlan plan = ServerPlan();
  proto::Data& data = *plan.mutable_job()->mutable_data();
  data.mutable_shuffle()->mutable_blocks()->set_samples(1024);
  data.mutable_shuffle()->mutable_blocks()->set_window(8);
  data.set_sharding(proto::Data::AUTO);
  EXPECT_THAT(JobSummary(plan),
              HasSubstr("order          blocks of 1,024 samples, in windows of 8 blocks\n"));
  EXPECT_THAT(JobSummary(plan),
              HasSubstr("sharding       DATA (chosen by AUTO): each worker 18,000 samples; "));
  for (const int64_t samples : {24000, 20000, 10000}) plan.add_file_samples(samples);
  EXPECT_THAT(JobSummary(plan),
              HasSubstr("FILE (chosen by AUTO): worker 0 24,000 samples in 1 file, worker 1 20,000 samples\n"
                        "                 in 1 file, worker 2 10,000 samples in 1 file; "));
  data.set_sharding(proto::Data::OFF);
  EXPECT_THAT(JobSummary(plan), HasSubstr("OFF: each worker 54,000 samples, 162,000 in an epoch"));
}

// 54,000 samples are 421 steps of 128 samples and one step of 112, so worker 0 has 43 x 421 + 38 positions.
TEST(JobSummaryTest, ShowsHowManySamplesAreUsedByWorkersThatDoNotOwnThem) {
  proto::JobPlan plan = ServerPlan();
  plan.mutable_job()->mutable_data()->set_sharding(proto::Data::DATA);
  EXPECT_THAT(JobSummary(plan), HasSubstr("; 281 samples go to other workers, whose batches\n"
                                          "                 need more\n"));
  plan.set_global_batch(120);
  EXPECT_THAT(JobSummary(plan), HasSubstr("each worker 18,000 samples\n"));
}

TEST(JobSummaryTest, ShowsScaleOfAsynchronousPushes) {
  proto::JobPlan plan = ServerPlan();
  plan.mutable_job()->mutable_strategy()->mutable_parameter_server()->mutable_asynchronous();
  EXPECT_THAT(JobSummary(plan), HasSubstr("gradients      mean of each push (PUSH_MEAN)\n"));
}

TEST(PlanReportTest, ListsRangesOnServersAndTrafficPerStep) {
  const absl::StatusOr<std::string> report = PlanReport(ServerPlan(), ProcessesHere(ServerPlan()));
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_THAT(*report,
              HasSubstr("processes on this host: chief, ps 0, ps 1, worker 0 (rank 0), worker 1 (rank 1)"));
  EXPECT_THAT(VariablesReport(ServerPlan()), HasSubstr("ps 0 [0, 3920), ps 1 [3920, 7840)"));
  // Each worker sends 7,850 floats. Each server receives its share of these floats from three workers.
  EXPECT_THAT(*report, HasSubstr("each worker  31 KiB    31 KiB  TCP "));
  EXPECT_THAT(*report, HasSubstr("ps 1         46 KiB    46 KiB  TCP "));
  EXPECT_THAT(*report, Not(HasSubstr("Through memory")));
}

// A worker keeps the order of 54,000 samples in memory. The host keeps 70,000 samples of 784 bytes.
TEST(PlanReportTest, DataMemoryDependsOnTheFormatOfTheData) {
  proto::JobPlan plan = ServerPlan();
  EXPECT_THAT(*PlanReport(plan, ""), ContainsRegex("each worker .* 211 KiB +1.0 MiB"));
  EXPECT_THAT(*PlanReport(plan, ""), HasSubstr("Each host with workers keeps 53 MiB of unpacked samples"));
  plan.mutable_job()->mutable_data()->mutable_cifar();
  EXPECT_THAT(*PlanReport(plan, ""), ContainsRegex("each worker .* 279 KiB"));
}

TEST(PlanReportTest, ServerMemoryHasGradientsPerWorkerUnlessSummedOnArrival) {
  proto::JobPlan plan = ServerPlan();
  proto::ParameterServer& config = *plan.mutable_job()->mutable_strategy()->mutable_parameter_server();
  // Server ps 1 holds 3,920 floats (15 KiB) for the parameters, as many for momentum, and as many for
  // gradients: once for each of the three workers, or only once if gradients are summed on arrival.
  // Bulk-synchronous servers hold parameters and momentum twice.
  config.mutable_asynchronous();
  EXPECT_THAT(*PlanReport(plan, ""), ContainsRegex("ps 1 +15 KiB +46 KiB +15 KiB .* 77 KiB"));
  config.mutable_bulk_synchronous();
  EXPECT_THAT(*PlanReport(plan, ""), ContainsRegex("ps 1 +31 KiB +46 KiB +31 KiB .* 107 KiB"));
  config.mutable_bulk_synchronous()->set_summation(proto::BulkSynchronous::ARRIVAL);
  EXPECT_THAT(*PlanReport(plan, ""), ContainsRegex("ps 1 +31 KiB +15 KiB +31 KiB .* 77 KiB"));
}

TEST(PlanReportTest, ServersKeepTwoCopiesOfParametersAndSlotsOnlyIfTheJobSurvivesWorkerLoss) {
  proto::JobPlan plan = ServerPlan();
  EXPECT_THAT(*PlanReport(plan, ""), Not(HasSubstr("Servers keep parameters and slots twice")));
  plan.mutable_variable(0)->set_shape(0, 1 << 26);
  EXPECT_THAT(*PlanReport(plan, ""), HasSubstr("Servers keep parameters and slots twice"));
  plan.mutable_job()->mutable_elastic()->set_on_loss(proto::Elastic::END);
  EXPECT_THAT(*PlanReport(plan, ""), Not(HasSubstr("Servers keep parameters and slots twice")));
  EXPECT_THAT(*PlanReport(plan, ""), ContainsRegex("ps 1 +15 KiB +46 KiB +15 KiB .* 77 KiB"));
}

TEST(PlanReportTest, SuggestsSummationOnArrivalIfGradientsTakeMuchMemory) {
  proto::JobPlan plan = ServerPlan();
  EXPECT_THAT(*PlanReport(plan, ""), Not(HasSubstr("ARRIVAL")));
  // The servers keep the gradients of each of 3,000 workers, 31 KiB a worker; this is too little for the
  // suggestion.
  plan.mutable_job()->set_workers(3000);
  EXPECT_THAT(*PlanReport(plan, ""), Not(HasSubstr("ARRIVAL")));
  plan.mutable_job()->set_workers(9000);
  EXPECT_THAT(*PlanReport(plan, ""), HasSubstr("gradients of each worker, 270 MiB in all"));
  EXPECT_THAT(*PlanReport(plan, ""), HasSubstr("summation: ARRIVAL"));
  proto::ParameterServer& config = *plan.mutable_job()->mutable_strategy()->mutable_parameter_server();
  config.mutable_asynchronous();
  EXPECT_THAT(*PlanReport(plan, ""), Not(HasSubstr("ARRIVAL")));
}

TEST(PlanReportTest, LongListsAreShortened) {
  proto::JobPlan plan = ServerPlan();
  plan.mutable_job()->set_workers(100);
  plan.mutable_placement()->set_servers(1000);
  for (int i = 0; i < 1000; ++i) {
    proto::Shard& shard = *plan.mutable_placement()->add_shard();
    shard.set_variable("dense/weights");
    shard.set_count(7);
  }
  const std::string report = absl::StrCat(*PlanReport(plan, ProcessesHere(plan)), VariablesReport(plan));
  EXPECT_LT(report.size(), 6000);
  EXPECT_THAT(report, HasSubstr("chief, ps 0 to 999, worker 0 to 99 (worker N has rank N)"));
  EXPECT_THAT(report, HasSubstr("and 994 more shards"));
  EXPECT_THAT(report, HasSubstr("note           of 1,000 servers 998 hold no parameters"));
}

// The tests of the communicators check the same numbers of bytes.
TEST(PlanReportTest, MirroredTraffic_DependsOnWorkersHosts) {
  proto::JobPlan plan = ServerPlan();
  plan.clear_placement();
  plan.mutable_job()->mutable_strategy()->mutable_mirrored();
  // In shared memory a worker reads and writes 2/3 of an arena of 7,856 floats each; over TCP it receives and
  // sends twice as many bytes.
  EXPECT_THAT(*PlanReport(plan, ""), ContainsRegex("each worker +20 KiB +20 KiB +memory +all-reduce"));
  EXPECT_THAT(*PlanReport(plan, ""),
              HasSubstr("\nThrough memory: the bytes are in memory that the processes of one host share,"));
  EXPECT_THAT(*PlanReport(plan, "", {0, 1, 2}),
              ContainsRegex("each worker +41 KiB +41 KiB +TCP +all-reduce"));
  const std::string two_hosts = *PlanReport(plan, "", {0, 0, 1});
  EXPECT_THAT(two_hosts,
              ContainsRegex("the first worker of 1 on a host +31 KiB +31 KiB +TCP +all-reduce: 31 KiB"));
  EXPECT_THAT(two_hosts,
              ContainsRegex("the first worker of 2 on a host +46 KiB +46 KiB +TCP, memory +all-reduce: 31 "
                            "KiB through TCP among 2 hosts, the rest through memory"));
  EXPECT_THAT(two_hosts, ContainsRegex("each other worker of 2 on a host +15 KiB +46 KiB +memory "));
  plan.mutable_job()->mutable_tuning()->set_transport(proto::Tuning::TCP);
  EXPECT_THAT(*PlanReport(plan, ""), ContainsRegex("each worker +41 KiB +41 KiB +TCP "));
}

TEST(PlanReportTest, GradientsInBfloat16TakeHalfTheBytes) {
  proto::JobPlan plan = ServerPlan();
  plan.clear_placement();
  plan.mutable_job()->mutable_device()->set_kind(proto::Device::CUDA);
  plan.mutable_job()->mutable_strategy()->mutable_mirrored()->set_gradients(proto::Device::BF16);
  const std::string report = *PlanReport(plan, "");
  EXPECT_THAT(report, HasSubstr("gradients      mean over the global batch, summed in bfloat16\n"));
  EXPECT_THAT(report, ContainsRegex("each worker +20 KiB +20 KiB +NCCL .* in bfloat16"));
}

TEST(PlanReportTest, ListsMemoryOfGpuAndItsWorker) {
  proto::JobPlan plan = ServerPlan();
  EXPECT_THAT(*PlanReport(plan, ""), Not(HasSubstr("GPU")));
  plan.mutable_job()->mutable_device()->set_kind(proto::Device::CUDA);
  plan.mutable_job()->mutable_device()->set_precision(proto::Device::BF16);
  plan.add_worker_device(proto::Device::CPU);
  plan.add_worker_device(proto::Device::CUDA);
  plan.add_worker_device(proto::Device::CUDA);
  const std::string report = *PlanReport(plan, "");
  EXPECT_THAT(report, HasSubstr("device         cuda, bf16 on 2 workers, cpu on 1 worker\n"));
  EXPECT_THAT(report, ContainsRegex("each worker on a CPU +31 KiB"));
  EXPECT_THAT(report, ContainsRegex("each GPU +31 KiB"));
  EXPECT_THAT(report, ContainsRegex("the worker of each GPU +31 KiB +31 KiB +- +- "));
  EXPECT_THAT(report, HasSubstr("on each GPU, at most 32 MiB"));
}

TEST(PlanReportTest, RefusesAModelThatDoesNotFitTheData) {
  proto::JobPlan plan = ServerPlan();
  plan.mutable_job()->mutable_data()->set_classes(7);
  EXPECT_EQ(PlanReport(plan, ProcessesHere(plan)).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(LayerListTest, LayerListIsTextOfAJobFileWithParameterCounts) {
  proto::JobPlan plan = ServerPlan();
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(
      "layer { name: 'c' convolution { filters: 4 kernel_size: 3 stride: 2 pad: 1 bias: false } } "
      "layer { name: 'p' max_pooling { size: 2 } } layer { name: 'f' flatten {} } "
      "layer { name: 'd' dense { units: 10 } }",
      plan.mutable_job()->mutable_model()));
  const absl::StatusOr<std::string> list = LayerList(plan);
  ASSERT_TRUE(list.ok()) << list.status();
  EXPECT_THAT(*list,
              HasSubstr("  # [14, 14, 4]: 36 parameters, 7,056 multiply-adds\n  layer { name: \"c\" "));
  EXPECT_THAT(*list, HasSubstr("  # [7, 7, 4]\n  layer { name: \"p\" "));
  EXPECT_THAT(*list, HasSubstr("  # [10]: 1,970 parameters, 1,960 multiply-adds\n  layer { name: \"d\" "));
  EXPECT_THAT(*list, HasSubstr("}\n# 2,006 parameters, 9,016 multiply-adds for a sample\n"));
  proto::Job copied;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(*list, &copied));
  EXPECT_EQ(copied.model().SerializeAsString(), ExpandModel(plan.job().model(), 10).SerializeAsString());
}

TEST(PredictionTextTest, CostHasItsUnitAndThePrice) {
  proto::Prediction prediction;
  for (proto::Estimate* estimate : {prediction.mutable_total(), prediction.mutable_cost()}) {
    estimate->set_value(estimate == prediction.mutable_total() ? 1800 : 0.25);
    estimate->set_low(estimate->value());
    estimate->set_high(estimate->value());
  }
  EXPECT_THAT(PredictionText(prediction, proto::Job(), "calibrated"),
              HasSubstr("cost           0.25, in the currency of the price, 0.5 per hour\n"));
}

TEST(PredictionTextTest, TableHasARowForEachNumberOfWorkers) {
  proto::Prediction prediction;
  for (proto::Estimate* estimate :
       {prediction.mutable_step(), prediction.mutable_samples_per_second(), prediction.mutable_epoch(),
        prediction.mutable_total(), prediction.mutable_cost()}) {
    estimate->set_value(2);
    estimate->set_low(1);
    estimate->set_high(4);
  }
  proto::Prediction remarked = prediction;
  remarked.clear_cost();
  remarked.set_remark("the batch is large");
  const std::string text = PredictionTable({{1, prediction}, {4, remarked}}, "calibrated");
  EXPECT_THAT(text, HasSubstr("\n      1  2 s (1 s to 4 s)  2 (1 to 4)  2 s (1 s to 4 s)  2 s (1 s to 4 s)  "
                              "2 (1 to 4)\n      4  "));
  EXPECT_THAT(text, HasSubstr("\nCosts are in the currency of the prices per hour.\n4 workers: beyond the "
                              "calibrated ranges: the batch is large\n"));
  EXPECT_THAT(text, Not(HasSubstr("machines")));
  EXPECT_THAT(PredictionTable({{1, remarked, 2}, {4, remarked, 5}}, "calibrated"),
              AllOf(ContainsRegex("workers +machines +step"), ContainsRegex("\n +4 +5 +2 s"),
                    HasSubstr("\n1, 4 workers: beyond the calibrated ranges: the batch is large\n")));
}

}  // namespace
}  // namespace tethys
