#include "runtime/job/job_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/base/file.h"
#include "runtime/base/random.h"
#include "runtime/job/job.h"
#include "runtime/shape/job_shape.h"
#include "tests/runtime/job/job_text.h"
#include "tests/testing/temp_directory.h"

namespace tethys {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(JobFileTest, EmptyFileIsRefusedForItsMissingModel) {
  EXPECT_THAT(ErrorOf(""), AllOf(StartsWith("my.textproto: model is missing"), HasSubstr("layer")));
  EXPECT_THAT(ErrorOf("model { layer { dense { units: 10 } } }"), HasSubstr("data is missing"));
}

TEST(JobFileTest, MissingFileIsNamed) {
  const absl::Status status = LoadJob("/nowhere/job.textproto", {}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("/nowhere/job.textproto"));
}

// ----------------------------------------------------------------------------------------------- overrides

TEST(OverrideTest, OverridesSetScalarFieldsAtAnyDepth) {
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
  EXPECT_THAT(job.data().mean(), ElementsAre(0.5f));
  EXPECT_EQ(job.epochs(), 2) << "the last override wins";
}

TEST(OverrideTest, SettingAOneofMemberReplacesTheOtherMember) {
  const proto::Job job = Parsed(kJob, {"global_batch_size=100"});
  EXPECT_TRUE(job.has_global_batch_size());
  EXPECT_FALSE(job.has_batch_size_per_worker());
}

TEST(OverrideTest, OverrideChoosesAStrategyByName) {
  EXPECT_EQ(StrategyName(Parsed(kJob, {"strategy=mirrored"})), "mirrored");
  EXPECT_EQ(StrategyName(Parsed(kJob, {"strategy.mirrored="})), "mirrored");
  EXPECT_EQ(StrategyName(Parsed(kJob, {"strategy=mirrored", "strategy.mirrored.gradients=FP32"})),
            "mirrored");
  EXPECT_EQ(StrategyName(Parsed(kJob, {"strategy=local", "workers=1"})), "local");
  EXPECT_EQ(StrategyName(Parsed(kJob, {"strategy.parameter_server.consistency=asynchronous"})), "ps_async");
}

TEST(OverrideTest, FieldOfAnotherStrategyIsRefused) {
  const auto refusal = [](const std::string& override) {
    const absl::Status status = ParseJob(kJob, "my.textproto", {{override}}).status();
    return std::string(status.message());
  };
  EXPECT_EQ(refusal("strategy.mirrored.gradients=FP32"),
            "--set=strategy.mirrored.gradients=FP32: 'strategy' is parameter_server, which has no fields of "
            "mirrored: to change this choice, write --set=strategy=mirrored first");
  EXPECT_THAT(refusal("strategy.parameter_server.stale_synchronous.bound=2"),
              HasSubstr("write --set=strategy.parameter_server.consistency=stale_synchronous first"));
  EXPECT_THAT(refusal("model.layer[1].convolution.filters=3"),
              HasSubstr("'model.layer[1]' is dense, which has no fields of convolution"));
}

TEST(WithPlaceTest, ErrorThatBeginsWithAFieldPathIsPrefixedWithItsLineAndColumn) {
  testing::TempDirectory directory;
  const std::string path = directory.path() + "/my.textproto";
  ASSERT_TRUE(WriteFileAtomically(path, "epochs: 3\nmodel {\n  layer { dense { units: 10 } }\n}\n").ok());
  const auto placed = [&](const std::string& message, const std::vector<std::string>& overrides) {
    return std::string(WithPlace(absl::InvalidArgumentError(message), path, overrides).message());
  };
  EXPECT_EQ(placed("model.layer[0] 'dense_0': needs one axis", {}),
            path + ":3:3: model.layer[0] 'dense_0': needs one axis");
  EXPECT_EQ(placed("model.layer[0]: too wide", {"model.layer[0].dense.units=9"}),
            "--set=model.layer[0].dense.units=9: model.layer[0]: too wide");
  EXPECT_EQ(placed("cannot open images", {}), "cannot open images");
}

TEST(VariationTest, VariationAppliesOnlyToJobsThatUseTheVariedField) {
  testing::TempDirectory directory;
  const std::string path = directory.path() + "/my.textproto";
  ASSERT_TRUE(WriteFileAtomically(path, kJob).ok());
  const JobVariant servers = LoadJobVariant(path, {}, {{"strategy.parameter_server.servers=4"}}).value();
  EXPECT_THAT(servers.varied, ::testing::ElementsAre(true));
  EXPECT_EQ(ShapeOf(servers.job).servers, 4);
  const JobVariant mirrored =
      LoadJobVariant(path, {{"strategy=mirrored"}}, {{"strategy.parameter_server.servers=4"}}).value();
  EXPECT_THAT(mirrored.varied, ::testing::ElementsAre(false));
  EXPECT_EQ(StrategyName(mirrored.job), "mirrored");
  const std::vector<std::string> chosen_last = {"strategy.mirrored.gradients=FP32", "strategy=mirrored"};
  EXPECT_THAT(LoadJobVariant(path, {}, chosen_last)->varied, ::testing::ElementsAre(true, true));
  // Parameter servers, the strategy of the file, use all of these fields except the first. The mirrored
  // strategy uses the first and the last.
  const std::vector<std::string> tuning = {"tuning.bucket_bytes=4096", "tuning.message_bytes=4096",
                                           "tuning.partitioner.fixed.shards=2", "tuning.graph=false"};
  EXPECT_THAT(LoadJobVariant(path, {}, tuning)->varied, ::testing::ElementsAre(false, true, true, true));
  EXPECT_THAT(LoadJobVariant(path, {{"strategy=mirrored"}}, tuning)->varied,
              ::testing::ElementsAre(true, false, false, true));
  EXPECT_THAT(std::string(LoadJobVariant(path, {}, {{"workers=0"}}).status().message()),
              StartsWith("--vary=workers=0: workers is 0"));
}

TEST(OverrideTest, OverrideThatNamesTheStrategyOfTheFileKeepsItsFields) {
  EXPECT_EQ(Parsed(kJob, {"strategy=parameter_server"}).strategy().parameter_server().servers(), 2);
}

TEST(OverrideTest, FieldThatContradictsAnOverrideIsReportedWithLineAndColumn) {
  EXPECT_THAT(ErrorOf(kJob, {"strategy=local"}),
              StartsWith("my.textproto:16:1: workers is 3, but the strategy is local"));
}

TEST(OverrideTest, OverrideOfAListIsSplitAtCommas) {
  EXPECT_THAT(Parsed(kJob, {"optimizer.no_weight_decay=bias,scale"}).optimizer().no_weight_decay(),
              ElementsAre("bias", "scale"));
}

struct BadOverride {
  const char* text;
  const char* fragment;
};

std::ostream& operator<<(std::ostream& out, const BadOverride& bad) { return out << bad.text; }

class BadOverrideTest : public ::testing::TestWithParam<BadOverride> {};

TEST_P(BadOverrideTest, BadOverrideIsRefusedAndNamedInTheError) {
  EXPECT_THAT(
      ErrorOf(kJob, {GetParam().text}),
      AllOf(StartsWith(absl::StrCat("--set=", GetParam().text, ": ")), HasSubstr(GetParam().fragment)));
}

INSTANTIATE_TEST_SUITE_P(
    All, BadOverrideTest,
    ::testing::Values(
        BadOverride{"epochs", "write FIELD=VALUE"}, BadOverride{"=5", "not a path of field names"},
        BadOverride{"epoch=5", "Job has no field 'epoch' (did you mean 'epochs'?)"},
        BadOverride{"lr=0.1",
                    "Job has no field 'lr' (did you mean 'optimizer.learning_rate'?); it has: name"},
        BadOverride{"optimizer.lr=0.1", "Optimizer has no field 'lr' (did you mean 'learning_rate'?)"},
        BadOverride{"learning_rate=0.1", "(did you mean 'optimizer.learning_rate'?)"},
        BadOverride{"num_workers=3", "(did you mean 'workers'?)"},
        BadOverride{"units=5", "Job has no field 'units'; it has: "},
        BadOverride{"optimizer=adamw",
                    "'adamw' is not a choice: write adam with decoupled_weight_decay: true"},
        BadOverride{"strategy=ddp", "'ddp' is not a choice: write mirrored {}"},
        BadOverride{"device=cuda", "'device' is a group of fields: write device.kind=CUDA"},
        BadOverride{"optimizer.lerning_rate=1",
                    "Optimizer has no field 'lerning_rate' (did you mean 'learning_rate'?)"},
        BadOverride{"optimiser.learning_rate=1", "did you mean 'optimizer'?"},
        BadOverride{"epochs=five", "'five' is not a whole number"},
        BadOverride{"epochs=", "'' is not a whole number"},
        BadOverride{"workers=99999999999", "not a whole number of 32 bits"},
        BadOverride{"seed=-1", "0 or more"},
        BadOverride{"optimizer.learning_rate=fast", "'fast' is not a number"},
        BadOverride{"drop_remainder=perhaps", "'perhaps' is not true or false"},
        BadOverride{"model.layer[1].dense.activation=tanh", "its values are: ACTIVATION_NONE, RELU"},
        BadOverride{"device.precision=FP16", "FP16 is refused: gradients in FP16 underflow"},
        BadOverride{"device.precision=BF16", "device.precision is BF16, but device.kind is CPU"},
        BadOverride{"device.tf32=true", "device.tf32 is true, but device.kind is CPU"},
        BadOverride{"strategy=miror",
                    "'miror' is not a choice; the choices are: local, mirrored, parameter_server"},
        BadOverride{"strategy=mirored", "did you mean 'mirrored'?"},
        BadOverride{"strategy.parameter_server.consistency=eventual", "bulk_synchronous, asynchronous"},
        BadOverride{"optimizer=sgdd", "did you mean 'sgd'?"},
        BadOverride{"batch=64", "; the choices are: global_batch_size, batch_size_per_worker"},
        BadOverride{"batch=global_batch_size", "needs a value: write global_batch_size=VALUE"},
        BadOverride{"timeouts=5", "is a group of fields: set them one by one (start, silence"},
        BadOverride{"epochs.x=5", "'epochs' is a single value and has no fields"},
        BadOverride{"workers[0]=5", "'workers' is no list"},
        BadOverride{"data[0].classes=5", "'data' is no list"},
        BadOverride{"model.layer.dense.units=5", "'layer' is a list of 3: write layer[0] to layer[2]"},
        BadOverride{"model.layer[3].dense.units=5", "'layer' is a list of 3"},
        BadOverride{"model.layer[x].dense.units=5", "write an index as layer[0]"},
        BadOverride{"workers=0", "workers is 0: must be at least 1"},
        BadOverride{"strategy.parameter_server.servers=0", "servers is 0: must be at least 1"}));

TEST(JobFileTest, ByteOrderMarkIsSkippedAndUtf16IsRefusedByName) {
  const absl::StatusOr<proto::Job> marked = ParseJob(absl::StrCat("\xef\xbb\xbf", kJob), "job.textproto", {});
  EXPECT_TRUE(marked.ok()) << marked.status();
  EXPECT_THAT(ErrorOf("\357\273\277epoch: 1", {}), HasSubstr(":1:6: Job has no field 'epoch'"));
  EXPECT_THAT(ErrorOf(std::string("\377\376e\0p\0", 6), {}), HasSubstr("is in UTF-16: save it as UTF-8"));
  EXPECT_THAT(ErrorOf(std::string("\0e\0p\0o", 6), {}), HasSubstr("is in UTF-16BE: save it as UTF-8"));
}

TEST(JobFileTest, AccentedFileNameGivesAJobNameInPlainLetters) {
  const auto name = [](const std::string& file) { return ParseJob(kJob, file, {}).value().name(); };
  EXPECT_EQ(name("K\xc3\xa4se.textproto"), "Kase");
  EXPECT_EQ(name("Ka\xcc\x88se.textproto"), "Kase") << "the accent is a character of its own";
  EXPECT_EQ(name("\305\201\303\263d\305\272 Stra\303\237e.textproto"), "Lodz_Strasse");
  EXPECT_EQ(name("\xe6\xa8\xa1\xe5\x9e\x8b.textproto"), "job");
  EXPECT_EQ(name("\xe6\xa8\xa1-2.textproto"), "_-2");
  EXPECT_EQ(name("K\xe4se.textproto"), "K_se") << "Latin-1";
}

TEST(JobFileTest, ClassNamesMustBeOneForEachClassAndDifferent) {
  const std::vector<std::string> ten = {"data.class_name=a,b,c,d,e,f,g,h,i,j"};
  EXPECT_EQ(ParseJob(kJob, "j", ten).value().data().class_name(9), "j");
  EXPECT_THAT(ErrorOf(kJob, {"data.class_name=cat,dog"}), HasSubstr("has 2 names, but data.classes is 10"));
  EXPECT_THAT(ErrorOf(kJob, {"data.class_name=a,b,c,d,e,f,g,h,i,a"}),
              HasSubstr("gives the name 'a' to two classes"));
}

TEST(OverrideTest, OverrideWithAModelFamilyReplacesTheLayersOfTheFile) {
  const absl::StatusOr<proto::Job> job =
      ParseJob(kJob, "j", std::vector<std::string>{"model=resnet", "model.resnet.depth=18"});
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->model().resnet().depth(), 18);
}

