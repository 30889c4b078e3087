// Tests damage that a disk can do to a checkpoint: every flipped bit, every truncation, and a full disk.
#include <sys/mount.h>
#include <sys/resource.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <iostream>

#include "runtime/base/random.h"
#include "tests/runtime/checkpoint/checkpoint_fixture.h"

namespace tethys {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class DamagedCheckpointTest : public CheckpointTest, public testing::WithParamInterface<const char*> {
 protected:
  DamagedCheckpointTest() : CheckpointTest(QuickDirectory()) {
    EXPECT_TRUE(Save(1).ok());
    file_ = absl::StrCat(Path(1), "/", GetParam());
    good_ = Contents(file_);
  }

  // Expects that opening the checkpoint with `damaged` in place of the file fails with an error that names
  // the file.
  void ExpectRefused(const std::string& damaged, const std::string& how) {
    Overwrite(file_, damaged);
    const absl::Status status = CheckpointReader::Open(Path(1), &model_).status();
    ASSERT_EQ(status.code(), absl::StatusCode::kDataLoss) << how << ": " << status;
    ASSERT_THAT(status.message(), HasSubstr(GetParam())) << how;
  }

  std::string file_;
  std::string good_;
};

TEST_P(DamagedCheckpointTest, EveryFlippedBitIsDetected) {
  for (size_t byte = 0; byte < good_.size(); ++byte) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string damaged = good_;
      damaged[byte] ^= static_cast<char>(1 << bit);
      ExpectRefused(damaged, absl::StrCat("byte ", byte, ", bit ", bit));
    }
  }
}

TEST_P(DamagedCheckpointTest, EveryTruncationIsDetected) {
  for (size_t size = 0; size < good_.size(); ++size)
    ExpectRefused(good_.substr(0, size), absl::StrCat(size, " bytes"));
}

TEST_P(DamagedCheckpointTest, BytesBeyondTheEndAreDetected) {
  ExpectRefused(good_ + '\0', "one byte more");
  ExpectRefused(good_ + good_, "twice");
}

TEST_P(DamagedCheckpointTest, FileOfRandomBytesIsRefused) {
  RandomStream random(1, RandomPurpose::kTest, 0);
  for (int round = 0; round < 1000; ++round) {
    std::string damaged(random.NextBelow(2 * good_.size()), '\0');
    for (char& byte : damaged) byte = static_cast<char>(random.Next32());
    ExpectRefused(damaged, absl::StrCat("round ", round));
  }
}

INSTANTIATE_TEST_SUITE_P(EveryFile, DamagedCheckpointTest,
                         testing::Values("model.safetensors", "optimizer.safetensors", "manifest.textproto"),
                         [](const auto& info) {
                           return std::string(info.param, std::strcspn(info.param, "."));
                         });

TEST_F(CheckpointTest, ErrorNamesTheDamagedTensor) {
  ASSERT_TRUE(Save(1).ok());
  const std::string file = Path(1) + "/optimizer.safetensors";
  std::string contents = Contents(file);
  contents.back() ^= 1;
  Overwrite(file, contents);
  EXPECT_THAT(CheckpointReader::Open(Path(1), nullptr).status().message(),
              HasSubstr("tensor 'momentum/out/bias' is damaged"));
}

TEST_F(CheckpointTest, ErrorNamesTheMissingTensorFile) {
  ASSERT_TRUE(Save(1).ok());
  std::filesystem::remove(Path(1) + "/model.safetensors");
  const absl::Status status = CheckpointReader::Open(Path(1), nullptr).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(status.message(), HasSubstr("model.safetensors"));
}

// A disk of 256 KiB: a tmpfs if the test may mount one, otherwise a limit on file sizes, which gives another
// error code.
class FullDiskTest : public CheckpointTest {
 protected:
  FullDiskTest() {
    std::filesystem::create_directories(root_);
    mounted_ = mount("none", root_.c_str(), "tmpfs", 0, "size=256k") == 0;
    if (mounted_) return;
    std::cout << "cannot mount a tmpfs (" << std::strerror(errno)
              << "; needs root): using RLIMIT_FSIZE instead\n";
    getrlimit(RLIMIT_FSIZE, &limit_);
    std::signal(SIGXFSZ, SIG_IGN);
    const struct rlimit small = {256 << 10, limit_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &small);
  }
  ~FullDiskTest() override {
    if (mounted_) {
      umount(root_.c_str());
    } else {
      setrlimit(RLIMIT_FSIZE, &limit_);
    }
  }

  bool mounted_ = false;
  struct rlimit limit_ = {};
};

TEST_F(FullDiskTest, FailedSaveNamesTheFileAndKeepsTheLastCheckpoint) {
  ASSERT_TRUE(Save(1).ok());
  const VariableSet large = ModelOf({{"large/weights", {512, 512}}});
  const absl::Status status = CheckpointWriter::Create(root_, 2, large, {}, "test").status();
  EXPECT_THAT(status.message(), HasSubstr(Path(2) + ".tmp/model.safetensors"));
  EXPECT_EQ(status.code(), mounted_ ? absl::StatusCode::kResourceExhausted : absl::StatusCode::kUnknown);
  EXPECT_THAT(Files(), ElementsAre("step-1"));
  EXPECT_EQ(*Load(Path(1), 0), Values(0));
  EXPECT_TRUE(Save(3).ok()) << "the failed save left no room";
}

TEST_F(FullDiskTest, DiskFilledBeforeTheManifestIsWrittenKeepsTheLastCheckpoint) {
  if (!mounted_) GTEST_SKIP() << "needs root to mount a small tmpfs";
  ASSERT_TRUE(Save(1).ok());
  {
    const auto writer = Begin(2);
    ASSERT_TRUE(writer->Write(0, 0, Values(0)).ok());
    ASSERT_TRUE(writer->Write(1, 0, Values(1)).ok());
    std::ofstream filler(root_ + "/filler");
    while (filler << std::string(1024, 'x') << std::flush) {
    }
    EXPECT_EQ(writer->Commit({}).code(), absl::StatusCode::kResourceExhausted);
  }
  EXPECT_THAT(Files(), ElementsAre("filler", "step-1"));
  EXPECT_EQ(FindLatestCheckpoint(root_)->path, Path(1));
}

}  // namespace
}  // namespace tethys
