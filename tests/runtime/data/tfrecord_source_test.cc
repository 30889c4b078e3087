// Tests that TFRecord files written by TensorFlow 2 are read, and that damaged files are refused. The
// reference files hold samples of [4, 5, 3] bytes; value k of sample i is 7 i + k, and the label of sample i
// is i. Features are named as in TensorFlow's scripts for ImageNet: "image/encoded" and "image/class/label".
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "proto/example.pb.h"
#include "runtime/base/crc32c.h"
#include "runtime/data/dataset.h"
#include "runtime/data/tfrecord_file.h"
#include "tests/runtime/data/idx_files.h"
#include "tests/runtime/data/picture_files.h"
#include "tests/runtime/data/reference_samples.h"
#include "tests/testing/temp_directory.h"

namespace tethys {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string LittleEndian(uint64_t number, int bytes) {
  return std::string(reinterpret_cast<const char*>(&number), bytes);
}

std::string Record(const std::string& payload) {
  const std::string length = LittleEndian(payload.size(), 8);
  return length + LittleEndian(MaskedCrc32c(length), 4) + payload + LittleEndian(MaskedCrc32c(payload), 4);
}

// A record of a sample of [2, 2] bytes with its label, in the features "image" and "label".
std::string Sample(const std::string& image, const std::vector<int64_t>& labels) {
  proto::Example example;
  auto& features = *example.mutable_features()->mutable_feature();
  features["image"].mutable_bytes_list()->add_value(image);
  for (const int64_t label : labels) features["label"].mutable_int64_list()->add_value(label);
  return example.SerializeAsString();
}

class TfrecordTest : public ::testing::Test {
 protected:
  proto::Job JobOf(const std::string& content, const Shape& shape = {2, 2}) {
    proto::Job job;
    job.mutable_data()->set_classes(10);
    job.mutable_data()->set_cache_dir(directory_.Path("cache"));
    auto& tfrecord = *job.mutable_data()->mutable_tfrecord();
    tfrecord.add_train(directory_.Write("a.tfrecord", content));
    for (const int64_t side : shape) tfrecord.add_shape(side);
    return job;
  }
  static proto::Job ReferenceJob(const std::string& name, const Shape& shape) {
    proto::Job job;
    job.mutable_data()->set_classes(10);
    auto& tfrecord = *job.mutable_data()->mutable_tfrecord();
    tfrecord.add_train(testing::ReferenceFile(name));
    tfrecord.set_image_feature("image/encoded");
    tfrecord.set_label_feature("image/class/label");
    for (const int64_t side : shape) tfrecord.add_shape(side);
    return job;
  }
  static std::string ErrorOf(const proto::Job& job) {
    return std::string(LoadDatasets(job).status().message());
  }
  // The error of reading sample `index`.
  static std::string ErrorOf(const proto::Job& job, int64_t index) {
    const absl::StatusOr<Datasets> data = LoadDatasets(job);
    if (!data.ok()) return absl::StrCat("not opened: ", data.status().message());
    std::vector<uint8_t> values(data->train->sample_bytes());
    std::vector<int32_t> labels(data->train->label_format().elements());
    return std::string(data->train->Read(index, values.data(), labels.data()).message());
  }

