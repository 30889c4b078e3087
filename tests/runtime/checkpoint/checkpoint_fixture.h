// A small model, its checkpoints in a separate directory, and functions that save and load them.
#ifndef TETHYS_TESTS_RUNTIME_CHECKPOINT_CHECKPOINT_FIXTURE_H_
#define TETHYS_TESTS_RUNTIME_CHECKPOINT_CHECKPOINT_FIXTURE_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/file.h"
#include "runtime/checkpoint/checkpoint_reader.h"
#include "runtime/checkpoint/checkpoint_store.h"
#include "runtime/checkpoint/checkpoint_writer.h"
#include "runtime/tensor/variable.h"

namespace tethys {

inline VariableSet ModelOf(const std::vector<std::pair<std::string, Shape>>& variables) {
  VariableSet set;
  for (const auto& [name, shape] : variables) {
    EXPECT_TRUE(set.Add(name, shape, shape.size() == 2 ? "in,out" : "out", InitialValue::kZeros, 1, 1).ok());
  }
  return set;
}

// A directory in memory if possible, since these tests do not need syncs to reach a disk.
inline std::string QuickDirectory() {
  return access("/dev/shm", W_OK) == 0 ? "/dev/shm" : ::testing::TempDir();
}

class CheckpointTest : public ::testing::Test {
 protected:
  explicit CheckpointTest(const std::string& parent = ::testing::TempDir()) {
    std::string pattern = parent + "/checkpoint.XXXXXX";
    directory_ = mkdtemp(pattern.data());
    root_ = directory_ + "/checkpoints";
  }
  ~CheckpointTest() override { EXPECT_TRUE(RemoveRecursively(directory_).ok()); }

  // The values that Save writes to `slot` (0: the parameters). `salt` is added to each value, so that saves
  // differ. Padding is 0.
  std::vector<float> Values(int slot, float salt = 0) const {
    std::vector<float> values(model_.arena_size());
    for (const Variable& variable : model_.variables()) {
      for (int64_t i = variable.range.begin; i < variable.range.end(); ++i)
        values[i] = 1000 * slot + i + salt;
    }
    return values;
  }

  std::unique_ptr<CheckpointWriter> Begin(int64_t step, std::vector<std::string> slots = {"momentum"}) {
    auto writer = CheckpointWriter::Create(root_, step, model_, std::move(slots), "test");
    EXPECT_TRUE(writer.ok()) << writer.status();
    return *std::move(writer);
  }

  absl::Status Save(int64_t step, float salt = 0, const std::vector<std::string>& slots = {"momentum"}) {
    const auto writer = Begin(step, slots);
    for (int slot = 0; slot <= static_cast<int>(slots.size()); ++slot) {
      TETHYS_RETURN_IF_ERROR(writer->Write(slot, 0, Values(slot, salt)));
    }
    proto::TrainingState state;
    state.set_step(step);
    return writer->Commit(state);
  }

  std::string Path(int64_t step) const { return absl::StrCat(root_, "/step-", step); }

  absl::StatusOr<std::vector<float>> Load(const std::string& path, int slot) {
    TETHYS_ASSIGN_OR_RETURN(const auto reader, CheckpointReader::Open(path, &model_, {"momentum"}));
    std::vector<float> values(model_.arena_size());
    TETHYS_RETURN_IF_ERROR(reader->Read(slot, 0, absl::MakeSpan(values)));
    return values;
  }

  // The salt of the newest checkpoint; -1 if its values come from more than one save.
  float NewestSalt() {
    const absl::StatusOr<LatestCheckpoint> latest = FindLatestCheckpoint(root_);
    EXPECT_TRUE(latest.ok()) << latest.status();
    EXPECT_THAT(latest->damaged, ::testing::IsEmpty());
    const absl::StatusOr<std::vector<float>> parameters = Load(latest->path, 0);
    const absl::StatusOr<std::vector<float>> momentum = Load(latest->path, 1);
    if (!parameters.ok() || !momentum.ok()) return -1;
    for (const float salt : {0.0f, 1.0f, 2.0f}) {
      if (*parameters == Values(0, salt) && *momentum == Values(1, salt)) return salt;
    }
    return -1;
  }

  static std::string Contents(const std::string& path) { return *ReadFile(path); }
  static void Overwrite(const std::string& path, const std::string& contents) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << contents;
  }

  std::vector<std::string> Files() const {
    std::vector<std::string> names = ListDirectory(root_).value_or(std::vector<std::string>());
    return names;
  }

  const VariableSet model_ = ModelOf({{"dense/weights", {5, 7}}, {"dense/bias", {7}}, {"out/bias", {3}}});
  std::string directory_;
  std::string root_;
};

}  // namespace tethys

#endif  // TETHYS_TESTS_RUNTIME_CHECKPOINT_CHECKPOINT_FIXTURE_H_
