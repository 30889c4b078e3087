#include "deploy/data_files/sample_writer.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <memory>
#include <tuple>
#include <vector>

#include "absl/strings/str_join.h"
#include "runtime/data/dataset.h"
#include "tests/testing/temp_directory.h"

namespace tethys {
namespace {

using ::testing::HasSubstr;

struct Sample {
  std::vector<uint8_t> values;
  std::vector<int32_t> labels;
  bool operator==(const Sample&) const = default;
};

int32_t BitsOf(float value) {
  int32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

std::vector<Sample> MakeSamples(const SampleSpec& spec, int64_t classes) {
  std::vector<Sample> samples(7);
  for (size_t i = 0; i < samples.size(); ++i) {
    for (int64_t j = 0; j < spec.elements(); ++j) {
      const auto byte = static_cast<uint8_t>(31 * i + 5 * j);
      const float number =
          std::ldexp(1.0f / (1 + byte), static_cast<int>(j % 120) - 60) * (j % 2 == 0 ? 1 : -1);
      const auto* const bytes = reinterpret_cast<const uint8_t*>(&number);
      if (spec.type == ValueType::kByte)
        samples[i].values.push_back(byte);
      else
        samples[i].values.insert(samples[i].values.end(), bytes, bytes + sizeof(number));
    }
    for (int64_t j = 0; j < spec.labels.elements(); ++j) {
      samples[i].labels.push_back(spec.labels.targets
                                      ? BitsOf(0.5f * static_cast<float>(i) - static_cast<float>(j))
                                      : static_cast<int32_t>((i + j) % classes));
    }
  }
  return samples;
}

class SampleWriterTest : public ::testing::Test {
 protected:
  PartToWrite PartOf(const SampleSpec& spec, int64_t classes) const {
    return {.folder = directory_.path(), .name = "train", .spec = spec, .samples = 7, .classes = classes};
  }

  // Writes `samples` in the format `name`, and reads them again as the data of a job.
  std::vector<Sample> RoundTrip(const std::string& name, const PartToWrite& part,
                                const std::vector<Sample>& samples) {
    const WriterFormat& format = *FindWriterFormat(name).value();
    EXPECT_TRUE(CheckFormat(format, part).ok()) << CheckFormat(format, part);
    const std::unique_ptr<SampleWriter> writer = format.create(part).value();
    for (const Sample& sample : samples) {
      EXPECT_TRUE(writer->Add(sample.values.data(), sample.labels.data()).ok());
    }
    EXPECT_TRUE(writer->Commit().ok());
    proto::Job job;
    if (part.spec.labels.targets) {
      job.mutable_model()->mutable_loss()->mutable_mean_squared_error();
    } else {
      job.mutable_data()->set_classes(part.classes);
    }
    format.describe(part, *job.mutable_data());
    const absl::StatusOr<Datasets> datasets = LoadDatasets(job);
    EXPECT_TRUE(datasets.ok()) << datasets.status();
    if (!datasets.ok()) return {};
    const Dataset& dataset = *datasets->train;
    EXPECT_EQ(dataset.spec(), part.spec);
    std::vector<Sample> read(dataset.size(), {std::vector<uint8_t>(part.spec.bytes()),
                                              std::vector<int32_t>(part.spec.labels.elements())});
    for (int64_t i = 0; i < dataset.size(); ++i) {
      EXPECT_TRUE(dataset.Read(i, read[i].values.data(), read[i].labels.data()).ok());
    }
    return read;
  }

  static std::string ErrorOf(const char* name, const PartToWrite& part) {
    return std::string(CheckFormat(**FindWriterFormat(name), part).message());
  }

  bool Empty() const { return std::filesystem::is_empty(directory_.path()); }

  const testing::TempDirectory directory_;
};

TEST_F(SampleWriterTest, EachFormatWritesEveryKindOfLabelThatItAccepts) {
  for (const SampleSpec& spec : {SampleSpec{.shape = {4, 3, 3}}, SampleSpec{.shape = {4, 3}},
                                 SampleSpec{.shape = {4, 3, 2}, .labels = {.shape = {4, 3}}},
                                 SampleSpec{.shape = {4, 3}, .labels = {.shape = {2}, .targets = true}}}) {
    const std::vector<Sample> samples = MakeSamples(spec, 5);
    for (const char* name : {"idx", "npy", "tfrecord"}) {
      SCOPED_TRACE(absl::StrCat(name, " ", ShapeText(spec.shape), " with ", LabelText(spec.labels)));
      EXPECT_EQ(RoundTrip(name, PartOf(spec, spec.labels.targets ? 0 : 5), samples), samples);
    }
  }
}

TEST_F(SampleWriterTest, CsvAcceptsOneClassOrARowOfTargetsPerSampleButNotAClassPerPixel) {
  for (const SampleSpec& spec : {SampleSpec{.shape = {4, 3, 3}}, SampleSpec{.shape = {12}},
                                 SampleSpec{.shape = {4, 3}, .labels = {.targets = true}},
                                 SampleSpec{.shape = {4, 3}, .labels = {.shape = {2}, .targets = true}}}) {
    const std::vector<Sample> samples = MakeSamples(spec, 5);
    EXPECT_EQ(RoundTrip("csv", PartOf(spec, spec.labels.targets ? 0 : 5), samples), samples);
  }
  const SampleSpec maps = {.shape = {4, 3}, .labels = {.shape = {4, 3}}};
  EXPECT_THAT(ErrorOf("csv", PartOf(maps, 5)), HasSubstr("a line holds one class, or a row of targets"));
}

TEST_F(SampleWriterTest, FloatsAreWrittenExactlyOrRefused) {
  const SampleSpec spec = {.shape = {32, 32, 3}, .type = ValueType::kFloat};
  const std::vector<Sample> samples = MakeSamples(spec, 5);
  for (const char* name : {"csv", "idx", "npy", "tfrecord"})
    EXPECT_EQ(RoundTrip(name, PartOf(spec, 5), samples), samples);
  for (const char* name : {"cifar", "image_folder"}) {
    EXPECT_THAT(ErrorOf(name, PartOf(spec, 5)), HasSubstr("float32"));
  }
}

TEST_F(SampleWriterTest, ManyClassesAreAcceptedByCsvNpyAndTfrecord) {
  const SampleSpec spec = {.shape = {2, 2}};
  std::vector<Sample> samples = MakeSamples(spec, 5);
  samples[3].labels = {999};
  for (const char* name : {"csv", "npy", "tfrecord"})
    EXPECT_EQ(RoundTrip(name, PartOf(spec, 1000), samples), samples);
  EXPECT_THAT(ErrorOf("idx", PartOf(spec, 1000)), HasSubstr("labels are bytes, but data.classes is 1000"));
}

TEST_F(SampleWriterTest, TfrecordFilesContainConsecutiveSamples) {
  const SampleSpec spec = {.shape = {2, 2, 3}};
  const std::vector<Sample> samples = MakeSamples(spec, 5);
  PartToWrite part = PartOf(spec, 5);
  part.files = 3;
  part.raw = true;
  EXPECT_EQ(RoundTrip("tfrecord", part, samples), samples);
  EXPECT_TRUE(std::filesystem::exists(part.Path("-00002-of-00003.tfrecord")));
  part.files = 8;
  EXPECT_THAT(ErrorOf("tfrecord", part), HasSubstr("--files is 8, but must be"));
}

TEST_F(SampleWriterTest, CifarAcceptsItsOwnShapeOnly) {
  const SampleSpec spec = {.shape = {32, 32, 3}};
  const std::vector<Sample> samples = MakeSamples(spec, 5);
  EXPECT_EQ(RoundTrip("cifar", PartOf(spec, 5), samples), samples);
  EXPECT_THAT(ErrorOf("cifar", PartOf({.shape = {32, 32}}, 5)),
              HasSubstr("these are bytes [32, 32] with a class"));
}

TEST_F(SampleWriterTest, FoldersContainThePicturesOfEveryClass) {
  const SampleSpec spec = {.shape = {4, 3, 3}};
  const std::vector<Sample> samples = MakeSamples(spec, 5);
  EXPECT_THAT(RoundTrip("image_folder", PartOf(spec, 5), samples),
              ::testing::UnorderedElementsAreArray(samples));
  EXPECT_THAT(ErrorOf("image_folder", PartOf({.shape = {4, 3, 2}}, 5)),
              HasSubstr("samples must be pictures"));
}

TEST_F(SampleWriterTest, FoldersAreNamedAfterTheirClasses) {
  const SampleSpec spec = {.shape = {4, 3, 3}};
  const std::vector<Sample> samples = MakeSamples(spec, 3);
  const auto folders = [&](const std::vector<std::string>& names) {
    PartToWrite part = PartOf(spec, 3);
    part.class_names = names;
    // Whatever the folders' names, the samples must have the same classes when they are read again.
    EXPECT_THAT(RoundTrip("image_folder", part, samples), ::testing::UnorderedElementsAreArray(samples));
    std::vector<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator(part.Path(""))) {
      found.push_back(entry.path().filename().string());
    }
    std::filesystem::remove_all(part.Path(""));
    std::sort(found.begin(), found.end());
    return absl::StrJoin(found, " ");
  };
  EXPECT_EQ(folders({"cat", "dog", "eel"}), "cat dog eel");
  EXPECT_EQ(folders({"dog", "cat", "eel"}), "0-dog 1-cat 2-eel")
      << "the order of the names is not that of the classes";
  EXPECT_EQ(folders({"a/b", "c", "d"}), "0 1 2") << "no folder can have such a name";
  EXPECT_EQ(folders({}), "0 1 2");
}

TEST_F(SampleWriterTest, RefusalNamesFormatsThatCanHoldTheSamples) {
  const char* const kNames[] = {"cifar", "csv", "idx", "image_folder", "npy", "tfrecord"};
  for (const auto& [spec, classes, formats] : std::vector<std::tuple<SampleSpec, int64_t, std::string>>{
           {{.shape = {4}, .type = ValueType::kFloat}, 5, "csv or npy"},
           {{.shape = {4, 3}, .labels = {.shape = {4, 3}}}, 5, "idx or npy or tfrecord"},
           {{.shape = {2, 2, 2, 2}}, 1000, "csv or npy"},
           {{.shape = {4, 3}, .labels = {.shape = {2, 2}, .targets = true}}, 0, "idx or npy"},
           {{.shape = {32, 32, 3}}, 1000, "csv or image_folder or npy or tfrecord"}}) {
    const PartToWrite part = PartOf(spec, classes);
    std::vector<std::string> holding;
    for (const char* name : kNames) {
      const std::string error = ErrorOf(name, part);
      if (error.empty()) {
        holding.emplace_back(name);
      } else {
        EXPECT_THAT(error, ::testing::EndsWith(": choose " + formats)) << name;
      }
    }
    EXPECT_EQ(absl::StrJoin(holding, " or "), formats);
  }
}

TEST_F(SampleWriterTest, UncommittedFilesAreRemoved) {
  const SampleSpec spec = {.shape = {32, 32, 3}};
  const std::vector<Sample> samples = MakeSamples(spec, 5);
  for (const char* name : {"cifar", "csv", "idx", "image_folder", "npy", "tfrecord"}) {
    auto writer = (*FindWriterFormat(name))->create(PartOf(spec, 5)).value();
    EXPECT_TRUE(writer->Add(samples[0].values.data(), samples[0].labels.data()).ok());
    EXPECT_FALSE(Empty()) << name;
    writer.reset();
    EXPECT_TRUE(Empty()) << name;
  }
  // A folder in which a class has no image could not be read.
  auto writer = (*FindWriterFormat("image_folder"))->create(PartOf(spec, 5)).value();
  EXPECT_TRUE(writer->Add(samples[0].values.data(), samples[0].labels.data()).ok());
  EXPECT_THAT(std::string(writer->Commit().message()),
              ::testing::AllOf(HasSubstr("no training sample is of class 1"),
                               ::testing::EndsWith(": choose cifar or csv or idx or npy or tfrecord")));
}

TEST_F(SampleWriterTest, LabelsTooLargeForTheFormatAreRefused) {
  const SampleSpec spec = {.shape = {32, 32, 3}};
  Sample sample = MakeSamples(spec, 5)[0];
  sample.labels = {1000};  // A label that the loss ignores.
  for (const char* name : {"cifar", "idx", "image_folder"}) {
    auto writer = (*FindWriterFormat(name))->create(PartOf(spec, 5)).value();
    EXPECT_THAT(std::string(writer->Add(sample.values.data(), sample.labels.data()).message()),
                ::testing::AllOf(HasSubstr("a sample has label 1000"),
                                 ::testing::EndsWith(": choose csv or npy or tfrecord")));
  }
  EXPECT_THAT(std::string(FindWriterFormat("png").status().message()),
              HasSubstr("'png' is not a format that can be written: name one of cifar, csv, idx"));
}

}  // namespace
}  // namespace tethys
