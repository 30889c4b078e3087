// Tests that decoded samples in the host's cache equal the samples of their source, and are decoded once.
#include "runtime/data/sample_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "absl/strings/match.h"
#include "runtime/base/process.h"
#include "runtime/data/dataset.h"
#include "tests/runtime/data/picture_files.h"
#include "tests/testing/failing_calls.h"
#include "tests/testing/temp_directory.h"

namespace tethys {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr int64_t kSamples = 3000, kLabels = 6;

// Samples of [2, 3] bytes with a map of labels; sample kSamples / 2 may be damaged.
class CountedSource final : public SampleSource {
 public:
  CountedSource(std::atomic<int>& reads, bool damaged)
      : SampleSource({.shape = {2, 3}, .labels = {.shape = {2, 3}}}, kSamples),
        reads_(reads),
        damaged_(damaged) {}
  absl::Status Read(int64_t index, uint8_t* values, int32_t* labels) const override {
    ++reads_;
    if (damaged_ && index == kSamples / 2) return absl::DataLossError("sample 1500 is damaged");
    for (int64_t i = 0; i < kLabels; ++i) {
      if (values != nullptr) values[i] = static_cast<uint8_t>(7 * index + i);
      if (labels != nullptr) labels[i] = static_cast<int32_t>((index + i) % 10);
    }
    return absl::OkStatus();
  }

 private:
  std::atomic<int>& reads_;
  const bool damaged_;
};

class SampleCacheTest : public ::testing::TestWithParam<proto::Data::Cache> {
 protected:
  absl::StatusOr<std::shared_ptr<const SampleSource>> Open(const std::string& name = "data",
                                                           bool damaged = false) {
    TETHYS_ASSIGN_OR_RETURN(const HostCache cache, HostCache::Open(directory_.Path("cache")));
    const auto source = std::make_shared<CountedSource>(reads_, damaged);
    return OpenCachedSamples(
        cache,
        {.where = GetParam(),
         .content = {.spec = source->spec(), .samples = kSamples, .key = CacheKey().Add(name).text()},
         .rules = {.classes = 10},
         .threads = 3,
         .description = name},
        [&] {
          ++opened_;
          return source;
        });
  }
  void ExpectSamples(const SampleSource& cached) {
    std::atomic<int> uncounted{0};
    const CountedSource source(uncounted, false);
    ASSERT_EQ(cached.size(), kSamples);
    ASSERT_TRUE(cached.spec() == source.spec());
    for (int64_t i = 0; i < kSamples; ++i) {
      uint8_t values[kLabels], expected[kLabels];
      int32_t labels[kLabels], expected_labels[kLabels];
      cached.Expect(i);
      ASSERT_TRUE(cached.Read(i, values, nullptr).ok());
      ASSERT_TRUE(cached.Read(i, nullptr, labels).ok());
      ASSERT_TRUE(source.Read(i, expected, expected_labels).ok());
      ASSERT_TRUE(std::equal(values, values + kLabels, expected)) << i;
      ASSERT_TRUE(std::equal(labels, labels + kLabels, expected_labels)) << i;
    }
  }
  // The path of the one file in the cache.
  std::string OnlyFile() {
    const std::vector<std::string> names = ListDirectory(directory_.Path("cache")).value();
    EXPECT_THAT(names, SizeIs(1));
    return directory_.Path("cache/") + names.at(0);
  }

