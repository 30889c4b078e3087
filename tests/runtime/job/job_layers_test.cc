#include "runtime/job/job_layers.h"

#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <set>

#include "runtime/base/file.h"
#include "runtime/job/job.h"
#include "runtime/shape/job_shape.h"
#include "tests/runtime/job/job_text.h"
#include "tests/testing/temp_directory.h"

namespace tethys {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

proto::Job Fields(const std::string& text) {
  proto::Job job;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &job)) << text;
  return job;
}

// The job `lower` after PutOver has replaced its fields by those of `upper`, as text on one line.
std::string Over(const std::string& upper, const std::string& lower) {
  proto::Job job = Fields(lower);
  PutOver(Fields(upper), job);
  return job.ShortDebugString();
}

TEST(PutOverTest, MessagesMergeFieldByField) {
  EXPECT_EQ(Over("optimizer { learning_rate: 0.5 }", "optimizer { sgd { momentum: 0.25 } learning_rate: 1 }"),
            "optimizer { sgd { momentum: 0.25 } learning_rate: 0.5 }");
  EXPECT_EQ(Over("", "epochs: 3 seed: 7"), "epochs: 3 seed: 7");
  EXPECT_EQ(Over("epochs: 0 evaluate_each_epoch: false", "epochs: 3 evaluate_each_epoch: true"),
            "epochs: 0 evaluate_each_epoch: false")
      << "a zero that is written replaces";
}

TEST(PutOverTest, ListInTheUpperFileReplacesTheListOfTheBaseAsAWhole) {
  EXPECT_EQ(Over("model { layer { flatten {} } }", "model { layer { add {} } layer { add {} } loss {} }"),
            "model { layer { flatten { } } loss { } }");
  EXPECT_EQ(Over("data { mean: 1 }", "data { mean: 2 mean: 3 deviation: 4 classes: 5 }"),
            "data { classes: 5 mean: 1 deviation: 4 }");
}

TEST(PutOverTest, ListInAOneofMemberReplacesTheListOfTheBaseAsAWhole) {
  EXPECT_EQ(Over("model { vgg { dense_units: 7 } }", "model { vgg { depth: 11 dense_units: [1, 2] } }"),
            "model { vgg { depth: 11 dense_units: 7 } }");
}

TEST(PutOverTest, MemberSetInTheUpperFileReplacesTheOtherMemberOfItsOneof) {
  EXPECT_EQ(Over("strategy { mirrored {} }", "strategy { parameter_server { servers: 2 } }"),
            "strategy { mirrored { } }");
  EXPECT_EQ(Over("global_batch_size: 64", "batch_size_per_worker: 32"), "global_batch_size: 64");
  EXPECT_EQ(Over("strategy { parameter_server { asynchronous {} } }",
                 "strategy { parameter_server { servers: 2 bulk_synchronous {} } }"),
            "strategy { parameter_server { servers: 2 asynchronous { } } }");
}

// For a field without presence, a zero in a file could not replace a value of the file's base.
TEST(PutOverTest, EverySingularFieldOfAJobHasPresence) {
  std::set<const google::protobuf::Descriptor*> seen;
  const std::function<void(const google::protobuf::Descriptor&)> check = [&](const auto& type) {
    if (!seen.insert(&type).second) return;
    for (int i = 0; i < type.field_count(); ++i) {
      const auto& field = *type.field(i);
      EXPECT_TRUE(field.is_repeated() || field.has_presence()) << field.full_name();
      if (field.message_type() != nullptr) check(*field.message_type());
    }
  };
  check(*proto::Job::descriptor());
  EXPECT_GT(seen.size(), 50);
}

class JobLayersTest : public ::testing::Test {
 protected:
  std::string Write(const std::string& name, const std::string& text) {
    const std::filesystem::path path = directory_.path() + "/" + name;
    EXPECT_TRUE(CreateDirectories(path.parent_path().string()).ok());
    EXPECT_TRUE(WriteFileAtomically(path.string(), text).ok());
    return path.string();
  }
  std::string Path(const std::string& name) const { return directory_.path() + "/" + name; }
  proto::Job Load(const std::string& path, const std::vector<std::string>& overrides = {}) {
    auto job = LoadJob(path, overrides);
    EXPECT_TRUE(job.ok()) << job.status();
    return job.ok() ? *job : proto::Job();
  }
  std::string Refusal(const std::string& path, const std::vector<std::string>& overrides = {}) {
    const absl::Status status = LoadJob(path, overrides).status();
    EXPECT_FALSE(status.ok());
    return std::string(status.message());
  }

  testing::TempDirectory directory_;
};