TEST(OverrideTest, DecoupledDecayThatRemovesTheWholeParameterInAStepIsRefused) {
  EXPECT_THAT(
      ErrorOf(kJob, {"optimizer.decoupled_weight_decay=true", "optimizer.weight_decay=0.5",
                     "optimizer.learning_rate=0.8", "optimizer.scale_with_workers=true"}),
      HasSubstr("optimizer.weight_decay is 0.5, and its product with the learning rate of 2.4 is 1 or more"));
}

TEST(OverrideTest, AdamIsRefusedForStaleSynchronousJobs) {
  EXPECT_THAT(
      ErrorOf(kJob, {"optimizer=adam", "strategy.parameter_server.consistency=stale_synchronous"}),
      HasSubstr("optimizer.adam counts updates, but the checkpoints of stale-synchronous jobs count"));
}

TEST(OverrideTest, ClippingIsRefusedOnlyWhereServersAddPushes) {
  const std::string servers = "strategy.parameter_server.";
  for (const std::vector<std::string>& strategy :
       std::vector<std::vector<std::string>>{{"strategy=mirrored"},
                                             {servers + "consistency=bulk_synchronous"},
                                             {servers + "consistency=asynchronous"},
                                             {servers + "consistency=stale_synchronous",
                                              servers + "stale_synchronous.gradient_scale=PUSH_MEAN"}}) {
    std::vector<std::string> overrides = {"optimizer.clip.global_norm=1"};
    overrides.insert(overrides.end(), strategy.begin(), strategy.end());
    const absl::Status status = ParseJob(kJob, "my.textproto", overrides).status();
    EXPECT_TRUE(status.ok()) << strategy[0] << ": " << status;
  }
  EXPECT_THAT(ErrorOf(kJob, {"optimizer.clip.global_norm=1", servers + "consistency=stale_synchronous"}),
              HasSubstr("optimizer.clip needs the norm of an update's gradients, but each "
                        "stale-synchronous server adds the pushes that it has received"));
}

