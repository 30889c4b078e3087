#include "runtime/base/file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/testing/temp_directory.h"

namespace tethys {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class FileTest : public ::testing::Test {
 protected:
  std::string Path(absl::string_view name) const { return directory_.Path(name); }
  std::string Read(absl::string_view name) const { return *ReadFile(Path(name)); }

  testing::TempDirectory directory_;
};

TEST_F(FileTest, AtomicWriteReplacesTheFileAndLeavesNoOtherFile) {
  ASSERT_TRUE(WriteFileAtomically(Path("file"), "old").ok());
  ASSERT_TRUE(WriteFileAtomically(Path("file"), "new").ok());
  EXPECT_EQ(Read("file"), "new");
  EXPECT_THAT(*ListDirectory(directory_.path()), ElementsAre("file"));
}

TEST_F(FileTest, FailedAtomicWriteKeepsTheOldContents) {
  ASSERT_TRUE(WriteFileAtomically(Path("file"), "old").ok());
  // A directory occupies the temporary file's name, so the new contents cannot be written.
  ASSERT_TRUE(CreateDirectories(Path("file.tmp")).ok());
  EXPECT_FALSE(WriteFileAtomically(Path("file"), "new").ok());
  EXPECT_EQ(Read("file"), "old");
}

TEST_F(FileTest, AtomicWriteThatCannotRenameRemovesItsTemporaryFile) {
  ASSERT_TRUE(CreateDirectories(Path("file/in the way")).ok());
  EXPECT_THAT(std::string(WriteFileAtomically(Path("file"), "new").message()), HasSubstr("cannot rename"));
  EXPECT_THAT(*ListDirectory(directory_.path()), ElementsAre("file"));
}

TEST_F(FileTest, WriteToAFullDiskIsResourceExhaustedAndNamesTheFile) {
  if (!FileExists("/dev/full")) GTEST_SKIP() << "needs /dev/full";
  FileDescriptor full(open("/dev/full", O_WRONLY | O_CLOEXEC));
  const absl::Status status = WriteFully(full.get(), "data", 4, "/dev/full");
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("/dev/full"));
}

TEST_F(FileTest, ReadingAMissingFileNamesIt) {
  const absl::Status status = ReadFile(Path("none")).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr(Path("none")));
}

TEST_F(FileTest, ReadingRefusesAFileLargerThanTheLimit) {
  directory_.Write("file", "12345");
  EXPECT_EQ(*ReadFile(Path("file"), 5), "12345");
  EXPECT_EQ(ReadFile(Path("file"), 4).status().code(), absl::StatusCode::kResourceExhausted);
}

TEST_F(FileTest, AppendContinuesAtTheEndOfTheFile) {
  for (const char* text : {"one ", "two "}) {
    auto file = AppendFile::Open(Path("journal"));
    ASSERT_TRUE(file.ok());
    ASSERT_TRUE((*file)->Append(text).ok());
    ASSERT_TRUE((*file)->Sync().ok());
  }
  EXPECT_EQ(Read("journal"), "one two ");
}

TEST_F(FileTest, WritesAndReadsAtOffsets) {
  directory_.Write("file", "0123456789");
  FileDescriptor fd(open(Path("file").c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_TRUE(WriteFullyAt(fd.get(), "ab", 2, 4, "file").ok());
  char got[4];
  ASSERT_TRUE(ReadFullyAt(fd.get(), got, 4, 3, "file").ok());
  EXPECT_EQ(std::string(got, 4), "3ab6");
  const absl::Status status = ReadFullyAt(fd.get(), got, 4, 8, "file");
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr("file ends at byte 10, 2 bytes too early"));
}

TEST_F(FileTest, DirectoriesAreListedSortedAndRemovedRecursively) {
  ASSERT_TRUE(CreateDirectories(Path("a/b/c")).ok());
  directory_.Write("a/2", "");
  directory_.Write("a/1", "");
  EXPECT_THAT(*ListDirectory(Path("a")), ElementsAre("1", "2", "b"));
  EXPECT_TRUE(RemoveRecursively(Path("a")).ok());
  EXPECT_FALSE(FileExists(Path("a")));
  EXPECT_TRUE(RemoveRecursively(Path("a")).ok()) << "a missing path is not an error";
  EXPECT_FALSE(ListDirectory(Path("a")).ok());
}

TEST_F(FileTest, DirectoryIsLockedForOneHolderAtATime) {
  auto lock = LockDirectory(directory_.path());
  ASSERT_TRUE(lock.ok());
  const absl::Status refused = LockDirectory(directory_.path()).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("in use by another run"));
  lock->Close();
  EXPECT_TRUE(LockDirectory(directory_.path()).ok());
}

}  // namespace
}  // namespace tethys
