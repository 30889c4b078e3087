// Tests that small pictures in files are packed once per host, with their present contents, and then read
// from the pack.
#include "runtime/data/packed_pictures.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "runtime/base/file.h"
#include "runtime/data/dataset.h"
#include "runtime/data/host_cache.h"
#include "tests/runtime/data/picture_files.h"
#include "tests/testing/temp_directory.h"

namespace tethys {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;

constexpr int64_t kCount = PackedPictures::kLeastPictures;

class PackedPicturesTest : public ::testing::Test {
 protected:
  PackedPicturesTest() {
    for (int64_t i = 0; i < kCount; ++i) Write(i, TextOf(i));
  }

  // The text of file `index`. Neighbouring files have texts of different lengths.
  static std::string TextOf(int64_t index) { return std::string(1 + index % 7, 'a') + std::to_string(index); }
  void Write(int64_t index, const std::string& text) { directory_.Write(absl::StrCat(index, ".png"), text); }
  std::string PathOf(int64_t index) const { return absl::StrCat(directory_.path(), "/", index, ".png"); }
  std::string cache() const { return cache_.path(); }

  absl::StatusOr<std::shared_ptr<const PackedPictures>> Open(int64_t count = kCount) const {
    return PackedPictures::Open(cache(), count, [this](int64_t index) { return PathOf(index); });
  }
  std::vector<std::string> Entries() const { return ListDirectory(cache()).value(); }

  static std::string Read(const PackedPictures& packed, int64_t index) {
    const auto bytes = packed.Read(index);
    EXPECT_TRUE(bytes.ok()) << bytes.status();
    return bytes.ok() ? std::string(bytes->begin(), bytes->end()) : "";
  }

  const testing::TempDirectory directory_, cache_;
};

TEST_F(PackedPicturesTest, PackReturnsTheUnchangedBytesOfEveryFile) {
  const auto packed = Open().value();
  ASSERT_NE(packed, nullptr);
  for (int64_t i = kCount; i-- > 0;) ASSERT_EQ(Read(*packed, i), TextOf(i));
  EXPECT_THAT(Entries(), SizeIs(1));
}

TEST_F(PackedPicturesTest, FilesAreReadOnceIntoAPackForAllProcesses) {
  ASSERT_NE(Open().value(), nullptr);
  const std::string entry = absl::StrCat(cache(), "/", Entries().at(0));
  const auto made = std::filesystem::last_write_time(entry);
  const auto again = Open().value();
  EXPECT_EQ(std::filesystem::last_write_time(entry), made);
  std::filesystem::remove(PathOf(5));
  EXPECT_EQ(Read(*again, 5), TextOf(5));
}

TEST_F(PackedPicturesTest, FileChangedSincePackingLeadsToANewPack) {
  const auto before = Open().value();
  const auto time = std::filesystem::last_write_time(PathOf(3));
  const std::string other(TextOf(3).size(), 'z');
  Write(3, other);
  std::filesystem::last_write_time(PathOf(3), time + std::chrono::milliseconds(1));
  const auto after = Open().value();
  EXPECT_EQ(Read(*before, 3), TextOf(3));
  EXPECT_EQ(Read(*after, 3), other);
  EXPECT_THAT(Entries(), SizeIs(2));
}

TEST_F(PackedPicturesTest, TruncatedPackIsMadeAnew) {
  ASSERT_NE(Open().value(), nullptr);
  ASSERT_EQ(truncate(absl::StrCat(cache(), "/", Entries().at(0)).c_str(), 100), 0);
  const auto packed = Open().value();
  EXPECT_EQ(Read(*packed, kCount - 1), TextOf(kCount - 1));
}

TEST_F(PackedPicturesTest, PackTruncatedWhileBeingReadIsAnError) {
  const auto packed = Open().value();
  const std::string entry = absl::StrCat(cache(), "/", Entries().at(0));
  ASSERT_EQ(truncate(entry.c_str(), 100), 0);
  const absl::Status status = packed->Read(kCount - 1).status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr(entry), HasSubstr("start the job again")));
}

