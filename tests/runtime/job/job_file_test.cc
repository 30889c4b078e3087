#include "runtime/job/job_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"
#include "runtime/base/file.h"
#include "runtime/base/random.h"
#include "runtime/job/job.h"

namespace tethys {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// Line numbers in the tests below are of this text.
constexpr char kJob[] =
    "model {\n"                                                            // 1
    "  layer { flatten {} }\n"                                             // 2
    "  layer { dense { units: 128 activation: RELU } }\n"                  // 3
    "  layer { dense { units: 10 } }\n"                                    // 4
    "}\n"                                                                  // 5
    "data {\n"                                                             // 6
    "  idx { train_images: \"images\" train_labels: \"labels\" }\n"        // 7
    "  classes: 10\n"                                                      // 8
    "}\n"                                                                  // 9
    "optimizer {\n"                                                        // 10
    "  sgd { momentum: 0.9 }\n"                                            // 11
    "  learning_rate: 0.05\n"                                              // 12
    "}\n"                                                                  // 13
    "batch_size_per_worker: 128\n"                                         // 14
    "epochs: 5\n"                                                          // 15
    "workers: 3\n"                                                         // 16
    "strategy { parameter_server { servers: 2 bulk_synchronous {} } }\n";  // 17

std::string Edited(const std::string& old_text, const std::string& new_text) {
  EXPECT_TRUE(absl::StrContains(kJob, old_text)) << old_text;
  return absl::StrReplaceAll(kJob, {{old_text, new_text}});
}

std::string ErrorOf(const std::string& text, const std::vector<std::string>& overrides = {}) {
  const absl::Status status = ParseJob(text, "my.textproto", overrides).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  return std::string(status.message());
}

proto::Job Parsed(const std::string& text, const std::vector<std::string>& overrides = {}) {
  auto job = ParseJob(text, "my.textproto", overrides);
  EXPECT_TRUE(job.ok()) << job.status();
  return job.ok() ? *std::move(job) : proto::Job();
}

// ------------------------------------------------------------------------------------- mistakes in the file

struct Mistake {
  const char* old_text;
  const char* new_text;
  const char* where;  // How the message starts.
  std::vector<std::string> fragments;
};

std::ostream& operator<<(std::ostream& out, const Mistake& mistake) { return out << mistake.new_text; }

class MistakeTest : public ::testing::TestWithParam<Mistake> {};

TEST_P(MistakeTest, IsRefusedWithPlaceAndRemedy) {
  const Mistake& mistake = GetParam();
  const std::string error = ErrorOf(Edited(mistake.old_text, mistake.new_text));
  EXPECT_THAT(error, StartsWith(mistake.where));
  for (const std::string& fragment : mistake.fragments) EXPECT_THAT(error, HasSubstr(fragment));
}

INSTANTIATE_TEST_SUITE_P(
    Syntax, MistakeTest,
    ::testing::Values(
        Mistake{"epochs: 5",
                "epoch: 5",
                "my.textproto:15:6: ",
                {"Job has no field 'epoch'", "did you mean 'epochs'?", "It has: name, model,"}},
        Mistake{"epochs: 5", "zzzzzzzz: 5", "my.textproto:15:9: ", {"no field 'zzzzzzzz': It has: name"}},
        Mistake{"momentum: 0.9",
                "momentun: 0.9",
                "my.textproto:11:17: ",
                {"Sgd has no field 'momentun'", "did you mean 'momentum'?"}},
        Mistake{"parameter_server {",
                "parameter_servers {",
                "my.textproto:17:",
                {"Strategy has no field 'parameter_servers'", "did you mean 'parameter_server'?",
                 "It has: local, mirrored, parameter_server"}},
        Mistake{"parameter_server {",
                "gossip {",
                "my.textproto:17:",
                {"Strategy has no field 'gossip': It has: local"}},
        Mistake{"flatten {}",
                "flatten { units: 3 }",
                "my.textproto:2:",
                {"Flatten has no field 'units': it has no"}},
        Mistake{"epochs: 5",
                "epochs: 5 device { precision: BF16 }",
                "my.textproto:15:",
                {"device.precision is BF16, but device.kind is CPU", "or write kind: CUDA"}},
        Mistake{"epochs: 5",
                "epochs: 5 device { kind: CUDA precision: FP16 }",
                "my.textproto:15:",
                {"FP16 is refused", "Write BF16"}},
        Mistake{"epochs: 5", "epochs: \"five\"", "my.textproto:15:9: ", {"Expected integer"}},
        Mistake{"epochs: 5", "epochs: 5.5", "my.textproto:15:9: ", {"Expected integer"}},
        Mistake{"workers: 3", "workers: 99999999999", "my.textproto:16:10: ", {"out of range"}},
        Mistake{"activation: RELU",
                "activation: relu",
                "my.textproto:3:",
                {"'relu' is not a value of activation", "did you mean 'RELU'?",
                 "Its values: ACTIVATION_NONE, RELU"}},
        Mistake{"epochs: 5",
                "epochs: 5 global_batch_size: 384",
                "my.textproto:15:",
                {"global_batch_size", "batch_size_per_worker", "oneof", "Keep one of them"}},
        Mistake{"bulk_synchronous {}",
                "bulk_synchronous {} asynchronous {}",
                "my.textproto:17:",
                {"asynchronous", "Keep one of them"}},
        Mistake{
            "epochs: 5", "epochs: 5 epochs: 6", "my.textproto:15:", {"multiple times", "Keep one of them"}},
        Mistake{"epochs: 5", "epochs: 0 epochs: 6", "my.textproto:15:", {"multiple times"}},
        Mistake{"optimizer {", "optimizer {{", "my.textproto:10:", {"Expected"}},
        Mistake{"bulk_synchronous {} } }", "bulk_synchronous {} }", "my.textproto:18:1: ", {"Expected"}}));

INSTANTIATE_TEST_SUITE_P(
    Ranges, MistakeTest,
    ::testing::Values(
        Mistake{
            "workers: 3", "workers: 0", "my.textproto:16:1: ", {"workers is 0: must be at least 1", "4096"}},
        Mistake{"workers: 3", "workers: -2", "my.textproto:16:1: ", {"workers is -2: must be at least 1"}},
        Mistake{"workers: 3", "workers: 5000", "my.textproto:16:1: ", {"workers is 5000", "at most 4096"}},
        Mistake{"servers: 2", "servers: 0", "my.textproto:17:31: ", {"servers is 0", "at most 1024"}},
        Mistake{"servers: 2", "servers: 1025", "my.textproto:17:31: ", {"servers is 1025"}},
        Mistake{
            "batch_size_per_worker: 128", "batch_size_per_worker: 0", "my.textproto:14:1: ", {"at least 1"}},
        Mistake{"batch_size_per_worker: 128",
                "batch_size_per_worker: 1048577",
                "my.textproto:14:1: ",
                {"1048576"}},
        Mistake{"batch_size_per_worker: 128",
                "global_batch_size: 2",
                "my.textproto:14:1: ",
                {"global_batch_size is 2, but workers is 3", "every worker needs a sample"}},
        Mistake{"epochs: 5", "epochs: -1", "my.textproto:15:1: ", {"epochs is -1: must be at least 0"}},
        Mistake{"epochs: 5", "epochs: 1048577", "my.textproto:15:1: ", {"epochs is 1048577"}},
        Mistake{
            "epochs: 5", "max_steps: 1099511627777", "my.textproto:15:1: ", {"max_steps is 1099511627777"}},
        Mistake{"units: 128", "units: 0", "my.textproto:3:19: ", {"model.layer[1].dense.units is 0"}},
        Mistake{"units: 128", "units: 16777217", "my.textproto:3:19: ", {"is 16777217: must be", "16777216"}},
        Mistake{"units: 128", "", "my.textproto:3:11: ", {"model.layer[1].dense.units is missing"}},
        Mistake{"classes: 10", "classes: 1", "my.textproto:8:3: ", {"data.classes is 1: must be at least 2"}},
        Mistake{"classes: 10", "", "my.textproto:6:1: ", {"data.classes is missing"}},
        Mistake{"classes: 10", "classes: 10 prefetch_batches: 65", "my.textproto:8:15: ", {"at most 64"}},
        Mistake{"classes: 10", "classes: 10 validation_samples: -1", "my.textproto:8:15: ", {"at least 0"}},
        Mistake{"classes: 10", "classes: 10 deviation: 0", "my.textproto:8:15: ", {"must be above 0"}},
        Mistake{"classes: 10", "classes: 10 mean: nan", "my.textproto:8:15: ", {"data.mean is nan"}},
        Mistake{"learning_rate: 0.05", "learning_rate: 0", "my.textproto:12:3: ", {"must be above 0"}},
        Mistake{"learning_rate: 0.05",
                "learning_rate: -0.1",
                "my.textproto:12:3: ",
                {"learning_rate is -0.1: must"}},
        Mistake{"learning_rate: 0.05",
                "learning_rate: inf",
                "my.textproto:12:3: ",
                {"learning_rate is inf: must"}},
        Mistake{"learning_rate: 0.05",
                "learning_rate: nan",
                "my.textproto:12:3: ",
                {"learning_rate is nan: must"}},
        Mistake{"learning_rate: 0.05", "", "my.textproto:10:1: ", {"optimizer.learning_rate is missing"}},
        Mistake{"momentum: 0.9", "momentum: 1", "my.textproto:11:9: ", {"momentum is 1", "below 1"}},
        Mistake{"momentum: 0.9", "momentum: -0.5", "my.textproto:11:9: ", {"at least 0"}},
        Mistake{"workers: 3",
                "workers: 3 device { threads_per_rank: 0 }",
                "my.textproto:16:21: ",
                {"at least 1"}},
        Mistake{"workers: 3",
                "workers: 3 checkpoint { keep: 0 }",
                "my.textproto:16:25: ",
                {"checkpoint.keep is 0"}},
        Mistake{
            "workers: 3", "workers: 3 timeouts { step: 0 }", "my.textproto:16:23: ", {"timeouts.step is 0"}},
        Mistake{"workers: 3",
                "workers: 3 timeouts { step: 5 }",
                "my.textproto:16:23: ",
                {"timeouts.step is 5", "silence is 10", "must be longer"}},
        Mistake{
            "workers: 3", "workers: 3 timeouts { silence: -1 }", "my.textproto:16:23: ", {"must be above 0"}},
        Mistake{"workers: 3",
                "workers: 3 resources { interval_seconds: 0.1 }",
                "my.textproto:16:24: ",
                {"resources.interval_seconds is 0.1", "at least 0.25"}},
        Mistake{
            "workers: 3", "workers: 3 price_per_hour: -1", "my.textproto:16:12: ", {"price_per_hour is -1"}},
        Mistake{"workers: 3",
                "workers: 3 name: \"a/b\"",
                "my.textproto:16:12: ",
                {"name is not a name", "letters"}}));

INSTANTIATE_TEST_SUITE_P(
    Contradictions, MistakeTest,
    ::testing::Values(
        Mistake{"strategy { parameter_server { servers: 2 bulk_synchronous {} } }",
                "strategy { local {} }",
                "my.textproto:16:1: ",
                {"workers is 3, but the strategy is local", "workers: 1", "mirrored {}"}},
        Mistake{"epochs: 5", "", "my.textproto: ", {"epochs and max_steps are both missing"}},
        Mistake{"epochs: 5", "epochs: 0", "my.textproto:15:1: ", {"epochs and max_steps are both missing"}},
        Mistake{"batch_size_per_worker: 128", "", "my.textproto: ", {"batch_size_per_worker is missing"}},
        Mistake{"sgd { momentum: 0.9 }", "", "my.textproto:10:1: ", {"optimizer has no kind: write sgd {}"}},
        Mistake{"units: 10 ",
                "units: 12 ",
                "my.textproto:4:19: ",
                {"dense.units is 12 in the last layer, but data.classes is 10"}},
        Mistake{
            "layer { dense { units: 10 } }", "layer { flatten {} }", "my.textproto:4:3: ", {"must be dense"}},
        Mistake{"layer { flatten {} }",
                "layer { convolution { filters: 4 } } layer { flatten {} }",
                "my.textproto:2:11: ",
                {"model.layer[0].convolution.kernel_size is missing"}},
        Mistake{"layer { flatten {} }", "layer {}", "my.textproto:2:3: ", {"model.layer[0] has no kind"}},
        Mistake{"layer { flatten {} }",
                "layer { name: \"dense_1\" flatten {} }",
                "my.textproto:3:3: ",
                {"model.layer[1].name is 'dense_1', as of a layer before it"}},
        Mistake{"train_labels: \"labels\"", "", "my.textproto:7:3: ", {"data.idx.train_labels is missing"}},
        Mistake{"train_labels: \"labels\"",
                "train_labels: \"labels\" test_images: \"test\"",
                "my.textproto:7:3: ",
                {"data.idx.test_labels is missing", "both test files, or neither"}},
        Mistake{"idx { train_images: \"images\" train_labels: \"labels\" }",
                "",
                "my.textproto:6:1: ",
                {"data has no source"}},
        Mistake{"classes: 10",
                "classes: 10 mean: 0.3 compute_standardisation: true",
                "my.textproto:8:15: ",
                {"data.mean is given, but data.compute_standardisation is true"}},
        Mistake{"bulk_synchronous {}",
                "partitioner { fixed { shards: 11 } }",
                "my.textproto:17:64: ",
                {"fixed.shards is 11", "layer 'dense_2' has only 10 rows", "at most 10"}},
        Mistake{"bulk_synchronous {}",
                "partitioner { fixed {} }",
                "my.textproto:17:56: ",
                {"fixed.shards is missing"}}));

TEST(JobFileTest, AnEmptyFileLacksItsModel) {
  EXPECT_THAT(ErrorOf(""), AllOf(StartsWith("my.textproto: model is missing"), HasSubstr("layer")));
  EXPECT_THAT(ErrorOf("model { layer { dense { units: 10 } } }"), HasSubstr("data is missing"));
}

TEST(JobFileTest, AMissingFileIsNamed) {
  const absl::Status status = LoadJob("/nowhere/job.textproto", {}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("/nowhere/job.textproto"));
}

// ----------------------------------------------------------------------------------------------- overrides

TEST(OverrideTest, SetsScalarsAnywhere) {
  const proto::Job job = Parsed(kJob, {"optimizer.learning_rate=0.01", "strategy.parameter_server.servers=4",
                                       "seed=18446744073709551615", "evaluate_each_epoch=false", "name=other",
                                       "model.layer[1].dense.units=300", "data.mean=0.5", "epochs=1",
                                       "epochs=2", "model.layer[1].dense.activation=ACTIVATION_NONE"});
  EXPECT_EQ(job.optimizer().learning_rate(), 0.01);
  EXPECT_EQ(job.strategy().parameter_server().servers(), 4);
  EXPECT_EQ(job.seed(), 18446744073709551615u);
  EXPECT_FALSE(job.evaluate_each_epoch());
  EXPECT_EQ(job.name(), "other");
  EXPECT_EQ(job.model().layer(1).dense().units(), 300);
  EXPECT_EQ(job.model().layer(1).dense().activation(), proto::ACTIVATION_NONE);
  EXPECT_EQ(job.data().mean(), 0.5f);
  EXPECT_EQ(job.epochs(), 2) << "the last one holds";
}

TEST(OverrideTest, OneOfAOneofReplacesTheOther) {
  const proto::Job job = Parsed(kJob, {"global_batch_size=100"});
  EXPECT_TRUE(job.has_global_batch_size());
  EXPECT_FALSE(job.has_batch_size_per_worker());
}

TEST(OverrideTest, ChoosesAStrategyByName) {
  EXPECT_EQ(StrategyName(Parsed(kJob, {"strategy=mirrored"})), "mirrored");
  EXPECT_EQ(StrategyName(Parsed(kJob, {"strategy.mirrored="})), "mirrored");
  EXPECT_EQ(StrategyName(Parsed(kJob, {"strategy.mirrored.bucket_bytes=4096"})), "mirrored");
  EXPECT_EQ(StrategyName(Parsed(kJob, {"strategy=local", "workers=1"})), "local");
  EXPECT_EQ(StrategyName(Parsed(kJob, {"strategy.parameter_server.consistency=asynchronous"})), "ps_async");
}

TEST(OverrideTest, ChoosingWhatIsChosenKeepsItsFields) {
  EXPECT_EQ(Parsed(kJob, {"strategy=parameter_server"}).strategy().parameter_server().servers(), 2);
}

TEST(OverrideTest, AContradictionIsShownWhereTheOtherFieldStands) {
  EXPECT_THAT(ErrorOf(kJob, {"strategy=local"}),
              StartsWith("my.textproto:16:1: workers is 3, but the strategy is local"));
}

TEST(OverrideTest, SplitsAListAtCommas) {
  EXPECT_THAT(Parsed(kJob, {"optimizer.no_weight_decay=bias,scale"}).optimizer().no_weight_decay(),
              ElementsAre("bias", "scale"));
}

struct BadOverride {
  const char* text;
  const char* fragment;
};

std::ostream& operator<<(std::ostream& out, const BadOverride& bad) { return out << bad.text; }

class BadOverrideTest : public ::testing::TestWithParam<BadOverride> {};

TEST_P(BadOverrideTest, IsRefusedByName) {
  EXPECT_THAT(
      ErrorOf(kJob, {GetParam().text}),
      AllOf(StartsWith(absl::StrCat("--set=", GetParam().text, ": ")), HasSubstr(GetParam().fragment)));
}

INSTANTIATE_TEST_SUITE_P(
    All, BadOverrideTest,
    ::testing::Values(
        BadOverride{"epochs", "write FIELD=VALUE"}, BadOverride{"=5", "not a path of field names"},
        BadOverride{"epoch=5", "Job has no field 'epoch': did you mean 'epochs'?"},
        BadOverride{"optimizer.lerning_rate=1",
                    "Optimizer has no field 'lerning_rate': did you mean 'learning_rate'?"},
        BadOverride{"optimiser.learning_rate=1", "did you mean 'optimizer'?"},
        BadOverride{"epochs=five", "'five' is not a whole number"},
        BadOverride{"epochs=", "'' is not a whole number"},
        BadOverride{"workers=99999999999", "not a whole number of 32 bits"},
        BadOverride{"seed=-1", "0 or more"},
        BadOverride{"optimizer.learning_rate=fast", "'fast' is not a number"},
        BadOverride{"drop_remainder=perhaps", "'perhaps' is not true or false"},
        BadOverride{"model.layer[1].dense.activation=tanh", "Its values: ACTIVATION_NONE, RELU"},
        BadOverride{"device.precision=FP16", "FP16 is refused: its gradients underflow"},
        BadOverride{"device.precision=BF16", "device.precision is BF16, but device.kind is CPU"},
        BadOverride{"device.tf32=true", "device.tf32 is true, but device.kind is CPU"},
        BadOverride{"strategy=miror",
                    "'miror' is not a choice: The choices: local, mirrored, parameter_server"},
        BadOverride{"strategy=mirored", "did you mean 'mirrored'?"},
        BadOverride{"strategy.parameter_server.consistency=eventual", "bulk_synchronous, asynchronous"},
        BadOverride{"optimizer=sgdd", "did you mean 'sgd'?"},
        BadOverride{"batch=64", "The choices: global_batch_size, batch_size_per_worker"},
        BadOverride{"batch=global_batch_size", "needs a value: write global_batch_size=VALUE"},
        BadOverride{"timeouts=5", "is a group of fields: set them one by one (start, silence"},
        BadOverride{"epochs.x=5", "'epochs' is a value, it has no fields"},
        BadOverride{"workers[0]=5", "'workers' is no list"},
        BadOverride{"data[0].classes=5", "'data' is no list"},
        BadOverride{"model.layer.dense.units=5", "'layer' is a list of 3: write layer[0] to layer[2]"},
        BadOverride{"model.layer[3].dense.units=5", "'layer' is a list of 3"},
        BadOverride{"model.layer[x].dense.units=5", "write an index as layer[0]"},
        BadOverride{"workers=0", "workers is 0: must be at least 1"},
        BadOverride{"strategy.parameter_server.servers=0", "servers is 0: must be at least 1"}));

// ------------------------------------------------------------------------------------------------ examples

class ExampleTest : public ::testing::TestWithParam<const char*> {};

TEST_P(ExampleTest, LoadsAndIsNamedForItsFile) {
  const auto job = LoadJob(absl::StrCat(TETHYS_EXAMPLES, "/fashion_mnist_", GetParam(), ".textproto"), {});
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->name(), absl::StrCat("fashion_mnist_", GetParam()));
  EXPECT_EQ(StrategyName(*job), GetParam());
}
INSTANTIATE_TEST_SUITE_P(All, ExampleTest, ::testing::Values("local", "mirrored", "ps_sync", "ps_async"));

