// Tests files of data on the chief's machine: which files the chief serves, and how a worker that lacks them
// gets copies.
#include "runtime/data/chief_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/match.h"
#include "runtime/data/chief_copies.h"
#include "runtime/data/chief_paths.h"
#include "runtime/data/dataset.h"
#include "tests/runtime/data/picture_files.h"
#include "tests/testing/temp_directory.h"

namespace tethys {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class ChiefFilesTest : public ::testing::Test {
 protected:
  std::string Write(const std::string& name, const std::string& content) {
    fs::create_directories(fs::path(directory_.Path(name)).parent_path());
    return directory_.Write(name, content);
  }
  // Writes a CIFAR file of `samples` samples whose values all equal `value`.
  std::string WriteCifar(const std::string& name, int samples, char value) {
    std::string content;
    for (int i = 0; i < samples; ++i)
      content += std::string(1, static_cast<char>(i % 10)) + std::string(3072, value);
    return Write(name, content);
  }
  proto::Data Cifar(const std::vector<std::string>& paths) {
    proto::Data data;
    data.set_classes(10);
    data.set_cache_dir(directory_.Path("cache"));
    for (const std::string& path : paths) data.mutable_cifar()->add_train(path);
    return data;
  }
  std::string Chief(const std::string& name) { return "chief://" + directory_.Path(name); }
  std::vector<std::string> Paths(const ChiefFiles& files) {
    std::vector<std::string> paths;
    for (const proto::ChiefFile& file : files.files()) {
      paths.push_back(file.path().substr(directory_.path().size() + 1));
    }
    return paths;
  }
  static std::string ErrorOf(const proto::Data& data) {
    return std::string(ChiefFiles::List(data).status().message());
  }
  static google::protobuf::RepeatedPtrField<proto::ChiefFile> Listed(const ChiefFiles& files) {
    return {files.files().begin(), files.files().end()};
  }
  // Fetches the files through the chief's functions, as if over a network.
  absl::StatusOr<proto::Data> Fetch(const proto::Data& data, const ChiefFiles& files) {
    return FetchFromChief(data, Listed(files),
                          [&](const std::string& path, int64_t offset,
                              absl::FunctionRef<absl::Status(absl::string_view)> take) {
                            ++reads_;
                            return files.Read(path, offset, take);
                          });
  }
  static int64_t SamplesOf(const proto::Data& data) {
    proto::Job job;
    *job.mutable_data() = data;
    const auto datasets = LoadDatasets(job);
    TETHYS_CHECK(datasets.ok(), datasets.status().message());
    return datasets->train->size();
  }