TEST_F(PackedPicturesTest, DamagedPictureIsAnErrorAndThePackIsMadeAnew) {
  const auto packed = Open().value();
  const std::string entry = absl::StrCat(cache(), "/", Entries().at(0));
  std::fstream(entry, std::ios::binary | std::ios::in | std::ios::out).seekp(1).put('?');
  EXPECT_EQ(Read(*packed, 1), TextOf(1));
  const absl::Status status = packed->Read(0).status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr(entry), HasSubstr("checksum")));
  EXPECT_EQ(Read(*Open().value(), 0), TextOf(0));
}

TEST_F(PackedPicturesTest, FileReplacedWithEqualSizeAndTimeIsReadAnew) {
  ASSERT_NE(Open().value(), nullptr);
  const auto time = std::filesystem::last_write_time(PathOf(3));
  const std::string other(TextOf(3).size(), 'z');
  Write(3, other);
  std::filesystem::last_write_time(PathOf(3), time);
  EXPECT_EQ(Read(*Open().value(), 3), other);
}

TEST_F(PackedPicturesTest, TooFewOrTooLargePicturesAreNotPacked) {
  EXPECT_EQ(Open(kCount - 1).value(), nullptr);
  // Pictures of the largest mean size are packed; with one byte more in all, they are not.
  const std::string large(PackedPictures::kMostAverage, 'a');
  for (int64_t i = 0; i < kCount; ++i) Write(i, large);
  EXPECT_NE(Open().value(), nullptr);
  Write(kCount - 1, large + "a");
  EXPECT_EQ(Open().value(), nullptr);
  EXPECT_THAT(Entries(), SizeIs(1));
}

TEST_F(PackedPicturesTest, WithoutAUsableCacheFolderNothingIsPacked) {
  const std::string file = directory_.Write("file", "no folder");
  const auto packed = PackedPictures::Open(file, kCount, [this](int64_t index) { return PathOf(index); });
  ASSERT_TRUE(packed.ok()) << packed.status();
  EXPECT_EQ(*packed, nullptr);
}

TEST_F(PackedPicturesTest, PackingThatTakesTooLongIsGivenUpWithoutAnError) {
  const auto path_of = [this](int64_t index) { return PathOf(index); };
  EXPECT_EQ(PackedPictures::Open(cache(), kCount, path_of, 0).value(), nullptr);
  // This lock takes the place of another process that packs for longer than this process waits.
  ASSERT_NE(Open().value(), nullptr);
  const std::string entry = Entries().at(0);
  std::filesystem::remove(absl::StrCat(cache(), "/", entry));
  const HostCache host = HostCache::Open(cache()).value();
  const CacheLock lock = host.Lock(entry).value();
  EXPECT_EQ(PackedPictures::Open(cache(), kCount, path_of, 200 * kMillisecond).value(), nullptr);
}

TEST_F(PackedPicturesTest, MissingEmptyOrIrregularFileIsRefusedByName) {
  Write(7, "");
  EXPECT_THAT(std::string(Open().status().message()), AllOf(HasSubstr(PathOf(7)), HasSubstr("empty")));
  std::filesystem::remove(PathOf(7));
  EXPECT_TRUE(absl::IsNotFound(Open().status())) << Open().status();
  EXPECT_THAT(std::string(Open().status().message()), HasSubstr(PathOf(7)));
  std::filesystem::create_directory(PathOf(7));
  EXPECT_THAT(std::string(Open().status().message()), AllOf(HasSubstr(PathOf(7)), HasSubstr("regular")));
  EXPECT_THAT(Entries(), IsEmpty());
}

