// TFRecord files that TensorFlow 2 wrote are read, and damaged ones refused. The reference files hold samples
// of [4, 5, 3] bytes; value k of sample i is 7 i + k, its label i. Their features are named as in
// TensorFlow's scripts for ImageNet: "image/encoded" and "image/class/label".
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "proto/example.pb.h"
#include "runtime/base/crc32c.h"
#include "runtime/data/dataset.h"
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

// A sample of [2, 2] bytes with its label, in features "image" and "label".
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
    std::vector<uint8_t> values(data->train->sample_elements());
    std::vector<int32_t> labels(data->train->label_format().elements());
    return std::string(data->train->Read(index, values.data(), labels.data()).message());
  }

  const testing::TempDirectory directory_;
};

TEST_F(TfrecordTest, FilesOfTensorFlowHaveItsSamples) {
  testing::ExpectReferenceSamples(
      *LoadDatasets(ReferenceJob("tensorflow_raw.tfrecord", {4, 5, 3})).value().train);
  testing::ExpectReferenceSamples(*LoadDatasets(ReferenceJob("tensorflow_png.tfrecord", {})).value().train);
  testing::ExpectReferenceSamples(
      *LoadDatasets(ReferenceJob("tensorflow_png.tfrecord", {4, 5, 3})).value().train);
}

TEST_F(TfrecordTest, SeveralFilesAreOnePartAndRecordsMayBeOfAnyLength) {
  proto::Job job;
  job.mutable_data()->set_classes(10);
  std::string content;
  for (int i = 0; i < 5; ++i) {  // Together more than one block of the reader of lengths.
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

TEST_F(TfrecordTest, AsManyLabelsAsPixelsAreAMap) {
  const proto::Job job = JobOf(Record(Sample("abcd", {1, 2, 3, 4})));
  const Datasets data = LoadDatasets(job).value();
  EXPECT_EQ(data.train->label_format().shape, (Shape{2, 2}));
  int32_t labels[4];
  ASSERT_TRUE(data.train->ReadLabels(0, labels).ok());
  EXPECT_THAT(labels, ::testing::ElementsAre(1, 2, 3, 4));
}

TEST_F(TfrecordTest, EveryCutAndEveryChangedByteIsFound) {
  const std::string good = Record(Sample("abcd", {1})) + Record(Sample("efgh", {2}));
  const size_t first = good.size() / 2;
  for (size_t size = 1; size < good.size(); ++size) {
    if (size == first) continue;  // One whole record.
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

TEST_F(TfrecordTest, LengthsThatLieAreRefusedWithoutMemory) {
  for (const uint64_t length : {uint64_t{1} << 62, ~uint64_t{0}, uint64_t{1000}}) {
    const std::string head = LittleEndian(length, 8);
    EXPECT_THAT(ErrorOf(JobOf(head + LittleEndian(MaskedCrc32c(head), 4) + std::string(20, 'x'))),
                HasSubstr("record 0 has"));
  }
}

TEST_F(TfrecordTest, MistakesInFeaturesAreNamed) {
  const std::string good = Record(Sample("abcd", {1}));
  proto::Job job = JobOf(good);
  job.mutable_data()->mutable_tfrecord()->set_label_feature("class");
  EXPECT_THAT(ErrorOf(job), AllOf(HasSubstr("record 0 has no feature \"class\" but \"image\", \"label\""),
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
              HasSubstr("holds 2 integers, expected are 1"));
  EXPECT_THAT(ErrorOf(JobOf(good + Record("\xff\xff")), 1), HasSubstr("record 1 is no tf.Example message"));
  EXPECT_THAT(ErrorOf(JobOf("\x1f\x8b" + good)), HasSubstr("a gzipped TFRecord file"));
}

}  // namespace
}  // namespace tethys