TEST(OverrideTest, TrustRatiosAreRefusedWhereServersUpdateIndependently) {
  for (const std::string optimizer : {"lars", "lamb"}) {
    EXPECT_TRUE(
        ParseJob(kJob, "my.textproto",
                 {{"optimizer=" + optimizer, "strategy.parameter_server.consistency=bulk_synchronous"}})
            .ok());
    for (const std::string consistency : {"stale_synchronous", "asynchronous"}) {
      EXPECT_THAT(
          ErrorOf(kJob, {"optimizer=" + optimizer, "strategy.parameter_server.consistency=" + consistency}),
          HasSubstr("optimizer." + optimizer + " needs the norms of whole variables"));
    }
  }
}

TEST(OverrideTest, EntryOfAnEmptyListIsRefused) {
  const absl::Status status =
      ParseJob("model {}", "my.textproto", {{"model.layer[0].dense.units=3"}}).status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("'layer' is an empty list"));
}

TEST(OverrideTest, UnsupportedGradientPrecisionIsRefused) {
  for (const auto& [override, message] : std::vector<std::pair<std::string, std::string>>{
           {"strategy.mirrored.gradients=BF16",
            "strategy.mirrored.gradients is BF16, but device.kind is CPU, which sums in float32: leave "
            "gradients out, or write kind: CUDA"},
           {"strategy.mirrored.gradients=FP16", "gradients FP16 is refused: gradients in FP16 underflow"},
           {"strategy.mirrored.gradients=FP64",
            "'FP64' is not a value of gradients (did you mean 'FP32'?); its values are: FP32, BF16"}}) {
    const absl::Status status = ParseJob(kJob, "my.textproto", {{"strategy=mirrored", override}}).status();
    EXPECT_THAT(std::string(status.message()), HasSubstr(message));
  }
}