  const testing::TempDirectory directory_;
  std::atomic<int> reads_{0};
  int opened_ = 0;
};

TEST_P(SampleCacheTest, SamplesEqualTheirSourceAndAreReadFromItOnce) {
  const auto first = Open().value();
  EXPECT_EQ(reads_, kSamples);
  ExpectSamples(*first);
  const auto second = Open().value();
  ExpectSamples(*second);
  EXPECT_EQ(reads_, kSamples);
  EXPECT_EQ(opened_, 1);
}

TEST_P(SampleCacheTest, DifferentKeysGetSeparateEntries) {
  const auto first = Open("data").value(), second = Open("other").value();
  EXPECT_EQ(opened_, 2);
}

TEST_P(SampleCacheTest, RanksThatOpenTheCacheAtOnceReadTheSourceOnce) {
  std::vector<std::thread> ranks;
  std::vector<std::shared_ptr<const SampleSource>> opened(6);
  for (auto& cached : opened) ranks.emplace_back([this, &cached] { cached = Open().value(); });
  for (std::thread& rank : ranks) rank.join();
  EXPECT_EQ(reads_, kSamples);
  for (const auto& cached : opened) ExpectSamples(*cached);
}

TEST_P(SampleCacheTest, DamagedSampleIsAnErrorAndLeavesNoEntry) {
  EXPECT_EQ(Open("data", true).status().message(), "sample 1500 is damaged");
  EXPECT_THAT(ListDirectory(directory_.Path("cache")).value(), SizeIs(0));
}

TEST_P(SampleCacheTest, FullDiskErrorNamesTheBytesNeeded) {
  const testing::FailingCalls full({.name = "posix_fallocate", .errors = {ENOSPC}, .for_good = true});
  const absl::Status status = Open().status();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("decoded samples of data"), HasSubstr("data.cache")));
}

INSTANTIATE_TEST_SUITE_P(Places, SampleCacheTest, ::testing::Values(proto::Data::MEMORY, proto::Data::DISK),
                         [](const auto& place) { return proto::Data::Cache_Name(place.param); });

class DiskCacheTest : public SampleCacheTest {};

TEST_P(DiskCacheTest, FileWithDamagedHeaderOrTruncatedEndIsMadeAnew) {
  for (const bool cut : {false, true}) {
    opened_ = 0;
    ASSERT_TRUE(Open().ok());
    const std::string path = OnlyFile();
    if (cut) {
      std::filesystem::resize_file(path, 5000);
    } else {
      std::fstream(path, std::ios::binary | std::ios::in | std::ios::out).seekp(30).put('?');
    }
    ExpectSamples(*Open().value());
    EXPECT_EQ(opened_, 2 - (cut ? 1 : 0));
  }
}

// A byte of the values, of a label or of a checksum of sample 5 is changed, so that only the checksum shows
// the damage.
TEST_P(DiskCacheTest, DamagedSampleIsAnErrorAndTheFileIsMadeAnew) {
  const SampleCacheLayout layout({.shape = {2, 3}, .labels = {.shape = {2, 3}}}, kSamples);
  for (const int64_t place : {int64_t{2}, layout.value_bytes + 8, layout.value_bytes + layout.label_bytes}) {
    ASSERT_TRUE(Open().ok());
    const std::string path = OnlyFile();
    const auto cached = Open().value();
    std::fstream(path, std::ios::binary | std::ios::in | std::ios::out)
        .seekp(layout.RecordOf(5) + place)
        .put(3);
    uint8_t values[kLabels];
    int32_t labels[kLabels];
    EXPECT_TRUE(cached->Read(4, values, labels).ok());
    const absl::Status status = cached->Read(5, values, labels);
    EXPECT_TRUE(absl::IsDataLoss(status)) << place;
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr(path), HasSubstr("sample 5"), HasSubstr("start the job again")));
    EXPECT_FALSE(FileExists(path));
    ExpectSamples(*Open().value());
  }
}