TEST_F(PackedPicturesTest, FileThatChangesWhileItIsPackedIsAnError) {
  // The second call of the function for file 9 is made just before the file is packed.
  int calls = 0;
  const auto packed = PackedPictures::Open(cache(), kCount, [&](int64_t index) {
    if (index == 9 && ++calls == 2) Write(9, "another length");
    return PathOf(index);
  });
  EXPECT_TRUE(absl::IsDataLoss(packed.status())) << packed.status();
  EXPECT_THAT(std::string(packed.status().message()), AllOf(HasSubstr(PathOf(9)), HasSubstr("changed")));
  EXPECT_THAT(Entries(), IsEmpty());
}

TEST_F(PackedPicturesTest, ThreadsThatOpenAPackAtTheSameTimeShareIt) {
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([this] {
      const auto packed = Open().value();
      for (int64_t i = 0; i < kCount; ++i) ASSERT_EQ(Read(*packed, i), TextOf(i));
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(Entries(), SizeIs(1));
}

// Tests packs by loading the data of a job.
class PackedFolderTest : public ::testing::Test {
 protected:
  PackedFolderTest() {
    for (const char* name : {"cat", "dog"}) {
      std::filesystem::create_directories(absl::StrCat(directory_.path(), "/train/", name));
      for (int64_t i = 0; i < kCount / 2; ++i) {
        const auto value = static_cast<uint8_t>(i + name[0]);
        directory_.Write(absl::StrCat("train/", name, "/", i, ".png"),
                         testing::Png(std::vector<uint8_t>(12, value), 4, 3, 1));
      }
    }
  }
  proto::Job JobOf() const {
    proto::Job job;
    job.mutable_data()->set_classes(2);
    job.mutable_data()->set_cache_dir(cache_.path());
    job.mutable_data()->mutable_image_folder()->set_train(directory_.path() + "/train");
    return job;
  }
  static std::vector<uint8_t> ValuesOf(const Dataset& dataset) {
    std::vector<uint8_t> values(dataset.size() * dataset.sample_elements());
    for (int64_t i = 0; i < dataset.size(); ++i) {
      EXPECT_TRUE(dataset.ReadValues(i, values.data() + i * dataset.sample_elements()).ok());
    }
    return values;
  }
  std::vector<std::string> Entries() const { return ListDirectory(cache_.path()).value(); }

  const testing::TempDirectory directory_, cache_;
};

TEST_F(PackedFolderTest, SamplesEqualThePicturesInTheFiles) {
  proto::Job plain = JobOf();
  plain.mutable_data()->set_cache(proto::Data::NONE);
  const std::vector<uint8_t> expected = ValuesOf(*LoadDatasets(plain).value().train);
  EXPECT_THAT(Entries(), IsEmpty());
  const Datasets packed = LoadDatasets(JobOf()).value();
  EXPECT_THAT(Entries(), SizeIs(1));
  std::filesystem::remove_all(directory_.path() + "/train");  // The pictures now come from the pack.
  EXPECT_EQ(ValuesOf(*packed.train), expected);
}

TEST_F(PackedFolderTest, JobThatCachesDecodedSamplesMakesNoPack) {
  proto::Job job = JobOf();
  job.mutable_data()->set_cache(proto::Data::DISK);
  ASSERT_TRUE(LoadDatasets(job).ok());
  EXPECT_THAT(Entries(), ElementsAre(StartsWith("samples-")));
}

TEST_F(PackedFolderTest, ErrorForADamagedPictureInAPackNamesTheOriginalFile) {
  directory_.Write("train/dog/77.png", testing::Png(std::vector<uint8_t>(12, 1), 4, 3, 1).substr(0, 40));
  const Datasets data = LoadDatasets(JobOf()).value();
  std::vector<uint8_t> values(data.train->sample_elements());
  absl::Status status;
  for (int64_t i = 0; status.ok() && i < data.train->size(); ++i) {
    status = data.train->ReadValues(i, values.data());
  }
  EXPECT_THAT(std::string(status.message()), HasSubstr("train/dog/77.png"));
}

}  // namespace
}  // namespace tethys