  const testing::TempDirectory directory_;
};

TEST_F(TfrecordTest, FilesWrittenByTensorFlowAreRead) {
  testing::ExpectReferenceSamples(
      *LoadDatasets(ReferenceJob("tensorflow_raw.tfrecord", {4, 5, 3})).value().train);
  testing::ExpectReferenceSamples(*LoadDatasets(ReferenceJob("tensorflow_png.tfrecord", {})).value().train);
  testing::ExpectReferenceSamples(
      *LoadDatasets(ReferenceJob("tensorflow_png.tfrecord", {4, 5, 3})).value().train);
}

TEST_F(TfrecordTest, FloatListsAreReadAsSampleValuesWithoutScaling) {
  const auto sample = [](const std::vector<float>& values) {
    proto::Example example;
    TETHYS_CHECK(example.ParseFromString(Sample("", {3})));
    proto::Feature& image = (*example.mutable_features()->mutable_feature())["image"];
    image.mutable_float_list()->mutable_value()->Assign(values.begin(), values.end());
    return Record(example.SerializeAsString());
  };
  const std::string good = sample({0.5f, -1, 2, 1e9f});
  const Datasets data = LoadDatasets(JobOf(good)).value();
  EXPECT_EQ(data.train->spec(), (SampleSpec{.shape = {2, 2}, .type = ValueType::kFloat}));
  float values[4];
  ASSERT_TRUE(data.train->ReadValues(0, reinterpret_cast<uint8_t*>(values)).ok());
  EXPECT_THAT(values, ::testing::ElementsAre(0.5f, -1, 2, 1e9f));
  EXPECT_THAT(ErrorOf(JobOf(good, {})), HasSubstr("holds 4 floats: give their shape"));
  EXPECT_THAT(ErrorOf(JobOf(good, {2, 3}), 0),
              HasSubstr("holds 4 floats, but data.tfrecord.shape is [2, 3]"));
  EXPECT_THAT(ErrorOf(JobOf(good + sample({1, 2, 3, HUGE_VALF})), 1),
              AllOf(HasSubstr("a.tfrecord, record 1"), HasSubstr("value 3 is inf")));
  EXPECT_THAT(ErrorOf(JobOf(good + Record(Sample("abcd", {3}))), 1),
              HasSubstr("record 1: feature \"image\" holds 1 string of bytes, but data.tfrecord.shape is [2, "
                        "2] of floats"));
}

TEST_F(TfrecordTest, SeveralFilesAreReadAsOneSplitWithRecordsOfAnyLength) {
  proto::Job job;
  job.mutable_data()->set_classes(10);
  std::string content;
  for (int i = 0; i < 5; ++i) {  // Records are longer than the blocks in which their lengths are read.
    proto::Example example;
    TETHYS_CHECK(example.ParseFromString(Sample(std::string(4, static_cast<char>(i)), {i})));
    (*example.mutable_features()->mutable_feature())["text"].mutable_bytes_list()->add_value(
        std::string(i * 30'000, 'x'));
    content += Record(example.SerializeAsString());
  }
  auto& tfrecord = *job.mutable_data()->mutable_tfrecord();
  directory_.Write("part-0", content);
  directory_.Write("part-1", Record(Sample("\5\5\5\5", {5})));
  tfrecord.add_train(directory_.Path("part-*"));
  tfrecord.add_shape(2);
  tfrecord.add_shape(2);
  const Datasets data = LoadDatasets(job).value();
  ASSERT_EQ(data.train->size(), 6);
  EXPECT_THAT(data.file_samples, ::testing::ElementsAre(5, 1));
  for (int i = 5; i >= 0; --i) {
    uint8_t values[4];
    int32_t label = -1;
    ASSERT_TRUE(data.train->Read(i, values, &label).ok());
    EXPECT_EQ(label, i);
    EXPECT_THAT(values, ::testing::Each(i));
  }
}

TEST_F(TfrecordTest, AsManyLabelsAsPixelsFormALabelMap) {
  const proto::Job job = JobOf(Record(Sample("abcd", {1, 2, 3, 4})));
  const Datasets data = LoadDatasets(job).value();
  EXPECT_EQ(data.train->label_format().shape, (Shape{2, 2}));
  int32_t labels[4];
  ASSERT_TRUE(data.train->ReadLabels(0, labels).ok());
  EXPECT_THAT(labels, ::testing::ElementsAre(1, 2, 3, 4));
}

TEST_F(TfrecordTest, EveryTruncationAndEveryChangedByteIsDetected) {
  const std::string good = Record(Sample("abcd", {1})) + Record(Sample("efgh", {2}));
  const size_t first = good.size() / 2;
  for (size_t size = 1; size < good.size(); ++size) {
    if (size == first) continue;  // At this size the file has one whole record.
    EXPECT_THAT(ErrorOf(JobOf(good.substr(0, size))), HasSubstr("a.tfrecord")) << size;
  }
  for (size_t at = 0; at < good.size(); ++at) {
    std::string changed = good;
    changed[at] = static_cast<char>(changed[at] ^ 0x10);
    EXPECT_THAT(ErrorOf(JobOf(changed), at < first ? 0 : 1),
                AllOf(HasSubstr("a.tfrecord"), HasSubstr("checksum")))
        << at;
  }
}

TEST_F(TfrecordTest, RecordLengthsBeyondTheEndOfTheFileAreRefusedWithoutAllocation) {
  for (const uint64_t length : {uint64_t{1} << 62, ~uint64_t{0}, uint64_t{1000}}) {
    const std::string head = LittleEndian(length, 8);
    EXPECT_THAT(ErrorOf(JobOf(head + LittleEndian(MaskedCrc32c(head), 4) + std::string(20, 'x'))),
                HasSubstr("record 0 has"));
  }
}

TEST_F(TfrecordTest, ErrorNamesFeaturesThatAreMissingOrHaveWrongSizes) {
  const std::string good = Record(Sample("abcd", {1}));
  proto::Job job = JobOf(good);
  job.mutable_data()->mutable_tfrecord()->set_label_feature("class");
  EXPECT_THAT(ErrorOf(job),
              AllOf(HasSubstr("record 0 has no feature \"class\": the record has only \"image\", \"label\""),
                    HasSubstr("data.tfrecord.label_feature")));
  EXPECT_THAT(ErrorOf(JobOf(good, {3, 3})),
              AllOf(HasSubstr("\"image\" holds 4 bytes"), HasSubstr("data.tfrecord.shape")));
  EXPECT_THAT(ErrorOf(JobOf(good, {})), HasSubstr("give their shape in data.tfrecord.shape"));
  EXPECT_THAT(ErrorOf(JobOf(good + Record(Sample("abc", {1}))), 1),
              HasSubstr("record 1: feature \"image\" holds 3 bytes"));
  EXPECT_THAT(ErrorOf(JobOf(good + Record(Sample("abcd", {10}))), 1),
              HasSubstr("record 1: feature \"label\" holds 10"));
  EXPECT_THAT(ErrorOf(JobOf(good + Record(Sample("abcd", {}))), 1),
              HasSubstr("record 1 has no feature \"label\""));
  EXPECT_THAT(ErrorOf(JobOf(good + Record(Sample("abcd", {1, 2}))), 1),
              HasSubstr("holds 2 integers, but must hold 1"));
  EXPECT_THAT(ErrorOf(JobOf(good + Record("\xff\xff")), 1), HasSubstr("record 1 is no tf.Example message"));
}

TEST_F(TfrecordTest, FeaturesOfWrongTypesAreRefusedNamingTheirContents) {
  const auto with = [](const char* feature, const proto::Feature& content) {
    proto::Example example;
    TETHYS_CHECK(example.ParseFromString(Sample("abcd", {1})));
    (*example.mutable_features()->mutable_feature())[feature] = content;
    return Record(example.SerializeAsString());
  };
  proto::Feature word, floats, integers;
  word.mutable_bytes_list()->add_value("cat");
  floats.mutable_float_list()->add_value(1);
  for (int i = 0; i < 12; ++i) integers.mutable_int64_list()->add_value(i);
  EXPECT_THAT(ErrorOf(JobOf(with("label", word))),
              AllOf(HasSubstr("record 0: feature \"label\" holds 1 string of bytes, but must hold 1"),
                    HasSubstr("write the number of the class in an int64_list")));
  EXPECT_THAT(ErrorOf(JobOf(with("label", floats))),
              HasSubstr("feature \"label\" holds 1 float, but must hold 1 (classes as integers)"));
  EXPECT_THAT(ErrorOf(JobOf(with("label", {}))), HasSubstr("feature \"label\" holds nothing"));
  EXPECT_THAT(ErrorOf(JobOf(with("image", integers))),
              AllOf(HasSubstr("record 0: feature \"image\" holds 12 integers: the feature must hold floats "
                              "or one string of bytes"),
                    HasSubstr("(a PNG or JPEG file, or raw values)")));
  proto::Job job = JobOf(with("label", integers));
  job.mutable_model()->mutable_loss()->mutable_mean_squared_error();
  EXPECT_THAT(ErrorOf(job), AllOf(HasSubstr("feature \"label\" holds 12 integers, but must hold 1 (float32"),
                                  HasSubstr("write them in a float_list")));
}

TEST_F(TfrecordTest, LastOfSeveralFeaturesOfOneNameIsUsed) {
  // Two serialized messages of Protobuf in a row form one message.
  const Datasets data = LoadDatasets(JobOf(Record(Sample("abcd", {1}) + Sample("efgh", {2})))).value();
  uint8_t values[4];
  int32_t label = 0;
  ASSERT_TRUE(data.train->Read(0, values, &label).ok());
  EXPECT_THAT(values, ::testing::ElementsAre('e', 'f', 'g', 'h'));
  EXPECT_EQ(label, 2);
}

TEST_F(TfrecordTest, MissingFeatureIsNotTakenFromThePreviousRecord) {
  const std::string good = Record(Sample("abcd", {1}));
  EXPECT_THAT(ErrorOf(JobOf(good + Record(Sample("efgh", {}))), 1),
              HasSubstr("record 1 has no feature \"label\": the record has only \"image\""));
  proto::Example example;
  TETHYS_CHECK(example.ParseFromString(Sample("efgh", {2})));
  (*example.mutable_features()->mutable_feature())["label"].clear_int64_list();
  EXPECT_THAT(ErrorOf(JobOf(good + Record(example.SerializeAsString())), 1),
              HasSubstr("record 1: feature \"label\" holds nothing"));
}

TEST_F(TfrecordTest, FeatureWithValuesOfSeveralTypesIsRefused) {
  proto::RecordedExample example;
  TETHYS_CHECK(example.ParseFromString(Sample("abcd", {1})));
  for (proto::RecordedEntry& entry : *example.mutable_features()->mutable_feature()) {
    if (entry.key() == "label") entry.mutable_value()->mutable_float_list()->add_value(1);
  }
  EXPECT_THAT(ErrorOf(JobOf(Record(example.SerializeAsString()))),
              HasSubstr("record 0: feature \"label\" holds values of several types"));
}

// ------------------------------------------------------------------------------------------ gzipped files

TEST_F(TfrecordTest, GzippedFileHasTheSamplesOfThePlainFile) {
  std::string content;
  for (int i = 0; i < 10; ++i) content += Record(Sample(std::string(4, static_cast<char>(i)), {i}));
  const std::string half = content.substr(0, content.size() / 2);
  // A gzip file may have several streams in a row.
  for (const std::string& packed :
       {testing::Gzip(content), testing::Gzip(half) + testing::Gzip(content.substr(half.size()))}) {
    const Datasets data = LoadDatasets(JobOf(packed)).value();
    ASSERT_EQ(data.train->size(), 10);
    uint8_t values[4];
    ASSERT_TRUE(data.train->ReadValues(7, values).ok());
    EXPECT_THAT(values, ::testing::Each(7));
  }
}

TEST_F(TfrecordTest, DamagedGzipNamesTheFileAndLeavesNoCacheEntry) {
  const std::string packed = testing::Gzip(Record(Sample("abcd", {1})));
  for (size_t size = 2; size < packed.size(); ++size) {
    EXPECT_THAT(ErrorOf(JobOf(packed.substr(0, size))),
                AllOf(HasSubstr("a.tfrecord"), HasSubstr("truncated")))
        << size;
  }
  std::string changed = packed;
  changed[packed.size() - 6] ^= 1;  // Flips a bit of the checksum.
  for (const std::string& damaged : {changed, packed + "more"}) {
    EXPECT_THAT(ErrorOf(JobOf(damaged)), AllOf(HasSubstr("a.tfrecord"), HasSubstr("gzip stream is damaged")));
  }
  EXPECT_THAT(ErrorOf(JobOf(testing::Gzip(""))),
              HasSubstr("a.tfrecord: the file is empty: its gzip stream holds nothing"));
  EXPECT_THAT(ListDirectory(directory_.Path("cache")).value(), ::testing::IsEmpty());
  // The gzip stream is whole, but the file in it is damaged.
  EXPECT_THAT(ErrorOf(JobOf(testing::Gzip("no records"))),
              AllOf(HasSubstr("a.tfrecord (unpacked"), HasSubstr("cut")));
}

TEST_F(TfrecordTest, DamageInAnUnpackedCacheFileIsAnErrorAndTheFileIsMadeAnew) {
  const proto::Job job = JobOf(testing::Gzip(Record(Sample("abcd", {1}))));
  ASSERT_TRUE(LoadDatasets(job).ok());
  const std::string cache = directory_.Path("cache"), unpacked = ListDirectory(cache).value().at(0);
  std::fstream(absl::StrCat(cache, "/", unpacked), std::ios::binary | std::ios::in | std::ios::out)
      .seekp(20)
      .put('?');
  EXPECT_THAT(ErrorOf(job), AllOf(HasSubstr(unpacked), HasSubstr("record 0: the checksum is wrong"),
                                  HasSubstr("start the job again")));
  EXPECT_TRUE(LoadDatasets(job).ok());
}

// ------------------------------------------------------------------------------------------ the index

class RecordIndexTest : public TfrecordTest {
 protected:
  // A job on records that are together large enough to be indexed.
  proto::Job LargeJob() {
    std::string content;
    proto::Example example;
    for (int i = 0; static_cast<int64_t>(content.size()) < RecordFile::kLeastIndexed; ++i) {
      TETHYS_CHECK(example.ParseFromString(Sample(std::string(4, static_cast<char>(i)), {i % 10})));
      (*example.mutable_features()->mutable_feature())["text"].mutable_bytes_list()->add_value(
          std::string(i % 7 * 30'000, 'x'));
      content += Record(example.SerializeAsString());
      records_ = i + 1;
    }
    return JobOf(content);
  }
  void ExpectSamples(const proto::Job& job) {
    const auto data = LoadDatasets(job);
    ASSERT_TRUE(data.ok()) << data.status();
    ASSERT_EQ(data->train->size(), records_);
    for (int i = 0; i < records_; ++i) {
      uint8_t values[4];
      int32_t label = -1;
      ASSERT_TRUE(data->train->Read(i, values, &label).ok());
      EXPECT_EQ(label, i % 10);
      EXPECT_THAT(values, ::testing::Each(i));
    }
  }
  std::vector<std::string> Names() { return ListDirectory(directory_.Path("cache")).value(); }

  int records_ = 0;
};

TEST_F(RecordIndexTest, IndexIsReadInPlaceOfTheRecordsWhenAFileIsOpenedAgain) {
  const proto::Job job = LargeJob();
  ExpectSamples(job);
  ASSERT_THAT(Names(), ::testing::ElementsAre(::testing::StartsWith("records-")));
  // The index is changed so that it lacks the last record. The source uses this index and does not read the
  // lengths of the records again.
  const std::string path = directory_.Path("cache/" + Names().at(0)), index = ReadFile(path).value();
  const auto* const bytes = reinterpret_cast<const uint8_t*>(index.data());
  RecordIndexContent content =
      ParseRecordIndexHeader({bytes, index.size()}, static_cast<int64_t>(index.size())).value();
  --content.records;
  const std::string places = index.substr(kRecordIndexHeader, content.records * sizeof(uint64_t));
  content.places_crc = Crc32c(places);
  ASSERT_TRUE(WriteFileAtomically(path, RecordIndexHeader(content) + places).ok());
  EXPECT_EQ(LoadDatasets(job).value().train->size(), records_ - 1);
}

TEST_F(RecordIndexTest, DamagedIndexIsMadeAnew) {
  const proto::Job job = LargeJob();
  ExpectSamples(job);
  const std::string path = directory_.Path("cache/" + Names().at(0)), good = ReadFile(path).value();
  for (size_t at = 0; at < good.size(); at += 5) {
    std::string damaged = good;
    damaged[at] ^= 4;
    ASSERT_TRUE(WriteFileAtomically(path, damaged).ok());
    ExpectSamples(job);
    EXPECT_EQ(ReadFile(path).value(), good) << at;
  }
  ASSERT_TRUE(WriteFileAtomically(path, good.substr(0, good.size() - 8)).ok());
  ExpectSamples(job);
}

TEST_F(RecordIndexTest, ChangedFileGetsANewIndex) {
  ExpectSamples(LargeJob());
  const proto::Job again = LargeJob();
  const std::string& path = again.data().tfrecord().train(0);
  std::filesystem::last_write_time(path, std::filesystem::last_write_time(path) + std::chrono::seconds(1));
  ExpectSamples(again);
  EXPECT_EQ(Names().size(), 2u);
}

TEST_F(RecordIndexTest, WithoutACacheDirectoryTheIndexIsHeldInMemory) {
  proto::Job job = LargeJob();
  job.mutable_data()->set_cache_dir(directory_.Write("file", "no folder") + "/below");
  ExpectSamples(job);
}

TEST_F(RecordIndexTest, RecordPositionsBeyondTheMemoryLimitAreReadFromTheIndex) {
  const proto::Job job = LargeJob();
  const auto open = [&](int64_t& room) {
    return RecordFile::Open(OpenFile(job.data().tfrecord().train(0)).value(), job.data().cache_dir(), room)
        .value();
  };
  int64_t much = records_ + 5, little = records_ - 1;
  const RecordFile held = open(much), indexed = open(little);
  EXPECT_EQ(much, 5);
  EXPECT_EQ(little, records_ - 1);
  for (int i = 0; i < records_; ++i) {
    const std::string payload(held.ReadPayload(i).value());
    EXPECT_EQ(indexed.ReadPayload(i).value(), payload) << i;
  }
  // Only `indexed` reads from the index.
  std::filesystem::resize_file(directory_.Path("cache/" + Names().at(0)), kRecordIndexHeader);
  EXPECT_TRUE(held.ReadPayload(0).ok());
  EXPECT_THAT(std::string(indexed.ReadPayload(0).status().message()), HasSubstr("records-"));
}

TEST_F(RecordIndexTest, ErrorNamesTheDamagedFileAndTheRecord) {
  proto::Job job = LargeJob();
  std::string content = ReadFile(job.data().tfrecord().train(0)).value();
  EXPECT_THAT(ErrorOf(JobOf(content.substr(0, content.size() - 1))), HasSubstr("a.tfrecord, record"));
  EXPECT_THAT(Names(), ::testing::IsEmpty());
}

// ------------------------------------------------------------------------------------------ resizing

TEST_F(TfrecordTest, PicturesOfDifferentSizesAreResizedToOneSize) {
  const auto picture = [](int64_t side, uint8_t value) {
    return testing::Png(std::vector<uint8_t>(side * side, value), side, side, 1);
  };
  const std::string content = Record(Sample(picture(2, 7), {0, 1, 2, 3})) +
                              Record(Sample(picture(4, 9), {4, 4, 5, 5, 4, 4, 5, 5, 6, 6, 7, 7, 6, 6, 7, 7}));
  EXPECT_THAT(ErrorOf(JobOf(content, {}), 1), HasSubstr("holds 16 integers, but must hold 4"));
  proto::Job job = JobOf(content, {});
  job.mutable_data()->mutable_resize()->set_height(2);
  job.mutable_data()->mutable_resize()->set_width(4);
  const Datasets data = LoadDatasets(job).value();
  ASSERT_EQ(data.train->sample_shape(), (Shape{2, 4}));
  ASSERT_EQ(data.train->label_format().shape, (Shape{2, 4}));
  uint8_t values[8];
  int32_t labels[8];
  ASSERT_TRUE(data.train->Read(0, values, labels).ok());
  EXPECT_THAT(values, ::testing::Each(7));
  EXPECT_THAT(labels, ::testing::ElementsAre(0, 0, 1, 1, 2, 2, 3, 3));
  ASSERT_TRUE(data.train->Read(1, values, labels).ok());
  EXPECT_THAT(values, ::testing::Each(9));
  EXPECT_THAT(labels, ::testing::ElementsAre(4, 4, 5, 5, 6, 6, 7, 7));
}

TEST_F(TfrecordTest, OnePictureInColourGivesAllSamplesThreeChannels) {
  const std::string grey = testing::Png({7, 7, 7, 7}, 2, 2, 1);
  const std::string red = testing::Png({9, 0, 0, 9, 0, 0, 9, 0, 0, 9, 0, 0}, 2, 2, 3);
  const Datasets data = LoadDatasets(JobOf(Record(Sample(grey, {1})) + Record(Sample(red, {2})), {})).value();
  EXPECT_EQ(data.train->sample_shape(), (Shape{2, 2, 3}));
  std::string content;
  for (int i = 0; i < 100; ++i) content += Record(Sample(grey, {1}));
  EXPECT_EQ(LoadDatasets(JobOf(content, {})).value().train->sample_shape(), (Shape{2, 2}));
  EXPECT_THAT(ErrorOf(JobOf(content + Record(Sample(red, {2})), {}), 100),
              AllOf(HasSubstr("record 100: feature \"image\" holds a picture in colour"),
                    HasSubstr("data.tfrecord.shape")));
}

TEST_F(TfrecordTest, FileOfAnotherFormatIsRefusedNamingTheFormat) {
  const char zlib[] = {
      0x78, static_cast<char>(0x9c), 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18};
  EXPECT_THAT(ErrorOf(JobOf(std::string(zlib, sizeof(zlib)))),
              HasSubstr("it is compressed by zlib: write it with GZIP"));
  EXPECT_THAT(ErrorOf(JobOf("<!DOCTYPE html><html><body>no such file</body></html>")),
              HasSubstr("it is an HTML page"));
  for (const auto& [image, name] :
       {std::pair{"GIF89a.........", "a GIF picture"}, {"RIFF....WEBPVP8 ", "a WebP picture"}}) {
    EXPECT_THAT(ErrorOf(JobOf(Record(Sample(image, {1})), {})),
                AllOf(HasSubstr(absl::StrCat("holds ", name)),
                      HasSubstr("PNG and JPEG are read: convert the picture")));
  }
}

TEST_F(TfrecordTest, EmptyFilesAreSkippedUnlessAllAreEmpty) {
  proto::Job job = JobOf(Record(Sample("abcd", {1})));
  job.mutable_data()->mutable_tfrecord()->set_train(0, directory_.Path("s-*-of-00004"));
  directory_.Write("s-00000-of-00004", Record(Sample("abcd", {1})));
  directory_.Write("s-00001-of-00004", "");
  directory_.Write("s-00003-of-00004", testing::Gzip(""));
  const DatasetSizes sizes = ReadDatasetSizes(job).value();
  EXPECT_EQ(sizes.train, 1);
  EXPECT_THAT(sizes.notes,
              ::testing::ElementsAre(HasSubstr("1 is missing: " + directory_.Path("s-00002-of-00004")),
                                     HasSubstr("2 of 3 files hold no samples")));
  directory_.Write("s-00000-of-00004", "");
  EXPECT_THAT(ErrorOf(job), HasSubstr("the 3 files from "));
}

TEST_F(TfrecordTest, RawImagesAndTheirLabelMapsAreResized) {
  proto::Job job = JobOf(Record(Sample(std::string("\0\100\200\300", 4), {1, 2, 3, 4})));
  job.mutable_data()->mutable_resize()->set_height(1);
  job.mutable_data()->mutable_resize()->set_width(4);
  const Datasets data = LoadDatasets(job).value();
  uint8_t values[4];
  int32_t labels[4];
  ASSERT_TRUE(data.train->Read(0, values, labels).ok());
  EXPECT_THAT(values, ::testing::ElementsAre(64, 80, 112, 128));
  EXPECT_THAT(labels, ::testing::ElementsAre(3, 3, 4, 4));
}

}  // namespace
}  // namespace tethys
