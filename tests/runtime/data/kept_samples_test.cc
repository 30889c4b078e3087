// Tests that files are unpacked or parsed once per host, that mean and deviation are computed once per host,
// and that samples, mean and deviation have the same bits as without a cache.
#include "runtime/data/kept_samples.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <thread>

#include "absl/strings/match.h"
#include "runtime/data/dataset.h"
#include "runtime/data/host_cache.h"
#include "runtime/data/kept_scaling.h"
#include "tests/runtime/data/idx_files.h"
#include "tests/testing/failing_calls.h"
#include "tests/testing/temp_directory.h"

namespace tethys {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAre;

constexpr int64_t kSamples = 1400, kSide = 28, kTest = 30;

struct Content {
  std::vector<uint8_t> values;
  std::vector<int32_t> labels;
  InputScaling scaling;
  bool operator==(const Content&) const = default;
};

class KeptSamplesTest : public ::testing::Test {
 protected:
  // A job on gzipped IDX files with a bit more than kLeastKept bytes of samples, and with a small test split.
  proto::Job Gzipped() {
    proto::Job job;
    proto::Data& data = *job.mutable_data();
    data.set_classes(5);
    proto::Idx& idx = *data.mutable_idx();
    idx.set_train_images(Write("images.gz", testing::Gzip(testing::Idx({kSamples, kSide, kSide}))));
    idx.set_train_labels(Write("labels.gz", testing::Gzip(testing::IdxLabels(kSamples, 5))));
    idx.set_test_images(Write("test-images.gz", testing::Gzip(testing::Idx({kTest, kSide, kSide}))));
    idx.set_test_labels(Write("test-labels.gz", testing::Gzip(testing::IdxLabels(kTest, 5))));
    return Finished(job);
  }
  // A job on a CSV file of 600 lines with 600 numbers and a label each.
  proto::Job Csv() {
    std::string text;
    for (int i = 0; i < 600; ++i) {
      for (int j = 0; j < 600; ++j) absl::StrAppend(&text, (i * 7 + j) % 100, ".", j % 10, ",");
      absl::StrAppend(&text, i % 5, "\n");
    }
    proto::Job job;
    job.mutable_data()->set_classes(5);
    job.mutable_data()->mutable_csv()->add_train(Write("train.csv", text));
    return Finished(job);
  }
  proto::Job Finished(proto::Job job) const {
    job.mutable_data()->set_cache_dir(cache_.path());
    job.mutable_data()->set_compute_standardisation(true);
    job.mutable_data()->set_validation_samples(50);
    return job;
  }
  std::string Write(const std::string& name, const std::string& content) {
    return directory_.Write(name, content);
  }

  static Content ContentOf(const proto::Job& job) {
    const absl::StatusOr<Datasets> datasets = LoadDatasets(job);
    EXPECT_TRUE(datasets.ok()) << datasets.status();
    if (!datasets.ok()) return {};
    Content content;
    for (const auto& part : {datasets->train, datasets->validation, datasets->test}) {
      if (part == nullptr) continue;
      std::vector<uint8_t> values(part->sample_bytes());
      for (int64_t i = 0; i < part->size(); ++i) {
        int32_t label = -1;
        EXPECT_TRUE(part->Read(i, values.data(), &label).ok()) << i;
        content.values.insert(content.values.end(), values.begin(), values.end());
        content.labels.push_back(label);
      }
    }
    const absl::StatusOr<InputScaling> scaling = ResolveScaling(job.data(), *datasets);
    EXPECT_TRUE(scaling.ok()) << scaling.status();
    if (scaling.ok()) content.scaling = *scaling;
    return content;
  }
  static Content Uncached(proto::Job job) {
    job.mutable_data()->set_cache(proto::Data::NONE);
    return ContentOf(job);
  }
  std::vector<std::string> Entries() const { return ListDirectory(cache_.path()).value(); }
  std::string EntryOf(absl::string_view prefix) const {
    for (const std::string& name : Entries()) {
      if (absl::StartsWith(name, prefix)) return absl::StrCat(cache_.path(), "/", name);
    }
    return "";
  }
  // Inode and time of the last change of each entry.
  std::vector<std::pair<ino_t, int64_t>> States() const {
    std::vector<std::pair<ino_t, int64_t>> states;
    for (const std::string& name : Entries()) {
      struct stat info;
      EXPECT_EQ(stat(absl::StrCat(cache_.path(), "/", name).c_str(), &info), 0);
      states.emplace_back(info.st_ino, info.st_ctim.tv_sec * kSecond + info.st_ctim.tv_nsec);
    }
    return states;
  }

