#include "deploy/hosts/host_needs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "deploy/process/remote_shell.h"
#include "tests/testing/temp_directory.h"

namespace tethys {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAre;

class HostNeedsTest : public ::testing::Test {
 protected:
  HostNeedsTest() {
    job_.mutable_data()->mutable_idx()->set_train_images(directory_.Write("images", "1234"));
    job_.mutable_data()->mutable_idx()->set_train_labels(directory_.Write("labels", "12"));
    places_.chief = At("master");
    places_.workers = {At("slave1"), At("slave1"), At("slave2")};
  }

  // Another machine, simulated by a shell that ignores the command and prints `answer`.
  static Place At(const std::string& host, const std::string& answer = "") {
    return {.host = host,
            .ssh = {"sh", "-c", absl::StrCat("printf '", kOutputMark, answer, "'")},
            .program = "/there/tethys"};
  }
  std::map<std::string, HostNeeds> Needs() {
    const auto needs = NeedsOf(job_, places_, {"/libraries"});
    EXPECT_TRUE(needs.ok()) << needs.status();
    return needs.ok() ? *needs : std::map<std::string, HostNeeds>();
  }
  absl::Status Ask(const std::vector<Place>& places) {
    return AskForNeeds(Needs(), places, directory_.path());
  }

  const testing::TempDirectory directory_;
  proto::Job job_;
  Places places_;
};

TEST_F(HostNeedsTest, ChiefAndWorkersNeedFilesOfTheSizesFoundHere) {
  const auto files =
      UnorderedElementsAre(Pair(directory_.Path("images"), 4), Pair(directory_.Path("labels"), 2));
  const std::map<std::string, HostNeeds> needs = Needs();
  EXPECT_EQ(needs.size(), 3);
  for (const auto& [host, of_host] : needs) EXPECT_THAT(of_host.files, files) << host;
}

TEST_F(HostNeedsTest, WorkersDoNotNeedFilesThatTheChiefServes) {
  proto::Idx& idx = *job_.mutable_data()->mutable_idx();
  idx.set_train_images("chief://" + idx.train_images());
  std::map<std::string, HostNeeds> needs = Needs();
  EXPECT_THAT(needs["master"].files,
              UnorderedElementsAre(Pair(directory_.Path("images"), 4), Pair(directory_.Path("labels"), 2)));
  EXPECT_THAT(needs["slave1"].files, ElementsAre(Pair(directory_.Path("labels"), 2)));
  idx.set_train_labels("chief://" + idx.train_labels());
  EXPECT_TRUE(Needs()["slave2"].empty());
}

TEST_F(HostNeedsTest, FileGivenByUrlIsNeededOnNoHost) {
  job_.mutable_data()->mutable_idx()->set_train_images("https://data.example/images");
  const std::map<std::string, HostNeeds> needs = Needs();
  EXPECT_EQ(needs.size(), 3);
  for (const auto& [host, of_host] : needs) {
    EXPECT_THAT(of_host.files, ElementsAre(Pair(directory_.Path("labels"), 2))) << host;
  }
}

TEST_F(HostNeedsTest, FilesOfWorkersOnThisMachineAreNotChecked) {
  places_.workers[0].ssh = places_.workers[1].ssh = {};
  EXPECT_TRUE(Needs()["slave1"].empty());
  EXPECT_FALSE(Needs()["slave2"].empty());
}

TEST_F(HostNeedsTest, EachGpuWorkerNeedsGpu) {
  job_.mutable_device()->set_kind(proto::Device::CUDA);
  job_.mutable_device()->set_tf32(true);
  std::map<std::string, HostNeeds> needs = Needs();
  EXPECT_EQ(needs["slave1"].gpus, 2);
  EXPECT_TRUE(needs["slave1"].tf32);
  EXPECT_THAT(needs["slave1"].cuda_library_path, ElementsAre("/libraries"));
  EXPECT_EQ(needs["slave2"].gpus, 1);
  EXPECT_EQ(needs["master"].gpus, 0);
  places_.worker_devices = {proto::Device::CPU, proto::Device::CUDA, proto::Device::CPU};
  needs = Needs();
  EXPECT_EQ(needs["slave1"].gpus, 1);
  EXPECT_EQ(needs["slave2"].gpus, 0);
}

TEST_F(HostNeedsTest, NeedsOfSeveralJobsAreMerged) {
  HostNeeds needs = {.files = {{"a", 1}}, .gpus = 2, .bf16 = true, .cuda_library_path = {"x"}};
  AddNeeds({.files = {{"b", 2}}}, needs);
  AddNeeds({.gpus = 1, .tf32 = true, .cuda_library_path = {"x"}}, needs);
  EXPECT_THAT(needs.files, UnorderedElementsAre(Pair("a", 1), Pair("b", 2)));
  EXPECT_EQ(needs.gpus, 2);
  EXPECT_TRUE(needs.bf16 && needs.tf32);
  EXPECT_THAT(needs.cuda_library_path, ElementsAre("x"));
}

TEST_F(HostNeedsTest, MissingFileOrWrongSizeIsNamed) {
  EXPECT_THAT(LackingFiles({.files = {{directory_.Path("images"), 4}}}), IsEmpty());
  EXPECT_THAT(
      LackingFiles({.files = {{directory_.Path("images"), 5}}}),
      ElementsAre(AllOf(HasSubstr(directory_.Path("images")), HasSubstr("4 bytes there and 5 here"))));
  EXPECT_THAT(
      LackingFiles({.files = {{directory_.Path("none"), 5}}}),
      ElementsAre(AllOf(HasSubstr("data file " + directory_.Path("none")), HasSubstr("No such file"))));
}

TEST_F(HostNeedsTest, MissingFilesAndGpusAreListedWithTheirHosts) {
  const std::string lacks = LackText({"the moon", "a star\nor two"});
  const absl::Status status = Ask({At("slave1", "Welcome!\n" + lacks), At("slave2", LackText({}))});
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_EQ(status.message(), "host slave1: the moon\n    host slave1: a star; or two");
}

TEST_F(HostNeedsTest, HostsThatLackTheSameFileShareALine) {
  const std::string missing = LackText(LackingFiles({.files = {{"x.npy", 1}, {"y.npy", 1}}}));
  const absl::Status status =
      Ask({At("slave1", missing), At("slave2", missing), At("master", LackText({"a GPU"}))});
  EXPECT_THAT(std::string(status.message()),
              AllOf(StartsWith("hosts slave1, slave2: data file x.npy: No such file or directory\n    "
                               "hosts slave1, slave2: data file y.npy: No such file or directory\n    "
                               "host master: a GPU\n    Copy missing files"),
                    HasSubstr("home directory"), HasSubstr("chief://PATH"), HasSubstr("role=chief")));
}

TEST_F(HostNeedsTest, ManyMissingFilesAreCounted) {
  HostNeeds needs;
  for (int i = 0; i < 60'000; ++i) needs.files[absl::StrCat("pets/", i, ".png")] = 1;
  const std::vector<std::string> lacks = LackingFiles(needs);
  ASSERT_EQ(lacks.size(), 21);
  EXPECT_EQ(lacks.back(), "and 59980 more data files");
}

TEST_F(HostNeedsTest, HostWithoutAnswerIsNamed) {
  EXPECT_THAT(std::string(Ask({At("slave1", "hello")}).message()), HasSubstr("host slave1: tethys ready"));
  Place broken = At("slave2");
  broken.ssh = {"sh", "-c", "echo no route >&2; exit 255"};
  EXPECT_EQ(Ask({broken}).message(), "host slave2: ssh: no route");
}

TEST_F(HostNeedsTest, HostThatNeedsNothingIsNotContacted) {
  Place broken = At("elsewhere");
  broken.ssh = {"false"};
  EXPECT_TRUE(Ask({broken}).ok());
}

}  // namespace
}  // namespace tethys