// ------------------------------------------------------------------------------------------------ examples

// Loads also the examples that have a base, because each of them is a complete job.
TEST(ExampleTest, EveryExampleLoadsWithoutOverrides) {
  int loaded = 0;
  for (const std::string folder : {TETHYS_EXAMPLES, TETHYS_EXAMPLES "/okeanos"}) {
    const absl::StatusOr<std::vector<std::string>> names = ListDirectory(folder);
    ASSERT_TRUE(names.ok()) << names.status();
    for (const std::string& name : *names) {
      if (!absl::EndsWith(name, ".textproto")) continue;
      const auto job = LoadJob(absl::StrCat(folder, "/", name), {});
      ++loaded;
      ASSERT_TRUE(job.ok()) << job.status();
      EXPECT_FALSE(job->has_base()) << name;
    }
  }
  EXPECT_GT(loaded, 15);
}

class StrategyExampleTest : public ::testing::TestWithParam<const char*> {};

TEST_P(StrategyExampleTest, ExampleLoadsAndHasTheNameAndStrategyOfItsFileName) {
  const auto job = LoadJob(absl::StrCat(TETHYS_EXAMPLES, "/fashion_mnist_", GetParam(), ".textproto"), {});
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->name(), absl::StrCat("fashion_mnist_", GetParam()));
  EXPECT_EQ(StrategyName(*job), GetParam());
  EXPECT_EQ(job->model().layer_size(), 3);
  EXPECT_EQ(job->optimizer().sgd().momentum(), StrategyName(*job) == "ps_async" ? 0 : 0.9);
}
INSTANTIATE_TEST_SUITE_P(All, StrategyExampleTest,
                         ::testing::Values("local", "mirrored", "ps_sync", "ps_async"));

// ------------------------------------------------------------------------------------------- random damage

TEST(JobFileTest, DamagedJobFileGivesAValidJobOrAnErrorThatNamesTheFile) {
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

TEST(OverrideTest, DamagedOverrideGivesAValidJobOrAnErrorThatNamesTheOverride) {
  RandomStream random(3, RandomPurpose::kTest, 0);
  const std::string whole = "tuning.partitioner.fixed.shards=3";
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
