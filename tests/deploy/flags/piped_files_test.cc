#include "deploy/flags/piped_files.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <thread>

#include "runtime/base/file.h"
#include "runtime/base/private_file.h"
#include "tests/testing/temp_directory.h"

namespace tethys {
namespace {

const CommandSpec& Spec() {
  static const CommandSpec spec = {.verb = "train",
                                   .argument = "JOB",
                                   .flags = {{.name = "hostfile", .value = "FILE", .is_input = true},
                                             {.name = "ssh_config", .value = "FILE", .is_input = true},
                                             {.name = "out", .value = "FILE"}}};
  return spec;
}

Flags Parse(const std::vector<std::string>& words) { return ParseFlags(Spec(), words).value(); }

class PipedFilesTest : public ::testing::Test {
 protected:
  // Makes a pipe that contains `text` and whose write end is closed; returns its path.
  std::string Pipe(const std::string& text) {
    int ends[2];
    EXPECT_EQ(pipe(ends), 0);
    const FileDescriptor write_end(ends[1]);
    EXPECT_TRUE(WriteFully(ends[1], text.data(), text.size(), "pipe").ok());
    pipes_.emplace_back(ends[0]);
    return absl::StrCat("/dev/fd/", ends[0]);
  }
  std::vector<FileDescriptor> pipes_;
};

TEST_F(PipedFilesTest, PipeCanBeReadTwiceByItsPath) {
  const std::string hosts = Pipe("slave1\n"), job = Pipe("epochs: 1");
  Flags flags = Parse({job, "--hostfile=" + hosts});
  ASSERT_TRUE(KeepPipedFiles(Spec(), flags).ok());
  EXPECT_EQ(flags.Get("hostfile"), hosts);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(*ReadFile(flags.Get("hostfile")), "slave1\n");
    EXPECT_EQ(*ReadFile(flags.arguments()[0]), "epochs: 1");
  }
  EXPECT_TRUE(OpenPrivateFile(hosts, "it").ok()) << "others cannot read it";
}

TEST_F(PipedFilesTest, PipedContentsHaveAPathThatOtherProgramsCanOpen) {
  Flags flags = Parse({"job", "--ssh_config=" + Pipe("Host a\n")});
  ASSERT_TRUE(KeepPipedFiles(Spec(), flags).ok());
  EXPECT_THAT(flags.Get("ssh_config"), ::testing::StartsWith(absl::StrCat("/proc/", getpid(), "/fd/")));
  EXPECT_EQ(*ReadFile(flags.Get("ssh_config")), "Host a\n");
}

TEST_F(PipedFilesTest, ContentsOfANamedPipeAreKeptForRepeatedReads) {
  const testing::TempDirectory directory;
  const std::string path = directory.Path("fifo");
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  const std::string text(200'000, 'x');  // More bytes than a pipe holds.
  std::thread writer([&] {
    const FileDescriptor fd(open(path.c_str(), O_WRONLY | O_CLOEXEC));
    EXPECT_TRUE(WriteFully(fd.get(), text.data(), text.size(), path).ok());
  });
  Flags flags = Parse({"job", "--hostfile=" + path});
  EXPECT_TRUE(KeepPipedFiles(Spec(), flags).ok());
  writer.join();
  for (int i = 0; i < 2; ++i) EXPECT_EQ(*ReadFile(flags.Get("hostfile")), text);
}

TEST_F(PipedFilesTest, PathsOfRegularFilesAndOutputsAreUnchanged) {
  const std::string out = Pipe("not read");
  Flags flags = Parse({"job", "--hostfile=/nowhere/hosts", "--out=" + out});
  ASSERT_TRUE(KeepPipedFiles(Spec(), flags).ok());
  EXPECT_EQ(flags.Get("hostfile"), "/nowhere/hosts");
  EXPECT_EQ(flags.Get("out"), out);
  EXPECT_EQ(*ReadFile(out), "not read");
}

}  // namespace
}  // namespace tethys
