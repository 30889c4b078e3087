// Tests that the promises of file.h hold on a disk that fails, is full, or loses power.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <functional>
#include <set>

#include "absl/strings/match.h"
#include "runtime/base/file.h"
#include "tests/testing/failing_calls.h"
#include "tests/testing/killed_process.h"
#include "tests/testing/temp_directory.h"

namespace tethys {
namespace {

using testing::Crash;
using ::testing::ElementsAre;
using testing::FailingCalls;
using ::testing::HasSubstr;
using testing::kNoWrite;
using testing::kShortWrite;
using testing::ProcessEnd;

class FileErrorsTest : public ::testing::Test {
 protected:
  std::string Path(absl::string_view name) const { return directory_.Path(name); }
  std::string Read(absl::string_view name) const { return *ReadFile(Path(name)); }
  std::unique_ptr<AppendFile> Lines() const { return *AppendFile::OpenLines(Path("lines")); }

  testing::TempDirectory directory_;
};

TEST_F(FileErrorsTest, CrashDuringAtomicWriteLeavesOldOrNewContents) {
  if (const std::string why = testing::WhyNotTraced(); !why.empty()) GTEST_SKIP() << why;
  for (const Crash crash : {Crash::kKill, Crash::kPowerCut}) {
    std::set<std::string> found;
    ProcessEnd end = ProcessEnd::kKilled;
    for (int call = 0; end == ProcessEnd::kKilled; ++call) {
      directory_.Write("file", "old");
      end = testing::RunKilledBefore(call, crash,
                                     [&] { return WriteFileAtomically(Path("file"), "new").ok(); });
      found.insert(Read("file"));
    }
    EXPECT_EQ(end, ProcessEnd::kFinished);
    EXPECT_THAT(found, ElementsAre("new", "old"));
  }
}

TEST_F(FileErrorsTest, FailedAtomicWriteLeavesOldOrNewContentsAndNoOtherFile) {
  for (int call = 0;; ++call) {
    directory_.Write("file", "old");
    absl::Status status;
    {
      FailingCalls calls({.first = call, .errors = {EIO}});
      status = WriteFileAtomically(Path("file"), "new");
      if (calls.failed() == 0) break;
    }
    EXPECT_THAT(std::string(status.message()), HasSubstr("Input/output error")) << call;
    const bool only_the_directory = absl::StrContains(status.message(), "directory");
    EXPECT_EQ(Read("file"), only_the_directory ? "new" : "old") << status;
    EXPECT_THAT(*ListDirectory(directory_.path()), ElementsAre("file"));
  }
}

TEST_F(FileErrorsTest, PartlyWrittenRecordIsRemoved) {
  const auto file = Lines();
  ASSERT_TRUE(file->Append("one\n").ok());
  {
    FailingCalls full({.name = "write", .errors = {kShortWrite, ENOSPC}});
    EXPECT_EQ(file->Append("two\n").code(), absl::StatusCode::kResourceExhausted);
  }
  EXPECT_EQ(Read("lines"), "one\n");
  ASSERT_TRUE(file->Append("three\n").ok());
  EXPECT_EQ(Read("lines"), "one\nthree\n");
}

TEST_F(FileErrorsTest, PartialRecordLeftAfterAnErrorIsCutOffByTheNextAppend) {
  const auto file = Lines();
  {
    FailingCalls full({.errors = {kShortWrite, EIO, EIO}});
    EXPECT_FALSE(file->Append("one\n").ok());
  }
  EXPECT_EQ(Read("lines"), "on");
  ASSERT_TRUE(file->Append("two\n").ok());
  EXPECT_EQ(Read("lines"), "two\n");
}

TEST_F(FileErrorsTest, UnterminatedLastLineIsCutOffBeforeAnAppend) {
  const std::string lines(5000, 'x');
  for (const std::string& whole : {std::string(), std::string("one\n"), lines + "\n", lines + "\n\n"}) {
    for (const std::string& torn : {std::string(), std::string("tw"), lines}) {
      directory_.Write("lines", whole + torn);
      ASSERT_TRUE(Lines()->Append("three\n").ok());
      EXPECT_EQ(Read("lines"), whole + "three\n");
    }
  }
}

TEST_F(FileErrorsTest, FailedSyncIsReportedByEveryLaterSync) {
  const auto file = Lines();
  {
    FailingCalls calls({.name = "fdatasync", .errors = {EIO}});
    ASSERT_FALSE(file->Sync().ok());
  }
  ASSERT_TRUE(file->Append("one\n").ok());
  EXPECT_EQ(file->Sync().message(), absl::StrCat("cannot sync ", Path("lines"), ": Input/output error"));
  EXPECT_TRUE(Lines()->Sync().ok()) << "a file opened again has no earlier error";
}

TEST_F(FileErrorsTest, WriteThatMakesNoProgressIsAnError) {
  const FileDescriptor null(open("/dev/null", O_WRONLY | O_CLOEXEC));
  FailingCalls calls({.name = "write", .errors = {kNoWrite}});
  EXPECT_THAT(std::string(WriteFully(null.get(), "data", 4, "/dev/null").message()),
              HasSubstr("cannot write /dev/null"));
}

TEST_F(FileErrorsTest, CreatedDirectoryIsSyncedInItsParent) {
  FailingCalls calls({.name = "fsync", .errors = {EIO}});
  EXPECT_THAT(std::string(CreateDirectories(Path("a/b")).message()),
              HasSubstr(absl::StrCat("cannot sync directory ", directory_.path(), ":")));
  EXPECT_TRUE(CreateDirectories(Path("a/b")).ok());
}

}  // namespace
}  // namespace tethys