  const testing::TempDirectory directory_;
  int reads_ = 0;
};

TEST_F(ChiefFilesTest, JobWithoutFilesOfTheChiefListsNoFiles) {
  WriteCifar("a.bin", 1, 1);
  const ChiefFiles files = ChiefFiles::List(Cifar({directory_.Path("a.bin")})).value();
  EXPECT_THAT(files.files(), IsEmpty());
  EXPECT_TRUE(absl::IsPermissionDenied(
      files.Read(directory_.Path("a.bin"), 0, [](absl::string_view) { return absl::OkStatus(); })));
}

TEST_F(ChiefFilesTest, FileThatSeveralPatternsMatchIsListedOnce) {
  for (const char* name : {"b-0.bin", "b-1.bin", "c.bin", "local.bin"}) WriteCifar(name, 1, 1);
  const ChiefFiles files = ChiefFiles::List(Cifar({Chief("b-*.bin"), Chief("c.bin"), Chief("b-0.bin"),
                                                   directory_.Path("local.bin")}))
                               .value();
  EXPECT_THAT(Paths(files), ElementsAre("b-0.bin", "b-1.bin", "c.bin"));
  EXPECT_EQ(files.files()[0].size(), 3073);
}

TEST_F(ChiefFilesTest, ProcessesOnTheChiefsMachineReadItsFilesWithoutCopies) {
  WriteCifar("a.bin", 3, 1);
  EXPECT_EQ(SamplesOf(Cifar({Chief("a.bin")})), 3);
  EXPECT_THAT(DataFiles(Cifar({Chief("a.bin")})).value(), ElementsAre(directory_.Path("a.bin")));
}

TEST_F(ChiefFilesTest, ErrorForAMissingChiefFileSaysThatItIsOnTheChiefsMachine) {
  proto::Job job;
  *job.mutable_data() = Cifar({Chief("lost.bin")});
  EXPECT_THAT(std::string(ReadDatasetSizes(job).status().message()),
              AllOf(HasSubstr("lost.bin"), HasSubstr("chief://PATH names a file of the chief's machine")));
}

TEST_F(ChiefFilesTest, FilesOfTheChiefAreNotListedAsNeededOnHostsOfWorkers) {
  for (const char* name : {"a.bin", "b.bin"}) WriteCifar(name, 1, 1);
  EXPECT_THAT(DataFilesOfWorkers(Cifar({Chief("a.bin"), directory_.Path("b.bin")})).value(),
              ElementsAre(directory_.Path("b.bin")));
}

TEST_F(ChiefFilesTest, CopiesAreReadInPlaceOfTheFilesOfTheChief) {
  WriteCifar("b-0.bin", 400, 1);  // This file needs more than one chunk.
  WriteCifar("b-[1].bin", 2, 2);
  WriteCifar("local.bin", 1, 3);
  const proto::Data data = Cifar({Chief("b-*.bin"), directory_.Path("local.bin")});
  const ChiefFiles files = ChiefFiles::List(data).value();
  const proto::Data here = Fetch(data, files).value();
  fs::remove(directory_.Path("b-0.bin"));
  fs::remove(directory_.Path("b-[1].bin"));
  EXPECT_EQ(SamplesOf(here), 403);
  EXPECT_TRUE(absl::StartsWith(here.cifar().train(0), directory_.Path("cache/chief-")));
  EXPECT_EQ(here.cifar().train(2), directory_.Path("local.bin"));
}

TEST_F(ChiefFilesTest, FilesAreFetchedOncePerHost) {
  WriteCifar("a.bin", 3, 1);
  const proto::Data data = Cifar({Chief("a.bin")});
  const ChiefFiles files = ChiefFiles::List(data).value();
  ASSERT_TRUE(Fetch(data, files).ok());
  ASSERT_TRUE(Fetch(data, files).ok());
  EXPECT_EQ(reads_, 1);
  WriteCifar("a.bin", 3, 2);
  ASSERT_TRUE(Fetch(data, ChiefFiles::List(data).value()).ok());
  EXPECT_EQ(reads_, 2);
}

TEST_F(ChiefFilesTest, CopiesOfFoldersKeepTheNamesOfFoldersAndFiles) {
  const auto picture = [](uint8_t value) { return testing::Png(std::vector<uint8_t>(4, value), 2, 2, 1); };
  Write("pets/cat/1.png", picture(1));
  Write("pets/dog/2.png", picture(2));
  Write("pets/dog/secret.txt", "no picture");
  proto::Data data;
  data.set_classes(2);
  data.set_cache_dir(directory_.Path("cache"));
  data.mutable_image_folder()->set_train(Chief("pets"));
  const ChiefFiles files = ChiefFiles::List(data).value();
  EXPECT_THAT(Paths(files), ElementsAre("pets/cat/1.png", "pets/dog/2.png"));
  const proto::Data here = Fetch(data, files).value();
  EXPECT_EQ(SamplesOf(here), 2);
  EXPECT_TRUE(absl::EndsWith(here.image_folder().train(), "/pets"));
  EXPECT_TRUE(absl::IsPermissionDenied(files.Read(directory_.Path("pets/dog/secret.txt"), 0,
                                                  [](absl::string_view) { return absl::OkStatus(); })));
}

TEST_F(ChiefFilesTest, ChiefPathsThatLeadOutOfTheirFolderAreRefused) {
  WriteCifar("data/a.bin", 1, 1);
  WriteCifar("secret/b.bin", 1, 1);
  for (const std::string& path :
       {std::string("chief://"), Chief("data/../secret/b.bin"), Chief("data/"), std::string("chief://..")}) {
    EXPECT_THAT(ErrorOf(Cifar({path})), HasSubstr("without \"..\"")) << path;
  }
  fs::create_symlink(directory_.Path("secret/b.bin"), directory_.Path("data/link.bin"));
  EXPECT_THAT(ErrorOf(Cifar({Chief("data/link.bin")})),
              AllOf(HasSubstr("data/link.bin is a link that leads out"), HasSubstr("secret/b.bin")));
  EXPECT_THAT(ErrorOf(Cifar({Chief("data/*.bin")})), HasSubstr("data/link.bin is a link that leads out"));
  fs::create_symlink(directory_.Path("secret"), directory_.Path("data/folder"));
  EXPECT_THAT(ErrorOf(Cifar({Chief("data/*/b.bin")})), HasSubstr("leads out"));
  fs::create_symlink("a.bin", directory_.Path("data/inside.lnk"));
  EXPECT_THAT(Paths(ChiefFiles::List(Cifar({Chief("data/inside.lnk")})).value()),
              ElementsAre("data/inside.lnk"));
}

TEST_F(ChiefFilesTest, ErrorNamesAFileThatChangesWhileItIsRead) {
  WriteCifar("a.bin", 400, 1);
  const ChiefFiles files = ChiefFiles::List(Cifar({Chief("a.bin")})).value();
  const std::string path = directory_.Path("a.bin");
  int chunks = 0;
  const absl::Status status = files.Read(path, 0, [&](absl::string_view) {
    if (++chunks == 1) fs::resize_file(path, 2 << 20 | 1);
    return absl::OkStatus();
  });
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("a.bin changed"));
  EXPECT_EQ(chunks, 1);
  fs::remove(path);
  EXPECT_TRUE(absl::IsDataLoss(files.Read(path, 0, [](absl::string_view) { return absl::OkStatus(); })));
}

