#include "deploy/run/checkpoint_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/base/file.h"
#include "tests/testing/temp_directory.h"

namespace tethys {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class CheckpointChoiceTest : public ::testing::Test {
 protected:
  // Makes a directory with an empty manifest, which counts as a damaged checkpoint.
  void Save(const std::string& path) {
    ASSERT_TRUE(CreateDirectories(directory_.Path(path)).ok());
    ASSERT_TRUE(WriteFileAtomically(directory_.Path(path) + "/manifest.textproto", "").ok());
  }
  std::string Refusal(const std::string& path) {
    const absl::Status status = FindCheckpoint(directory_.Path(path)).status();
    EXPECT_FALSE(status.ok());
    return std::string(status.message());
  }

  const testing::TempDirectory directory_;
};

TEST_F(CheckpointChoiceTest, PathOfCheckpoint_IsReturnedWithoutSlash) {
  Save("a/checkpoints/step-3");
  const auto found = FindCheckpoint(directory_.Path("a/checkpoints/step-3/"));
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(*found, directory_.Path("a/checkpoints/step-3"));
}

TEST_F(CheckpointChoiceTest, MissingCheckpoint_ErrorNamesOtherCheckpointsOfTheRun) {
  Save("a/checkpoints/step-3");
  Save("a/checkpoints/step-6");
  EXPECT_THAT(Refusal("a/checkpoints/step-9"),
              AllOf(HasSubstr("step-9 does not exist; there is "), HasSubstr("a/checkpoints/step-3, "),
                    HasSubstr("a/checkpoints/step-6")));
}

TEST_F(CheckpointChoiceTest, MissingRun_ErrorNamesTheNewestCheckpointsOfRunsBesideIt) {
  Save("a/checkpoints/step-3");
  Save("a/checkpoints/step-6");
  Save("b/checkpoints/step-1");
  EXPECT_THAT(Refusal("none"),
              AllOf(HasSubstr("none does not exist; there is "), HasSubstr("a/checkpoints/step-6, "),
                    HasSubstr("b/checkpoints/step-1"), Not(HasSubstr("step-3"))));
}

TEST_F(CheckpointChoiceTest, RunWithoutCheckpoints_IsRefused) {
  ASSERT_TRUE(CreateDirectories(directory_.Path("a/checkpoints")).ok());
  EXPECT_THAT(Refusal("a"), HasSubstr("a holds no checkpoint"));
}

TEST_F(CheckpointChoiceTest, RunWithOnlyADamagedCheckpoint_ErrorNamesTheCheckpoint) {
  Save("a/checkpoints/step-3");
  EXPECT_THAT(Refusal("a"), AllOf(HasSubstr("no undamaged checkpoint"), HasSubstr("step-3")));
}

}  // namespace
}  // namespace tethys
