#include "deploy/hosts/payload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <vector>

#include "deploy/process/ssh.h"
#include "tests/testing/temp_directory.h"

namespace tethys {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A program of the Linux distribution in place of tethys: it prints its name and version (--version), and it
// needs shared libraries.
constexpr char kProgram[] = "/bin/true";
constexpr char kBuild[] = "coreutils";

class PayloadTest : public ::testing::Test {
 protected:
  PayloadTest() {
    for (const char* folder : {"a", "u/lib", "u/share", "scratch"})
      EXPECT_TRUE(CreateDirectories(Path(folder)).ok());
  }

  std::string Path(const std::string& name) const { return directory_.Path(name); }
  std::string Program() {
    Run({"cp", "-L", kProgram, Path("a/tethys")});
    return Path("a/tethys");
  }
  // Makes an unpacked bundle; returns the path of the bundle's start script, in the form that OwnProgram
  // returns.
  std::string Unpacked() {
    for (const char* name : {"u/tethys", "u/lib/tethys", "u/build"}) directory_.Write(name, kBuild);
    return Path("u/lib/../tethys");
  }
  absl::StatusOr<Payload> Find(const std::string& program, const std::string& bundle = "",
                               const std::string& build = kBuild) {
    notes_.clear();
    return FindPayload({.program = program,
                        .build = build,
                        .bundle = bundle,
                        .scratch = scratch_,
                        .cache = cache_,
                        .note = [this](const std::string& line) { notes_.push_back(line); }});
  }
  std::string Run(const std::vector<std::string>& words) const {
    const RemoteResult result = RunEverywhere({{.ssh = words}}, 60 * kSecond, directory_.path())[0];
    EXPECT_TRUE(result.status.ok()) << result.status;
    return result.output;
  }

  const testing::TempDirectory directory_;
  std::string scratch_ = Path("scratch");
  std::string cache_;
  std::vector<std::string> notes_;
};

TEST_F(PayloadTest, BundleWithLibrariesIsMadeBesideProgram) {
  const absl::StatusOr<Payload> payload = Find(Program());
  ASSERT_TRUE(payload.ok()) << payload.status();
  EXPECT_EQ(payload->path, Path("a/tethys-bundle.tar.gz"));
  EXPECT_GT(payload->installed_bytes, 100 << 10);
  EXPECT_THAT(notes_, ElementsAre(AllOf(HasSubstr("making the bundle"), HasSubstr(payload->path))));
  EXPECT_THAT(Run({"tar", "-tzf", payload->path}),
              AllOf(HasSubstr("lib/tethys\n"), HasSubstr("lib/c/libc.so")));
  Run({"tar", "-xzf", payload->path, "-C", Path("u")});
  Run({Path("u/tethys")});
}

TEST_F(PayloadTest, ExistingBundleOfThisBuildIsReused) {
  const std::string program = Program();
  ASSERT_TRUE(Find(program).ok());
  EXPECT_EQ(Find(program)->path, Path("a/tethys-bundle.tar.gz"));
  EXPECT_THAT(notes_, IsEmpty());
}

TEST_F(PayloadTest, BundleOfAnotherBuildIsReplaced) {
  const std::string program = Program();
  Unpacked();
  directory_.Write("u/build", "tethys build of yesterday");
  Run({"tar", "-czf", Path("a/tethys-bundle.tar.gz"), "-C", Path("u"), "build", "tethys", "lib"});
  ASSERT_TRUE(Find(program).ok());
  EXPECT_THAT(notes_, Contains(HasSubstr("making the bundle")));
  ASSERT_TRUE(Find(program).ok());
  EXPECT_THAT(notes_, IsEmpty());
}

TEST_F(PayloadTest, BundleBesideTheProgramIsFoundThroughALinkToTheProgram) {
  ASSERT_EQ(symlink(Program().c_str(), Path("link").c_str()), 0);
  EXPECT_EQ(Find(Path("link"))->path, Path("a/tethys-bundle.tar.gz"));
}

TEST_F(PayloadTest, FileThatIsNoProgramIsRefusedWithRemedy) {
  directory_.Write("a/tethys", "no program");
  EXPECT_THAT(std::string(Find(Path("a/tethys")).status().message()),
              AllOf(HasSubstr("deploy/bundle.sh"), HasSubstr("--bundle")));
}

TEST_F(PayloadTest, ProgramStartedFromAnUnpackedBundleIsPackedAgain) {
  const absl::StatusOr<Payload> payload = Find(Unpacked());
  ASSERT_TRUE(payload.ok()) << payload.status();
  EXPECT_EQ(Run({"tar", "-tzf", payload->path}), "build\ntethys\nlib/\nlib/tethys\nshare/\n");
}

TEST_F(PayloadTest, PackedBundleIsKeptInTheCacheAndUsedAgain) {
  cache_ = Path("cache");
  const std::string unpacked = Unpacked();
  EXPECT_EQ(Find(unpacked)->path, Path("cache/coreutils.tar.gz"));
  ASSERT_TRUE(RemoveRecursively(Path("u/build")).ok());  // Without this file, packing again would fail.
  EXPECT_EQ(Find(unpacked)->path, Path("cache/coreutils.tar.gz"));
}

TEST_F(PayloadTest, CacheLosesBundlesThatWereNotUsedForAMonth) {
  cache_ = Path("cache");
  Run({"mkdir", cache_});
  Run({"touch", "-d", "40 days ago", Path("cache/old.tar.gz")});
  directory_.Write("cache/new.tar.gz", "");
  ASSERT_TRUE(Find(Unpacked()).ok());
  EXPECT_FALSE(FileExists(Path("cache/old.tar.gz")));
  EXPECT_TRUE(FileExists(Path("cache/new.tar.gz")));
}

TEST_F(PayloadTest, CacheThatCannotBeMadeIsNotUsed) {
  directory_.Write("file", "");
  cache_ = Path("file/cache");
  EXPECT_EQ(Find(Unpacked())->path, Path("scratch/tethys-bundle.tar.gz"));
}

TEST_F(PayloadTest, PackingFailureNamesFolder) {
  const std::string unpacked = Unpacked();
  ASSERT_TRUE(RemoveRecursively(Path("u/build")).ok());
  EXPECT_THAT(std::string(Find(unpacked).status().message()),
              HasSubstr("cannot make an archive of the bundle in " + Path("u")));
}

TEST_F(PayloadTest, MissingBundleGivenByPathIsNotFound) {
  const absl::Status status = Find(Program(), Path("other")).status();
  EXPECT_TRUE(absl::IsNotFound(status)) << status;
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("/other"), HasSubstr("deploy/bundle.sh")));
}

TEST_F(PayloadTest, BundleOfAnotherBuildGivenByPathIsRefused) {
  const std::string bundle = Find(Program())->path;
  EXPECT_EQ(Find(Program(), bundle)->path, bundle);
  const absl::Status other = Find(Program(), bundle, "another-build").status();
  EXPECT_TRUE(absl::IsFailedPrecondition(other)) << other;
  EXPECT_THAT(std::string(other.message()), HasSubstr("no bundle of this build (another-build)"));
  EXPECT_FALSE(Find(Program(), directory_.Write("text", "xz or so")).ok());
}

}  // namespace
}  // namespace tethys