// ------------------------------------------------------------------------------------------- random damage

TEST(JobFileTest, SurvivesRandomDamage) {
  RandomStream random(2, RandomPurpose::kTest, 0);
  const std::string whole = kJob;
  for (int i = 0; i < 5000; ++i) {
    std::string text = whole;
    for (uint32_t flips = 1 + random.NextBelow(4); flips > 0; --flips) {
      text[random.NextBelow(text.size())] = static_cast<char>(random.NextBelow(256));
    }
    if (random.NextBelow(4) == 0) text.resize(random.NextBelow(text.size()));
    const auto job = ParseJob(text, "my.textproto", {});
    if (job.ok()) {
      EXPECT_TRUE(ParseJob(ResolvedText(*job), "my.textproto", {}).ok()) << text;
    } else {
      EXPECT_THAT(std::string(job.status().message()), StartsWith("my.textproto")) << text;
    }
  }
}

TEST(OverrideTest, SurvivesRandomDamage) {
  RandomStream random(3, RandomPurpose::kTest, 0);
  const std::string whole = "strategy.parameter_server.partitioner.fixed.shards=3";
  for (int i = 0; i < 5000; ++i) {
    std::string text = whole;
    for (uint32_t flips = 1 + random.NextBelow(4); flips > 0; --flips) {
      text[random.NextBelow(text.size())] = ".=[]0a"[random.NextBelow(6)];
    }
    const absl::Status status = ParseJob(kJob, "my.textproto", {text}).status();
    EXPECT_TRUE(status.ok() || absl::StartsWith(status.message(), "--set=")) << text << "\n" << status;
  }
}

}  // namespace
}  // namespace tethys