  const testing::TempDirectory directory_, cache_;
};

TEST_F(KeptSamplesTest, SamplesAreUnpackedOnceAndEqualThoseOfTheFiles) {
  for (const proto::Job& job : {Gzipped(), Csv()}) {
    ASSERT_TRUE(RemoveRecursively(cache_.path()).ok());
    const Content expected = Uncached(job);
    EXPECT_FALSE(FileExists(cache_.path()));
    EXPECT_TRUE(ContentOf(job) == expected);
    EXPECT_THAT(Entries(),
                UnorderedElementsAre(StartsWith("samples-"), AllOf(StartsWith("samples-"), EndsWith(".of")),
                                     StartsWith("scaling-")));
    const auto made = States();
    EXPECT_TRUE(ContentOf(job) == expected);
    EXPECT_EQ(States(), made);
  }
}

TEST_F(KeptSamplesTest, EachChannelHasItsOwnScaling) {
  proto::Job job;
  proto::Data& data = *job.mutable_data();
  data.set_classes(5);
  data.mutable_idx()->set_train_images(Write("i", testing::Idx({kSamples, 19, 14, 3})));
  data.mutable_idx()->set_train_labels(Write("l", testing::IdxLabels(kSamples, 5)));
  job = Finished(job);
  for (const bool per_channel : {false, true}) {
    job.mutable_data()->set_per_channel(per_channel);
    const Content expected = Uncached(job);
    EXPECT_EQ(expected.scaling.channels(), per_channel ? 3 : 1);
    for (int run = 0; run < 2; ++run) EXPECT_TRUE(ContentOf(job) == expected);
  }
  EXPECT_EQ(Entries().size(), 4u) << "samples, their origin, and two of their scalings";
}

TEST_F(KeptSamplesTest, ScalingIsComputedAnewForAnotherTrainingSplit) {
  proto::Job job = Gzipped();
  const Content before = ContentOf(job);
  job.mutable_data()->set_validation_samples(700);
  EXPECT_TRUE(ContentOf(job).scaling == Uncached(job).scaling);
  EXPECT_FALSE(ContentOf(job).scaling == before.scaling);
  job.mutable_data()->set_limit_samples(100);
  EXPECT_TRUE(ContentOf(job) == Uncached(job));
}

TEST_F(KeptSamplesTest, KeptScalingIsFoundWithoutReadingSamples) {
  const proto::Job job = Gzipped();
  const auto find = [](const proto::Job& of) {
    const DatasetSizes sizes = ReadDatasetSizes(of).value();
    return FindScaling(of, {.shape = sizes.sample_shape, .labels = sizes.labels, .type = sizes.type},
                       sizes.train, sizes.validation)
        .value();
  };
  EXPECT_FALSE(find(job).has_value());
  EXPECT_THAT(Entries(), IsEmpty());
  const InputScaling scaling = ContentOf(job).scaling;
  EXPECT_EQ(find(job), absl::make_optional(scaling));
  proto::Job specified = job;
  specified.mutable_data()->set_compute_standardisation(false);
  specified.mutable_data()->add_mean(0.5f);
  EXPECT_EQ(find(specified)->mean, std::vector<float>{0.5f});
  // Writes the files anew at the same paths, which gives them new versions.
  Gzipped();
  EXPECT_FALSE(find(job).has_value());
}

TEST_F(KeptSamplesTest, CacheEntriesOfChangedFilesAreRemovedByTheNextRead) {
  const proto::Job job = Gzipped();
  ContentOf(job);
  const std::vector<std::string> before = Entries();
  Gzipped();  // Writes the files anew.
  ContentOf(job);
  EXPECT_THAT(Entries(), ::testing::SizeIs(3));
  for (const std::string& name : before) EXPECT_FALSE(FileExists(cache_.Path(name)));
  std::filesystem::remove(job.data().idx().train_labels());
  ContentOf(Csv());
  EXPECT_THAT(Entries(), ::testing::SizeIs(3));
}

TEST_F(KeptSamplesTest, SmallSplitsAndJobsWithoutACacheLeaveNoCacheEntries) {
  proto::Job job = Gzipped();
  job.mutable_data()->set_cache(proto::Data::NONE);
  ContentOf(job);
  *job.mutable_data() = testing::WriteIdxData(directory_, 60, 6);
  ContentOf(Finished(job));
  EXPECT_THAT(Entries(), IsEmpty());
}

TEST_F(KeptSamplesTest, WithoutAUsableCacheTheFilesAreReadDirectly) {
  proto::Job job = Gzipped();
  const Content expected = Uncached(job);
  {
    const testing::FailingCalls full({.name = "posix_fallocate", .errors = {ENOSPC}, .for_good = true});
    EXPECT_TRUE(ContentOf(job) == expected);
  }
  for (const char* call : {"write", "pwrite", "fsync", "rename"}) {
    ASSERT_TRUE(RemoveRecursively(cache_.path()).ok());
    const testing::FailingCalls broken({.name = call, .errors = {EIO}, .for_good = true});
    EXPECT_TRUE(ContentOf(job) == expected) << call;
  }
  const std::string file = Write("file", "no folder");
  for (const std::string& folder : {file, file + "/below", std::string("/proc/tethys")}) {
    job.mutable_data()->set_cache_dir(folder);
    EXPECT_TRUE(ContentOf(job) == expected) << folder;
  }
}

TEST_F(KeptSamplesTest, DamagedEntriesAreMadeAnew) {
  const proto::Job job = Gzipped();
  const Content expected = ContentOf(job);
  for (const bool cut : {false, true}) {
    for (const char* prefix : {"samples-", "scaling-"}) {
      const std::string path = EntryOf(prefix);
      if (cut) {
        std::filesystem::resize_file(path, 20);
      } else {
        std::fstream(path, std::ios::binary | std::ios::in | std::ios::out).seekp(10).put('?');
      }
    }
    EXPECT_TRUE(ContentOf(job) == expected);
  }
  EXPECT_EQ(Entries().size(), 3u);
}

TEST_F(KeptSamplesTest, CacheRemovedDuringUseLosesNoSample) {
  const proto::Job job = Gzipped();
  const Datasets datasets = LoadDatasets(job).value();
  ASSERT_TRUE(RemoveRecursively(cache_.path()).ok());
  std::vector<uint8_t> values(kSide * kSide);
  EXPECT_TRUE(datasets.train->Read(kSamples - 51, values.data(), nullptr).ok());
  EXPECT_TRUE(ResolveScaling(job.data(), datasets).value() == Uncached(job).scaling);
}

TEST_F(KeptSamplesTest, InvalidDataGiveTheSameErrorAsWithoutACache) {
  proto::Job job = Gzipped();
  std::string labels = testing::IdxLabels(kSamples, 5);
  labels.back() = 77;
  Write("labels.gz", testing::Gzip(labels));
  EXPECT_THAT(std::string(LoadDatasets(job).status().message()), HasSubstr("label 77 of sample 1399"));
  job = Csv();
  std::ofstream(job.data().csv().train(0), std::ios::app) << "1,2,3\n";
  EXPECT_THAT(std::string(LoadDatasets(job).status().message()), HasSubstr("line 601"));
  EXPECT_THAT(Entries(), IsEmpty());
}

TEST_F(KeptSamplesTest, RanksThatReadAtTheSameTimeShareOneCacheEntry) {
  const proto::Job job = Gzipped();
  const Content expected = Uncached(job);
  std::vector<std::thread> ranks;
  std::vector<Content> contents(4);
  for (Content& content : contents) ranks.emplace_back([&] { content = ContentOf(job); });
  for (std::thread& rank : ranks) rank.join();
  for (const Content& content : contents) EXPECT_TRUE(content == expected);
  EXPECT_EQ(Entries().size(), 3u);
}

// A kept scaling (mean and deviation) says in its text which files it was computed from.
TEST(KeptScalingTest, KeptScalingOfOtherFilesIsNotUsed) {
  const testing::TempDirectory cache;
  const KeptScaling::Origin origin = {.data = {}, .key = CacheKey().text(), .samples = 7, .channels = 2};
  const InputScaling scaling = {.mean = {0.1f, -1e-38f}, .deviation = {1e-45f, 3.4e38f}};
  int computed = 0;
  const auto compute = [&](absl::FunctionRef<void()>) -> absl::StatusOr<InputScaling> {
    ++computed;
    return scaling;
  };
  const KeptScaling kept(cache.path(), origin);
  EXPECT_FALSE(kept.Find().has_value());
  EXPECT_TRUE(kept.FindOrMake(compute).value() == scaling);
  EXPECT_TRUE(kept.FindOrMake(compute).value() == scaling);
  EXPECT_EQ(computed, 1);
  const std::string path = cache.Path(ListDirectory(cache.path()).value().at(0));
  const std::string text = ReadFile(path).value();
  EXPECT_THAT(text, StartsWith(absl::StrCat("samples ", origin.key, ", the first 7, bytes, 2 channels\n")));
  for (size_t at = 0; at < text.size(); ++at) {
    std::string changed = text;
    changed[at] ^= 1;
    ASSERT_TRUE(WriteFileAtomically(path, changed).ok());
    EXPECT_FALSE(kept.Find().has_value()) << at;
    ASSERT_TRUE(WriteFileAtomically(path, text.substr(0, at)).ok());
    EXPECT_FALSE(kept.Find().has_value()) << at;
  }
  KeptScaling::Origin other = origin;
  other.samples = 8;
  EXPECT_FALSE(KeptScaling(cache.path(), other).Find().has_value());
  const auto fails = [](absl::FunctionRef<void()>) -> absl::StatusOr<InputScaling> {
    return absl::DataLossError("sample 3");
  };
  EXPECT_EQ(KeptScaling(cache.path(), other).FindOrMake(fails).status().message(), "sample 3");
}

}  // namespace
}  // namespace tethys
