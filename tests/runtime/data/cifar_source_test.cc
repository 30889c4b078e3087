// Tests that files in CIFAR's binary version give the same samples as IDX files of the same images.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

#include "runtime/base/random.h"
#include "runtime/data/class_names.h"
#include "runtime/data/dataset.h"
#include "tests/runtime/data/idx_files.h"

namespace tethys {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int64_t kPixels = 32 * 32;

// Images of random bytes; image i has the labels i mod 20 and i mod 100.
class CifarTest : public ::testing::Test {
 protected:
  // Records of `count` samples from number `first` on, in the form of CIFAR-10 or of CIFAR-100.
  static std::string Records(int64_t first, int64_t count, bool of_100) {
    std::string bytes;
    for (int64_t i = first; i < first + count; ++i) {
      if (of_100) bytes.push_back(static_cast<char>(i % 20));
      bytes.push_back(static_cast<char>(of_100 ? i % 100 : i % 10));
      for (int64_t c = 0; c < 3; ++c) {
        for (int64_t pixel = 0; pixel < kPixels; ++pixel) bytes.push_back(Value(i, pixel, c));
      }
    }
    return bytes;
  }
  static char Value(int64_t image, int64_t pixel, int64_t channel) {
    return static_cast<char>(image * 31 + pixel * 7 + channel * 101);
  }
  proto::Job JobOf(const std::string& fields, int64_t classes) {
    proto::Job job;
    const std::string folder = directory_.path();
    auto& cifar = *job.mutable_data()->mutable_cifar();
    cifar.add_train(folder + "/data_batch_*.bin");
    if (fields == "test") cifar.add_test(folder + "/test_batch.bin");
    job.mutable_data()->set_classes(classes);
    return job;
  }
  static void ExpectSamples(const Dataset& dataset, int64_t first, int64_t classes) {
    std::vector<uint8_t> values(dataset.sample_elements());
    for (int64_t i = 0; i < dataset.size(); ++i) {
      ASSERT_TRUE(dataset.ReadValues(i, values.data()).ok());
      for (int64_t pixel = 0; pixel < kPixels; pixel += 97) {
        for (int64_t c = 0; c < 3; ++c) {
          ASSERT_EQ(values[pixel * 3 + c], static_cast<uint8_t>(Value(first + i, pixel, c))) << i;
        }
      }
      int32_t label = -1;
      ASSERT_TRUE(dataset.ReadLabels(i, &label).ok());
      EXPECT_EQ(label, (first + i) % classes);
    }
  }
  std::string ErrorOf(const proto::Job& job) { return std::string(LoadDatasets(job).status().message()); }