TEST_F(JobLayersTest, PathOfABaseIsRelativeToTheFolderOfTheFileThatNamesIt) {
  Write("shared/models/net.textproto", kJob);
  Write("shared/three.textproto", "base: \"models/net.textproto\" epochs: 7");
  const std::string path =
      Write("mine/fast.textproto", "base: \"../shared/three.textproto\" strategy { mirrored {} } workers: 2");
  const proto::Job job = Load(path);
  EXPECT_EQ(StrategyName(job), "mirrored");
  EXPECT_EQ(job.workers(), 2);
  EXPECT_EQ(job.epochs(), 7);
  EXPECT_EQ(job.model().layer_size(), 3);
  EXPECT_EQ(job.name(), "fast");
  EXPECT_FALSE(job.has_base());
}

TEST_F(JobLayersTest, ResultEqualsOneFileWithAllFields) {
  Write("base.textproto", kJob);
  const std::string derived = Write("job.textproto", "base: \"base.textproto\" epochs: 9");
  proto::Job whole = Load(Write("whole.textproto", Edited("epochs: 5", "epochs: 9")));
  whole.set_name("job");
  EXPECT_EQ(ResolvedText(Load(derived)), ResolvedText(whole));
  EXPECT_EQ(Load(derived, {"epochs=2"}).epochs(), 2) << "flags come after all files";
}

TEST_F(JobLayersTest, ModelOfAnotherKindReplacesTheModelOfTheBase) {
  Write("base.textproto", kJob);
  const std::string lenet =
      Write("lenet.textproto", "base: \"base.textproto\"\nmodel { resnet { depth: 18 } }");
  const proto::Job job = Load(lenet);
  EXPECT_EQ(job.model().resnet().depth(), 18);
  EXPECT_EQ(job.model().layer_size(), 0);
  const proto::Job back =
      Load(Write("back.textproto",
                 "base: \"lenet.textproto\" model { layer { flatten {} } layer { dense { units: 10 } } }"));
  EXPECT_EQ(back.model().family_case(), proto::Model::FAMILY_NOT_SET);
  EXPECT_EQ(back.model().layer_size(), 2);
  EXPECT_EQ(Load(Write("still.textproto", "base: \"base.textproto\" model { frozen: \"dense_1\" }"))
                .model()
                .layer_size(),
            3)
      << "a file that says nothing of the kind leaves it";
  EXPECT_THAT(
      Refusal(Write("both.textproto", "base: \"base.textproto\" model { lenet {} layer { flatten {} } }")),
      HasSubstr("has both layers and a family"));
}

TEST_F(JobLayersTest, JobNameGivenInTheBaseIsInherited) {
  Write("base.textproto", std::string(kJob) + "name: \"given\"");
  EXPECT_EQ(Load(Write("job.textproto", "base: \"base.textproto\"")).name(), "given");
}

TEST_F(JobLayersTest, AbsolutePathOfABaseIsUsedUnchanged) {
  const std::string base = Write("base.textproto", kJob);
  EXPECT_EQ(Load(Write("other/job.textproto", "base: \"" + base + "\"")).epochs(), 5);
}

TEST_F(JobLayersTest, ErrorNamesTheFileThatWroteTheField) {
  const std::string base = Write("base.textproto", Edited("epochs: 5", "epochs: -5"));
  const std::string derived = Write("job.textproto", "base: \"base.textproto\"\n\nworkers: 3\n");
  EXPECT_THAT(Refusal(derived), StartsWith(base + ":15:1: epochs is -5"));
  EXPECT_THAT(Refusal(Write("job.textproto", "base: \"base.textproto\"\nepochs: 5\n\nworkers: 0\n")),
              StartsWith(derived + ":4:1: workers is 0"));
  EXPECT_THAT(Refusal(derived, {"workers=0", "epochs=1"}), StartsWith("--set=workers=0: workers is 0"));
}

TEST_F(JobLayersTest, ErrorInAListNamesTheFileThatWroteTheList) {
  const std::string base = Write("base.textproto", Edited("units: 128", "units: -1"));
  const std::string derived = Write("job.textproto", "base: \"base.textproto\"\nmodel { loss {} }\n");
  EXPECT_THAT(Refusal(derived), StartsWith(base + ":3:19: model.layer[1].dense.units"));
  Write("job.textproto",
        "base: \"base.textproto\"\nmodel {\n  layer { flatten {} }\n  layer { dense { activation: RELU } "
        "}\n}\n");
  EXPECT_THAT(Refusal(derived), StartsWith(derived + ":4:")) << "units are missing here, not in the base";
}

TEST_F(JobLayersTest, ErrorInAReplacedMemberDoesNotNameTheBase) {
  Write("first.textproto",
        Edited("parameter_server { servers: 2 bulk_synchronous {} }", "mirrored { gradients: BF16 }"));
  Write("second.textproto", "base: \"first.textproto\"\nstrategy { parameter_server {} }");
  const std::string third =
      Write("third.textproto", "base: \"second.textproto\"\nstrategy {\n  mirrored {} }");
  EXPECT_FALSE(ReadJobLayers(third)->job.strategy().mirrored().has_gradients());
  EXPECT_EQ(ReadJobLayers(third)->places.Find("strategy.mirrored.gradients"), third + ":3:3");
}

