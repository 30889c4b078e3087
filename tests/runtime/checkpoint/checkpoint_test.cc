#include <cmath>
#include <limits>
#include <thread>

#include "absl/strings/str_format.h"
#include "runtime/checkpoint/checkpoint_format.h"
#include "tests/runtime/checkpoint/checkpoint_fixture.h"

namespace tethys {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST_F(CheckpointTest, LoadedValuesEqualTheSavedValues) {
  ASSERT_TRUE(Save(7).ok());
  EXPECT_EQ(*Load(Path(7), 0), Values(0));
  EXPECT_EQ(*Load(Path(7), 1), Values(1));
  EXPECT_THAT(Files(), ElementsAre("step-7"));
}

TEST_F(CheckpointTest, ManifestContainsTheTrainingState) {
  proto::TrainingState state;
  state.set_step(7);
  state.set_epoch(2);
  state.set_seed(0xFFFFFFFFFFFFFFFF);
  state.set_loss_sum(0.1 + 0.2);
  const auto writer = Begin(7, {});
  ASSERT_TRUE(writer->Write(0, 0, Values(0)).ok());
  ASSERT_TRUE(writer->Commit(state).ok());
  const auto reader = CheckpointReader::Open(writer->directory(), &model_);
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_EQ((*reader)->manifest().state().SerializeAsString(), state.SerializeAsString());
  EXPECT_EQ((*reader)->manifest().job_name(), "test");
  EXPECT_EQ((*reader)->variables().signature(), model_.signature());
}

TEST_F(CheckpointTest, RangesMayBeWrittenAndReadInAnyPieces) {
  const std::vector<float> values = Values(0);
  for (int64_t piece : {1, 5, 16, 40}) {
    const auto writer = Begin(piece, {});
    for (int64_t begin = 0; begin < values.size(); begin += piece) {
      const int64_t from = (values.size() - 1) / piece * piece - begin;  // The last piece is first.
      ASSERT_TRUE(writer->Write(0, from, absl::MakeConstSpan(values).subspan(from, piece)).ok());
    }
    ASSERT_TRUE(writer->Commit({}).ok());
    const auto reader = CheckpointReader::Open(Path(piece), &model_);
    std::vector<float> read(values.size(), NAN);
    for (int64_t begin = 0; begin < read.size(); begin += piece) {
      ASSERT_TRUE((*reader)->Read(0, begin, absl::MakeSpan(read).subspan(begin, piece)).ok());
    }
    EXPECT_EQ(read, values);
  }
}

TEST_F(CheckpointTest, ThreadsMayWriteDifferentRangesConcurrently) {
  const auto writer = Begin(1);
  std::vector<std::thread> sources;
  for (int source = 0; source < 4; ++source) {
    sources.emplace_back([&, source] {
      const std::vector<float> values = Values(source % 2);
      const int64_t half = values.size() / 2;
      const absl::Span<const float> part = absl::MakeConstSpan(values).subspan(source / 2 * half, half);
      for (int64_t i = 0; i < half; ++i) {
        ASSERT_TRUE(writer->Write(source % 2, source / 2 * half + i, part.subspan(i, 1)).ok());
      }
    });
  }
  for (std::thread& source : sources) source.join();
  ASSERT_TRUE(writer->Commit({}).ok());
  EXPECT_EQ(*Load(Path(1), 0), Values(0));
  EXPECT_EQ(*Load(Path(1), 1), Values(1));
}

TEST_F(CheckpointTest, WritingTheSameRangeAgainIsAllowed) {
  const auto writer = Begin(1, {});
  ASSERT_TRUE(writer->Write(0, 0, Values(0, 5)).ok());
  ASSERT_TRUE(writer->Write(0, 0, Values(0)).ok());
  ASSERT_TRUE(writer->Commit({}).ok());
  EXPECT_EQ(*Load(Path(1), 0), Values(0));
}

TEST_F(CheckpointTest, RangesThatOverlapButAreNotEqualAreRefused) {
  const auto writer = Begin(1, {});
  const std::vector<float> values(20);
  ASSERT_TRUE(writer->Write(0, 10, values).ok());
  for (const int64_t begin : {0, 9, 11, 29}) {
    const absl::Status status = writer->Write(0, begin, values);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << begin;
    EXPECT_THAT(status.message(), HasSubstr("overlap [10, 30)"));
  }
  EXPECT_EQ(writer->Write(0, 10, absl::MakeConstSpan(values).subspan(0, 5)).code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(CheckpointTest, RangesOutsideTheArenaAreRefused) {
  const auto writer = Begin(1);
  const std::vector<float> values(2);
  for (const auto& [slot, begin] :
       std::vector<std::pair<int, int64_t>>{{0, -1},
                                            {0, model_.arena_size() - 1},
                                            {0, std::numeric_limits<int64_t>::max()},
                                            {2, 0},
                                            {-1, 0}}) {
    EXPECT_EQ(writer->Write(slot, begin, values).code(), absl::StatusCode::kInvalidArgument)
        << slot << " " << begin;
  }
}

TEST_F(CheckpointTest, NonFiniteValueIsRefusedAndItsTensorNamed) {
  for (const float bad : {NAN, INFINITY, -INFINITY}) {
    const auto writer = Begin(1);
    std::vector<float> values = Values(1);
    values[model_.variables()[1].range.begin + 4] = bad;
    const absl::Status status = writer->Write(1, 0, values);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(status.message(), HasSubstr("'momentum/dense/bias'"));
    EXPECT_THAT(status.message(), HasSubstr("element 4"));
    EXPECT_FALSE(writer->Commit({}).ok());
  }
  EXPECT_THAT(Files(), IsEmpty());
}

TEST_F(CheckpointTest, CommitFailsIfAnElementOfAVariableWasNotWritten) {
  const int64_t missing = model_.variables()[0].range.begin + 33;
  const auto writer = Begin(1);
  const std::vector<float> values = Values(0);
  ASSERT_TRUE(writer->Write(1, 0, values).ok());
  ASSERT_TRUE(writer->Write(0, 0, absl::MakeConstSpan(values).subspan(0, missing)).ok());
  ASSERT_TRUE(writer->Write(0, missing + 1, absl::MakeConstSpan(values).subspan(missing + 1)).ok());
  const absl::Status status = writer->Commit({});
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.message(), HasSubstr("element 33 of tensor 'dense/weights' was never written"));
}

TEST_F(CheckpointTest, CommitSucceedsIfOnlyPaddingWasNotWritten) {
  const auto writer = Begin(1, {});
  const std::vector<float> values = Values(0);
  for (const Variable& variable : model_.variables()) {
    ASSERT_TRUE(writer
                    ->Write(0, variable.range.begin,
                            absl::MakeConstSpan(values).subspan(variable.range.begin, variable.range.count))
                    .ok());
  }
  ASSERT_TRUE(writer->Commit({}).ok());
  EXPECT_EQ(*Load(Path(1), 0), values);
}

TEST_F(CheckpointTest, CommitAfterAFailedCommitFails) {
  const auto writer = Begin(1, {});
  ASSERT_FALSE(writer->Commit({}).ok());
  ASSERT_TRUE(writer->Write(0, 0, Values(0)).ok());
  EXPECT_EQ(writer->Commit({}).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(*ListCheckpoints(root_), IsEmpty());
}

TEST_F(CheckpointTest, UncommittedCheckpointLeavesNoFiles) {
  ASSERT_TRUE(Save(1).ok());
  {
    const auto writer = Begin(2);
    ASSERT_TRUE(writer->Write(0, 0, Values(0)).ok());
    EXPECT_THAT(Files(), ElementsAre("step-1", "step-2.tmp"));
    EXPECT_EQ(FindLatestCheckpoint(root_)->path, Path(1));
  }
  EXPECT_THAT(Files(), ElementsAre("step-1"));
}

TEST_F(CheckpointTest, SecondSaveOfAStepReplacesTheFirst) {
  ASSERT_TRUE(Save(3, 0).ok());
  ASSERT_TRUE(Save(3, 0.5).ok());
  EXPECT_EQ(*Load(Path(3), 0), Values(0, 0.5));
  EXPECT_THAT(Files(), ElementsAre("step-3"));
}

TEST_F(CheckpointTest, FailedSecondSaveOfAStepKeepsTheFirst) {
  ASSERT_TRUE(Save(3).ok());
  ASSERT_FALSE(Begin(3)->Commit({}).ok());
  EXPECT_EQ(*Load(Path(3), 0), Values(0));
}

TEST_F(CheckpointTest, CheckpointOfAnotherModelIsRefusedNamingTheFirstDifferentVariable) {
  ASSERT_TRUE(Save(1).ok());
  const auto refusal = [this](const VariableSet& other) {
    return std::string(CheckpointReader::Open(Path(1), &other).status().message());
  };
  EXPECT_THAT(refusal(ModelOf({{"dense/weights", {5, 7}}, {"dense/bias", {8}}, {"out/bias", {3}}})),
              HasSubstr("variable 1 is 'dense/bias' [7] (out) in the checkpoint and 'dense/bias' [8] (out)"));
  EXPECT_THAT(refusal(ModelOf({{"dense/weights", {5, 7}}})),
              HasSubstr("'dense/bias' [7] (out) in the checkpoint and nothing"));
  EXPECT_EQ(CheckpointReader::Open(Path(1), nullptr).status(), absl::OkStatus());
  const VariableSet empty;
  EXPECT_EQ(CheckpointReader::Open(Path(1), &empty).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(CheckpointTest, SlotsAreFoundByNameAndMissingSlotsAreReadAsZeros) {
  ASSERT_TRUE(Save(1, 0, {"first", "second"}).ok());
  const auto reader = CheckpointReader::Open(Path(1), &model_, {"second", "third"});
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_EQ((*reader)->slot_count(), 3);
  EXPECT_TRUE((*reader)->has_slot(1));
  EXPECT_FALSE((*reader)->has_slot(2));
  std::vector<float> values(model_.arena_size(), NAN);
  ASSERT_TRUE((*reader)->Read(1, 0, absl::MakeSpan(values)).ok());
  EXPECT_EQ(values, Values(2));
  ASSERT_TRUE((*reader)->Read(2, 0, absl::MakeSpan(values)).ok());
  EXPECT_EQ(values, std::vector<float>(model_.arena_size()));
  EXPECT_EQ((*reader)->Read(3, 0, absl::MakeSpan(values)).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ((*reader)->Read(0, 1, absl::MakeSpan(values)).code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(CheckpointTest, DirectoryWithoutManifestIsNotTakenForACheckpoint) {
  ASSERT_TRUE(Save(1).ok());
  ASSERT_TRUE(Save(2).ok());
  std::filesystem::remove(Path(2) + "/manifest.textproto");
  EXPECT_EQ(CheckpointReader::Open(Path(2), nullptr).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(FindLatestCheckpoint(root_)->path, Path(1));
}

TEST_F(CheckpointTest, FindLatestSkipsADamagedCheckpointAndReportsIt) {
  EXPECT_EQ(FindLatestCheckpoint(root_)->path, "");
  for (const int64_t step : {9, 10, 100}) ASSERT_TRUE(Save(step).ok());
  EXPECT_EQ(FindLatestCheckpoint(root_)->path, Path(100));
  std::filesystem::resize_file(Path(100) + "/model.safetensors", 100);
  const LatestCheckpoint latest = *FindLatestCheckpoint(root_);
  EXPECT_EQ(latest.path, Path(10));
  ASSERT_EQ(latest.damaged.size(), 1u);
  EXPECT_EQ(latest.damaged[0].path, Path(100));
  EXPECT_THAT(latest.damaged[0].reason, HasSubstr("step-100/model.safetensors has 100 bytes"));
}

TEST_F(CheckpointTest, NewestCheckpointWrittenByALaterVersion_IsAnErrorAndNotSkipped) {
  for (const int64_t step : {1, 2}) ASSERT_TRUE(Save(step).ok());
  const std::string manifest = Path(2) + "/manifest.textproto";
  std::string text = *ReadFile(manifest);
  text = absl::StrCat("from_the_future: 1\n", text.substr(0, text.rfind("# crc32")));
  ASSERT_TRUE(WriteFileAtomically(manifest, text + absl::StrFormat("# crc32: %08x\n", Crc32(text))).ok());
  const absl::Status status = FindLatestCheckpoint(root_).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("later version of tethys"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("from_the_future"));
}

TEST_F(CheckpointTest, CheckpointThatWasSetAside_IsNoLongerFound) {
  for (const int64_t step : {1, 2}) ASSERT_TRUE(Save(step).ok());
  EXPECT_EQ(*SetAsideCheckpoint(Path(2)), Path(2) + ".damaged");
  ASSERT_TRUE(Save(2).ok());
  EXPECT_EQ(*SetAsideCheckpoint(Path(2)), Path(2) + ".damaged-2");
  EXPECT_EQ(FindLatestCheckpoint(root_)->path, Path(1));
  ASSERT_TRUE(RemoveStaleCheckpoints(root_).ok());
  EXPECT_THAT(Files(), ElementsAre("step-1", "step-2.damaged", "step-2.damaged-2"));
}

TEST_F(CheckpointTest, PruneKeepsTheCheckpointsOfTheLatestSteps) {
  for (const int64_t step : {9, 10, 100, 11}) ASSERT_TRUE(Save(step).ok());
  ASSERT_TRUE(PruneCheckpoints(root_, 2, 100).ok());
  EXPECT_THAT(Files(), ElementsAre("step-100", "step-11"));
  ASSERT_TRUE(PruneCheckpoints(root_, 2, 100).ok());
  EXPECT_THAT(Files(), ElementsAre("step-100", "step-11"));
}

TEST_F(CheckpointTest, PruneKeepsSparedCheckpointsInAddition) {
  for (const int64_t step : {1, 2, 3, 4}) ASSERT_TRUE(Save(step).ok());
  ASSERT_TRUE(PruneCheckpoints(root_, 1, 4, {1, 2}).ok());
  EXPECT_THAT(Files(), ElementsAre("step-1", "step-2", "step-4"));
}

TEST_F(CheckpointTest, Prune_WithLaterSteps_KeepsTheCheckpointJustSaved) {
  for (const int64_t step : {10, 11, 200}) ASSERT_TRUE(Save(step).ok());
  ASSERT_TRUE(PruneCheckpoints(root_, 2, 11).ok());
  EXPECT_THAT(Files(), ElementsAre("step-11", "step-200"));
  ASSERT_TRUE(PruneCheckpoints(root_, 1, 11).ok());
  EXPECT_THAT(Files(), ElementsAre("step-11"));
}

// The crash was in Commit, after step-3 was renamed to step-3.old and before step-3.tmp became step-3.
TEST_F(CheckpointTest, CrashWhileReplacingACheckpointKeepsTheOldCheckpoint) {
  ASSERT_TRUE(Save(2).ok());
  ASSERT_TRUE(Save(3).ok());
  std::filesystem::rename(Path(3), Path(3) + ".old");
  std::filesystem::copy(Path(2), Path(3) + ".tmp");
  EXPECT_EQ(FindLatestCheckpoint(root_)->path, Path(3) + ".old");
  ASSERT_TRUE(RemoveStaleCheckpoints(root_).ok());
  EXPECT_THAT(Files(), ElementsAre("step-2", "step-3"));
  EXPECT_EQ(FindLatestCheckpoint(root_)->path, Path(3));
}

// The crash was in Commit, after step-3.tmp was renamed to step-3 and before step-3.old was removed.
TEST_F(CheckpointTest, CrashAfterReplacingACheckpointKeepsTheNewCheckpoint) {
  ASSERT_TRUE(Save(3).ok());
  std::filesystem::copy(Path(3), Path(3) + ".old");
  ASSERT_TRUE(Save(3, 0.5).ok());
  EXPECT_THAT(Files(), ElementsAre("step-3"));
  std::filesystem::copy(Path(3), Path(3) + ".old");
  EXPECT_EQ(FindLatestCheckpoint(root_)->path, Path(3));
  ASSERT_TRUE(RemoveStaleCheckpoints(root_).ok());
  EXPECT_THAT(Files(), ElementsAre("step-3"));
  EXPECT_EQ(*Load(Path(3), 0), Values(0, 0.5));
}

TEST_F(CheckpointTest, DirectoriesNotNamedAsCheckpointsAreNeitherListedNorRemoved) {
  ASSERT_TRUE(Save(3).ok());
  for (const char* name : {"step-", "step-x", "step-03", "step--1", "step-4.tmp.bak", "notes"}) {
    std::filesystem::copy(Path(3), root_ + "/" + name);
  }
  EXPECT_THAT(*ListCheckpoints(root_), testing::SizeIs(1));
  ASSERT_TRUE(RemoveStaleCheckpoints(root_).ok());
  EXPECT_THAT(Files(), testing::SizeIs(7));
}

}  // namespace
}  // namespace tethys