// Reading a page beyond the new end of a truncated, mapped file raises a signal. The read must return an
// error, and the signal must not end the process.
TEST_P(DiskCacheTest, FileThatIsTruncatedWhileItIsReadIsAnError) {
  for (const int64_t size : {int64_t{0}, kSampleCacheRecords, int64_t{20'000}}) {
    const auto cached = Open().value();
    std::filesystem::resize_file(OnlyFile(), size);
    uint8_t values[kLabels];
    int32_t labels[kLabels];
    EXPECT_TRUE(absl::IsDataLoss(cached->Read(kSamples - 1, values, nullptr)));
    EXPECT_TRUE(absl::IsDataLoss(cached->Read(kSamples - 1, values, labels)));
    EXPECT_EQ(cached->Read(0, values, labels).ok(), size > kSampleCacheRecords);
    ExpectSamples(*Open().value());
  }
}

TEST_P(DiskCacheTest, FileThatIsRemovedWhileItIsReadStaysReadable) {
  const auto cached = Open().value();
  std::filesystem::remove_all(directory_.Path("cache"));
  ExpectSamples(*cached);
}

INSTANTIATE_TEST_SUITE_P(Disk, DiskCacheTest, ::testing::Values(proto::Data::DISK));

class MemoryCacheTest : public SampleCacheTest {};

TEST_P(MemoryCacheTest, CacheMemoryIsFreedOnceItsLastRankHasClosedIt) {
  auto first = Open().value();
  auto second = Open().value();
  first.reset();
  ExpectSamples(*Open().value());  // This dataset shares the memory of `second`.
  EXPECT_EQ(opened_, 1);
  second.reset();
  ASSERT_TRUE(Open().ok());
  EXPECT_EQ(opened_, 2);
}

TEST_P(MemoryCacheTest, CacheFileOfAnEarlierProcessWithTheSameProcessIdIsStale) {
  const auto first = Open().value();
  const std::string note = OnlyFile();
  const int64_t start = ProcessStart(getpid()).value();
  std::string text = ReadFile(note).value();
  const std::string number = absl::StrCat(" ", start, " ");
  ASSERT_TRUE(absl::StrContains(text, number));
  text.replace(text.find(number), number.size(), absl::StrCat(" ", start + 1, " "));
  for (const std::string& stale :
       {text, std::string("no note"), absl::StrCat("1 1 1\n", getpid(), " ", start, " 0\n")}) {
    opened_ = 0;
    ASSERT_TRUE(WriteFileAtomically(note, stale).ok());
    ExpectSamples(*Open().value());
    EXPECT_EQ(opened_, 1) << stale;
  }
}

TEST_P(MemoryCacheTest, FilesOfCachesWithoutALivingRankAreRemovedWhenARankOpensACache) {
  ASSERT_TRUE(Open("old").ok());
  const auto kept = Open("new").value();
  EXPECT_THAT(ListDirectory(directory_.Path("cache")).value(),
              ElementsAre(::testing::StartsWith("samples-" + CacheKey().Add("new").text())));
}

INSTANTIATE_TEST_SUITE_P(Memory, MemoryCacheTest, ::testing::Values(proto::Data::MEMORY));

TEST(SampleCacheHeaderTest, InconsistentHeadersAreRefused) {
  const SampleCacheContent content = {.spec = {.shape = {4, 5, 3}, .labels = {.shape = {2}, .targets = true}},
                                      .samples = 7,
                                      .key = CacheKey().text()};
  const std::string header = SampleCacheHeader(content);
  const auto parse = [](const std::string& bytes, int64_t size) {
    return ParseSampleCacheHeader({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}, size);
  };
  const int64_t size = SampleCacheLayout(content.spec, 7).size;
  const auto parsed = parse(header, size);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_TRUE(parsed->spec == content.spec);
  EXPECT_EQ(parsed->samples, 7);
  EXPECT_EQ(parsed->key, content.key);
  SampleCacheContent floats = content;
  floats.spec.type = ValueType::kFloat;
  const int64_t size_of_floats = SampleCacheLayout(floats.spec, 7).size;
  EXPECT_GT(size_of_floats, size);
  EXPECT_TRUE(parse(SampleCacheHeader(floats), size_of_floats)->spec == floats.spec);
  EXPECT_TRUE(absl::IsDataLoss(parse(SampleCacheHeader(floats), size).status()));
  EXPECT_TRUE(absl::IsDataLoss(parse(header, size + 1).status()));
  EXPECT_TRUE(absl::IsDataLoss(parse(header.substr(1), size).status()));
  for (size_t at = 0; at < header.size(); ++at) {
    std::string flipped = header;
    flipped[at] ^= 1;
    EXPECT_TRUE(absl::IsDataLoss(parse(flipped, size).status())) << at;
  }
}

// ------------------------------------------------------------------------------------------ of a job

class CachedJobTest : public ::testing::Test {
 protected:
  void Write(const std::string& path, uint8_t value, int64_t side = 4) {
    std::filesystem::create_directories(std::filesystem::path(directory_.Path(path)).parent_path());
    directory_.Write(path, testing::Png(std::vector<uint8_t>(side * side, value), side, side, 1));
  }
  proto::Job Pets(proto::Data::Cache cache) {
    proto::Job job;
    proto::Data& data = *job.mutable_data();
    data.set_classes(2);
    data.mutable_image_folder()->set_train(directory_.Path("pets"));
    data.set_cache(cache);
    data.set_cache_dir(directory_.Path("cache"));
    data.set_loader_threads(2);
    return job;
  }
  static std::vector<std::pair<int, int>> Samples(const Dataset& data) {
    std::vector<std::pair<int, int>> samples;
    std::vector<uint8_t> values(data.sample_elements());
    for (int64_t i = 0; i < data.size(); ++i) {
      int32_t label = -1;
      TETHYS_CHECK(data.Read(i, values.data(), &label).ok());
      samples.emplace_back(values[0], label);
    }
    return samples;
  }
  size_t Entries() { return ListDirectory(directory_.Path("cache")).value().size(); }

  const testing::TempDirectory directory_;
};

TEST_F(CachedJobTest, CachedJobHasTheSamplesOfAnUncachedJob) {
  for (int i = 0; i < 20; ++i) Write(absl::StrCat("pets/", i % 2 == 0 ? "cat" : "dog", "/", i, ".png"), i);
  const auto plain = Samples(*LoadDatasets(Pets(proto::Data::NONE)).value().train);
  EXPECT_EQ(Samples(*LoadDatasetsUncached(Pets(proto::Data::DISK)).value().train), plain);
  EXPECT_FALSE(FileExists(directory_.Path("cache")));
  EXPECT_EQ(Samples(*LoadDatasets(Pets(proto::Data::DISK)).value().train), plain);
  EXPECT_EQ(Samples(*LoadDatasets(Pets(proto::Data::MEMORY)).value().train), plain);
  proto::Job threads = Pets(proto::Data::DISK);
  threads.mutable_data()->set_loader_threads(1);
  threads.mutable_data()->set_validation_samples(3);
  EXPECT_EQ(LoadDatasets(threads).value().train->size(), 17);
  EXPECT_EQ(Entries(), 2) << "one on disk, and a note of the one in memory";
}

TEST_F(CachedJobTest, FloatsAreCachedBitByBit) {
  proto::Job job;
  proto::Data& data = *job.mutable_data();
  data.set_classes(3);
  data.mutable_csv()->add_train(directory_.Write("train.csv", "0.1,-2e-30,1\n3e38,1e-45,2\n"));
  data.set_cache_dir(directory_.Path("cache"));
  for (const auto cache : {proto::Data::NONE, proto::Data::DISK, proto::Data::MEMORY, proto::Data::DISK}) {
    data.set_cache(cache);
    const Datasets opened = LoadDatasets(job).value();
    EXPECT_EQ(opened.train->spec().type, ValueType::kFloat);
    float values[2];
    int32_t label = -1;
    ASSERT_TRUE(opened.train->Read(1, reinterpret_cast<uint8_t*>(values), &label).ok());
    EXPECT_EQ(values[0], 3e38f);
    EXPECT_EQ(values[1], 1e-45f);
    EXPECT_EQ(label, 2);
  }
  data.set_cache(proto::Data::DISK);
  directory_.Write("train.csv", "0.1,0.2,1\n3,nan,2\n");
  EXPECT_THAT(std::string(LoadDatasets(job).status().message()),
              HasSubstr("train.csv, line 2, column 1 (counted from 0): \"nan\" is not finite"));
}

TEST_F(CachedJobTest, ChangedDataMakeANewEntry) {
  Write("pets/cat/1.png", 1);
  Write("pets/dog/2.png", 2);
  EXPECT_THAT(Samples(*LoadDatasets(Pets(proto::Data::DISK)).value().train),
              ::testing::UnorderedElementsAre(std::pair(1, 0), std::pair(2, 1)));
  Write("pets/dog/2.png", 3);
  const std::string path = directory_.Path("pets/dog/2.png");
  std::filesystem::last_write_time(path, std::filesystem::last_write_time(path) + std::chrono::seconds(1));
  EXPECT_THAT(Samples(*LoadDatasets(Pets(proto::Data::DISK)).value().train),
              ::testing::UnorderedElementsAre(std::pair(1, 0), std::pair(3, 1)));
  EXPECT_EQ(Entries(), 2);
}

TEST_F(CachedJobTest, FileReplacedWithEqualSizeAndTimeMakesANewEntry) {
  proto::Job job;
  proto::Data& data = *job.mutable_data();
  data.set_classes(3);
  data.mutable_csv()->add_train(directory_.Write("train.csv", "1,2\n"));
  data.mutable_csv()->set_bytes(true);
  data.set_cache(proto::Data::DISK);
  data.set_cache_dir(directory_.Path("cache"));
  EXPECT_THAT(Samples(*LoadDatasets(job).value().train), ElementsAre(std::pair(1, 2)));
  const auto time = std::filesystem::last_write_time(directory_.Path("train.csv"));
  for (const bool in_place : {false, true}) {
    const std::string text = in_place ? "5,0\n" : "3,1\n";
    std::ofstream(directory_.Path(in_place ? "train.csv" : "other.csv")) << text;
    if (!in_place) std::filesystem::rename(directory_.Path("other.csv"), directory_.Path("train.csv"));
    std::filesystem::last_write_time(directory_.Path("train.csv"), time);
    EXPECT_THAT(Samples(*LoadDatasets(job).value().train),
                ElementsAre(in_place ? std::pair(5, 0) : std::pair(3, 1)));
  }
}

TEST_F(CachedJobTest, RenumberedClassesChangeTheLabelsOfTestSamples) {
  Write("pets/cat/1.png", 1);
  Write("pets/dog/2.png", 2);
  Write("test/dog/3.png", 3);
  proto::Job job = Pets(proto::Data::DISK);
  job.mutable_data()->mutable_image_folder()->set_test(directory_.Path("test"));
  EXPECT_THAT(Samples(*LoadDatasets(job).value().test), ElementsAre(std::pair(3, 1)));
  std::filesystem::rename(directory_.Path("pets/cat"), directory_.Path("pets/eel"));
  EXPECT_THAT(Samples(*LoadDatasets(job).value().test), ElementsAre(std::pair(3, 0)));
}

TEST_F(CachedJobTest, ErrorNamesADamagedPictureAlsoWhenSamplesAreCached) {
  Write("pets/cat/1.png", 1);
  Write("pets/dog/2.png", 2);
  std::string cut = testing::Png(testing::Gradient(4, 4, 1), 4, 4, 1);
  cut.resize(cut.size() - 20);
  directory_.Write("pets/dog/3.png", cut);
  for (const auto cache : {proto::Data::DISK, proto::Data::MEMORY}) {
    EXPECT_THAT(std::string(LoadDatasets(Pets(cache)).status().message()),
                AllOf(HasSubstr("dog/3.png"), HasSubstr("damaged PNG")));
  }
}

TEST_F(CachedJobTest, ResizedPicturesAreCachedInTheNewSize) {
  Write("pets/cat/1.png", 1, 4);
  Write("pets/dog/2.png", 2, 9);
  proto::Job job = Pets(proto::Data::DISK);
  job.mutable_data()->mutable_resize()->set_height(2);
  job.mutable_data()->mutable_resize()->set_width(3);
  const Datasets data = LoadDatasets(job).value();
  EXPECT_EQ(data.train->sample_shape(), (Shape{2, 3}));
  EXPECT_THAT(Samples(*data.train), ::testing::UnorderedElementsAre(std::pair(1, 0), std::pair(2, 1)));
}

}  // namespace
}  // namespace tethys
