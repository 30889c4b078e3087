// Tests that a reader in Python, which shares no code with the writer, accepts the files as safetensors.
#include <sys/wait.h>

#include "tests/runtime/checkpoint/checkpoint_fixture.h"

namespace tethys {
namespace {

class IndependentReaderTest : public CheckpointTest {
 protected:
  void SetUp() override {
    if (std::system("python3 -c '' 2>/dev/null") != 0) GTEST_SKIP() << "python3 was not found";
  }
  // The exit status of tests/integration/read_safetensors.py for `path`; -1 if a signal ended the script.
  static int Read(const std::string& path) {
    const int status = std::system(absl::StrCat("python3 ", TETHYS_READ_SAFETENSORS, " ", path).c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
};

TEST_F(IndependentReaderTest, AcceptsACheckpoint) {
  ASSERT_TRUE(Save(1).ok());
  EXPECT_EQ(Read(Path(1)), 0);
}

TEST_F(IndependentReaderTest, AcceptsACheckpointWithoutSlots) {
  ASSERT_TRUE(Save(1, 0, {}).ok());
  EXPECT_EQ(Read(Path(1)), 0);
}

TEST_F(IndependentReaderTest, RefusesADamagedTensor) {
  ASSERT_TRUE(Save(1).ok());
  std::string contents = Contents(Path(1) + "/model.safetensors");
  contents.back() ^= 1;
  Overwrite(Path(1) + "/model.safetensors", contents);
  EXPECT_EQ(Read(Path(1)), 1);
}

TEST_F(IndependentReaderTest, RefusesATruncatedFile) {
  ASSERT_TRUE(Save(1).ok());
  const std::string file = Path(1) + "/model.safetensors";
  std::filesystem::resize_file(file, std::filesystem::file_size(file) - 1);
  EXPECT_EQ(Read(file), 1);
}

}  // namespace
}  // namespace tethys