TEST_F(JobLayersTest, ErrorFoundAfterLoadingIsPrefixedWithLineAndColumnInTheBase) {
  const std::string base = Write("base.textproto", kJob);
  const std::string derived = Write("job.textproto", "base: \"base.textproto\"");
  EXPECT_EQ(WithPlace(absl::InvalidArgumentError("model.layer[1]: too wide"), derived, {}).message(),
            base + ":3:3: model.layer[1]: too wide");
}

TEST_F(JobLayersTest, UnknownFieldInABaseIsRefusedWithFileLineAndColumn) {
  const std::string base = Write("base.textproto", "\nepoch: 5");
  EXPECT_THAT(Refusal(Write("job.textproto", "base: \"base.textproto\"")),
              AllOf(StartsWith(base + ":2:6: "), HasSubstr("did you mean 'epochs'?")));
}

TEST_F(JobLayersTest, ErrorNamesTheMissingBaseAndTheLineThatRefersToIt) {
  const std::string derived = Write("job.textproto", "epochs: 1\nbase: \"nowhere.textproto\"");
  EXPECT_EQ(LoadJob(derived, {}).status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(Refusal(derived),
              AllOf(StartsWith(derived + ":2:1: base: "), HasSubstr(Path("nowhere.textproto"))));
  EXPECT_THAT(Refusal(Write("empty.textproto", "base: \"\"")),
              HasSubstr(":1:1: base is empty: name a job file"));
}

TEST_F(JobLayersTest, CycleOfBasesIsRefusedNamingTheFiles) {
  const std::string first = Write("a.textproto", "base: \"b.textproto\"");
  const std::string second = Write("b.textproto", "base: \"./c/../a.textproto\"");
  Write("c/unused.textproto", "");
  EXPECT_THAT(Refusal(first), AllOf(StartsWith(second + ":1:1: base: the file is its own base"),
                                    HasSubstr("(" + first + " -> " + second + " -> ")));
  EXPECT_THAT(Refusal(Write("self.textproto", "base: \"self.textproto\"")), HasSubstr("its own base"));
}

TEST_F(JobLayersTest, ChainOfEightFilesIsReadAndChainOfNineIsRefused) {
  Write("1.textproto", kJob);
  for (int i = 2; i <= 9; ++i) {
    Write(absl::StrCat(i, ".textproto"), absl::StrCat("base: \"", i - 1, ".textproto\""));
  }
  EXPECT_EQ(Load(Path("8.textproto")).epochs(), 5);
  EXPECT_THAT(Refusal(Path("9.textproto")),
              AllOf(StartsWith(Path("2.textproto") + ":1:1: base: "), HasSubstr("8 files at most")));
}

TEST_F(JobLayersTest, DataOfAJobMayComeFromItsBase) {
  Write("base.textproto", "data { idx { train_images: \"images\" train_labels: \"labels\" } classes: 10 }");
  const std::string derived = Write("data.textproto", "base: \"base.textproto\" data { classes: 4 }");
  EXPECT_EQ(LoadData(derived, {})->data().classes(), 4);
  EXPECT_EQ(LoadData(derived, {})->data().idx().train_images(), "images");
}

TEST_F(JobLayersTest, BaseIsRefusedInAFlag) {
  const std::string path = Write("job.textproto", kJob);
  EXPECT_THAT(Refusal(path, {"base=other.textproto"}),
              AllOf(StartsWith("--set=base=other.textproto: "), HasSubstr("write it in a job file")));
  EXPECT_THAT(std::string(LoadJobVariant(path, {}, {{"base=a"}}).status().message()),
              StartsWith("--vary=base=a: "));
}

TEST_F(JobLayersTest, BaseIsRefusedInTextWithoutAFile) {
  EXPECT_THAT(ErrorOf("epochs: 1\nbase: \"other.textproto\""),
              AllOf(StartsWith("my.textproto:2:1: base: "), HasSubstr("write out the fields")));
}

TEST_F(JobLayersTest, FlatTextMeansTheSameWithoutTheBase) {
  Write("base.textproto", kJob);
  const std::string derived = Write("job.textproto", "base: \"base.textproto\" epochs: 9");
  const absl::StatusOr<std::string> flat = FlatJobText(derived, {"workers=2"});
  ASSERT_TRUE(flat.ok()) << flat.status();
  EXPECT_THAT(*flat, Not(HasSubstr("base:")));
  EXPECT_THAT(*flat, Not(HasSubstr("timeouts"))) << "defaults are not written out";
  EXPECT_EQ(ResolvedText(Parsed(*flat)), ResolvedText(*LoadJob(derived, {"workers=2"})));
  EXPECT_THAT(std::string(FlatJobText(derived, {"workers=0"}).status().message()),
              StartsWith("--set=workers=0: "));
}

}  // namespace
}  // namespace tethys