  const testing::TempDirectory directory_;
};

TEST_F(CifarTest, SeveralFilesAreReadAsOneSplitInTheOrderOfTheirNames) {
  directory_.Write("data_batch_1.bin", Records(0, 7, false));
  directory_.Write("data_batch_2.bin", Records(7, 5, false));
  directory_.Write("test_batch.bin", Records(12, 3, false));
  proto::Job job = JobOf("test", 10);
  job.mutable_data()->set_validation_samples(2);
  const auto sizes = ReadDatasetSizes(job);
  ASSERT_TRUE(sizes.ok()) << sizes.status();
  EXPECT_EQ(sizes->train, 10);
  EXPECT_EQ(sizes->sample_shape, (Shape{32, 32, 3}));
  const auto data = LoadDatasets(job);
  ASSERT_TRUE(data.ok()) << data.status();
  ExpectSamples(*data->train, 0, 10);
  ExpectSamples(*data->validation, 10, 10);
  ExpectSamples(*data->test, 12, 10);
  EXPECT_THAT(sizes->file_samples, ::testing::ElementsAre(7, 3)) << "without those of the validation split";
  EXPECT_EQ(data->file_samples, sizes->file_samples);
  job.mutable_data()->set_limit_samples(6);
  EXPECT_THAT(ReadDatasetSizes(job)->file_samples, ::testing::ElementsAre(6, 0));
  EXPECT_THAT(DataFiles(job.data()).value(),
              ::testing::ElementsAre(HasSubstr("data_batch_1.bin"), HasSubstr("data_batch_2.bin"),
                                     HasSubstr("test_batch.bin")));
}

TEST_F(CifarTest, ClassNamesComeFromTheListOfNamesBesideTheDataFiles) {
  directory_.Write("data_batch_1.bin", Records(0, 12, false));
  proto::Job job = JobOf("", 2);
  EXPECT_THAT(ClassNamesOf(job.data()).value(), ::testing::IsEmpty());
  directory_.Write("batches.meta.txt", "airplane\r\nautomobile\r\n\n");
  EXPECT_THAT(ClassNamesOf(job.data()).value(), ::testing::ElementsAre("airplane", "automobile"));
  job.mutable_data()->set_classes(3);
  EXPECT_THAT(ClassNamesOf(job.data()).value(), ::testing::IsEmpty()) << "the list is of other classes";
  directory_.Write("coarse_label_names.txt", "fish\nflowers\ntrees\n");
  job.mutable_data()->mutable_cifar()->set_labels(proto::Cifar::COARSE);
  EXPECT_THAT(ClassNamesOf(job.data()).value(), ::testing::ElementsAre("fish", "flowers", "trees"));
  for (const char* name : {"a", "b", "c"}) job.mutable_data()->add_class_name(name);
  EXPECT_THAT(ClassNamesOf(job.data()).value(), ::testing::ElementsAre("a", "b", "c"));
}

TEST_F(CifarTest, Cifar100GivesFineOrCoarseLabels) {
  directory_.Write("data_batch_1.bin", Records(0, 120, true));
  proto::Job job = JobOf("", 100);
  job.mutable_data()->mutable_cifar()->set_labels(proto::Cifar::FINE);
  ExpectSamples(*LoadDatasets(job).value().train, 0, 100);
  job.mutable_data()->mutable_cifar()->set_labels(proto::Cifar::COARSE);
  job.mutable_data()->set_classes(20);
  ExpectSamples(*LoadDatasets(job).value().train, 0, 20);
}

TEST_F(CifarTest, FileThatIsMissingOrNoCifarFileIsRefusedNamingFileAndField) {
  EXPECT_THAT(ErrorOf(JobOf("", 10)), AllOf(HasSubstr("no file matches"), HasSubstr("data_batch_*.bin")));
  proto::Job nowhere = JobOf("", 10);
  nowhere.mutable_data()->mutable_cifar()->set_train(0, directory_.path() + "/nowhere/data_batch_*.bin");
  EXPECT_THAT(ErrorOf(nowhere), AllOf(HasSubstr("no file matches"), HasSubstr("/nowhere/data_batch_*.bin")));
  directory_.Write("data_batch_1.bin", Records(0, 4, true));
  EXPECT_THAT(ErrorOf(JobOf("", 10)),
              AllOf(HasSubstr("data_batch_1.bin"), HasSubstr("not a whole number of records of 3073 bytes"),
                    HasSubstr("data.cifar.labels")));
  directory_.Write("data_batch_1.bin", "\x80\4\x95 a pickle");
  EXPECT_THAT(ErrorOf(JobOf("", 10)),
              AllOf(HasSubstr("it is a pickle of Python"), HasSubstr("the archive for C")));
  directory_.Write("data_batch_1.bin", "");
  EXPECT_THAT(ErrorOf(JobOf("", 10)), HasSubstr("the file is empty"));
}

TEST_F(CifarTest, LabelBeyondTheClassesIsRefusedNamingItsRecord) {
  directory_.Write("data_batch_1.bin", Records(0, 8, false));
  EXPECT_THAT(ErrorOf(JobOf("", 7)), HasSubstr("label 7 of record 7 is outside the 7 classes"));
}

TEST_F(CifarTest, FileTruncatedWhileItIsReadIsAnError) {
  const std::string path = directory_.Write("data_batch_1.bin", Records(0, 8, false));
  const Datasets data = LoadDatasets(JobOf("", 10)).value();
  ASSERT_EQ(truncate(path.c_str(), 3073), 0);
  std::vector<uint8_t> values(3072);
  EXPECT_TRUE(data.train->ReadValues(0, values.data()).ok());
  const absl::Status status = data.train->ReadValues(5, values.data());
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr(path), HasSubstr("the file was changed")));
}

}  // namespace
}  // namespace tethys