TEST_F(ChiefFilesTest, OffsetsBeyondTheEndAreRefused) {
  WriteCifar("a.bin", 1, 1);
  const ChiefFiles files = ChiefFiles::List(Cifar({Chief("a.bin")})).value();
  const auto read = [&](int64_t offset) {
    return files.Read(directory_.Path("a.bin"), offset, [](absl::string_view) { return absl::OkStatus(); });
  };
  EXPECT_TRUE(read(3073).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(read(3074)));
  EXPECT_TRUE(absl::IsInvalidArgument(read(-1)));
}

// Tests that data from the chief are checked.
class FaultyChiefTest : public ChiefFilesTest {
 protected:
  FaultyChiefTest() : content_(3000, 'x') {
    proto::ChiefFile& file = *files_.Add();
    file.set_path("a.bin");
    file.set_size(static_cast<int64_t>(content_.size()));
    file.set_crc32c(0x1cd9b5e6);
    data_ = Cifar({"chief://a.bin"});
  }
  absl::Status Fetch(ReadFromChief read) { return FetchFromChief(data_, files_, read).status(); }

  std::string content_;
  google::protobuf::RepeatedPtrField<proto::ChiefFile> files_;
  proto::Data data_;
};

TEST_F(FaultyChiefTest, BrokenTransferIsContinuedAtTheByteWhereItBroke) {
  Write("whole", content_);
  const ChiefFiles listed = ChiefFiles::List(Cifar({Chief("whole")})).value();
  files_[0].set_crc32c(listed.files()[0].crc32c());
  std::vector<int64_t> offsets;
  const absl::Status status =
      Fetch([&](const std::string&, int64_t offset,
                absl::FunctionRef<absl::Status(absl::string_view)> take) -> absl::Status {
        offsets.push_back(offset);
        TETHYS_RETURN_IF_ERROR(take(absl::string_view(content_).substr(offset, 1000)));
        return offset < 2000 ? absl::UnavailableError("broken") : absl::OkStatus();
      });
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_THAT(offsets, ElementsAre(0, 1000, 2000));
}

TEST_F(FaultyChiefTest, TransferThatBreaksFiveTimesIsGivenUp) {
  const absl::Status status =
      Fetch([&](const std::string&, int64_t, absl::FunctionRef<absl::Status(absl::string_view)>) {
        ++reads_;
        return absl::UnavailableError("broken");
      });
  EXPECT_TRUE(absl::IsUnavailable(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("chief://a.bin"));
  EXPECT_EQ(reads_, 5);
}

TEST_F(FaultyChiefTest, BytesThatDifferFromTheFileAreRefused) {
  for (const std::string& sent : {content_, content_.substr(1), content_ + "x"}) {
    const absl::Status status =
        Fetch([&](const std::string&, int64_t, absl::FunctionRef<absl::Status(absl::string_view)> take) {
          return take(sent);
        });
    EXPECT_TRUE(absl::IsDataLoss(status)) << sent.size() << status;
    EXPECT_THAT(ListDirectory(directory_.Path("cache")).value(), IsEmpty());
  }
}

TEST_F(FaultyChiefTest, PathThatTheChiefListsOutsideTheCacheIsRefused) {
  data_ = Cifar({"chief://a"});
  files_[0].set_path("a/../../b");
  const auto read = [](const std::string&, int64_t, absl::FunctionRef<absl::Status(absl::string_view)>) {
    return absl::OkStatus();
  };
  EXPECT_THAT(std::string(Fetch(read).message()), HasSubstr("invalid path or size: chief://a/../../b"));
  files_.Clear();
  EXPECT_THAT(std::string(Fetch(read).message()), HasSubstr("lists no file of chief://a"));
}

TEST(ChiefPathsTest, ChiefPathIntoAnArchiveKeepsTheNameOfTheMember) {
  proto::Data data;
  data.mutable_npy()->set_train_images("chief://mnist.npz#x_train");
  const std::vector<ChiefPath> named = ChiefPathsOf(data).value();
  ASSERT_THAT(named, SizeIs(1));
  EXPECT_EQ(named[0].path, "mnist.npz");
  EXPECT_EQ(named[0].member, "#x_train");
  EXPECT_FALSE(named[0].pattern);
  EXPECT_EQ(OnChiefsMachine(data).npy().train_images(), "mnist.npz#x_train");
}

}  // namespace
}  // namespace tethys
