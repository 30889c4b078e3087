// Folders of pictures give their pictures in the order of classes and names.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "runtime/data/dataset.h"
#include "tests/runtime/data/picture_files.h"
#include "tests/testing/temp_directory.h"

namespace tethys {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pair;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

class ImageFolderTest : public ::testing::Test {
 protected:
  void Write(const std::string& path, const std::string& content) {
    std::filesystem::create_directories(std::filesystem::path(directory_.path() + "/" + path).parent_path());
    directory_.Write(path, content);
  }
  // A grey picture of 2 x 3 pixels with one value.
  static std::string Grey(uint8_t value) { return testing::Png(std::vector<uint8_t>(6, value), 2, 3, 1); }
  void WritePets() {
    Write("train/dog/2.png", Grey(12));
    Write("train/dog/10.PNG", Grey(11));
    Write("train/cat/1.png", Grey(10));
    Write("train/cat/notes.txt", "no picture");
    Write("train/cat/.hidden.png", "no picture");
    Write("train/readme.txt", "no folder");
    Write("test/dog/1.png", Grey(20));
  }
  proto::Job JobOf() {
    proto::Job job;
    job.mutable_data()->set_classes(2);
    auto& folder = *job.mutable_data()->mutable_image_folder();
    folder.set_train(directory_.path() + "/train");
    folder.set_test(directory_.path() + "/test");
    return job;
  }
  static std::vector<uint8_t> Values(const Dataset& dataset, int64_t index) {
    std::vector<uint8_t> values(dataset.sample_elements());
    const absl::Status status = dataset.ReadValues(index, values.data());
    EXPECT_TRUE(status.ok()) << status;
    return values;
  }
  static int32_t Label(const Dataset& dataset, int64_t index) {
    int32_t label = -1;
    EXPECT_TRUE(dataset.ReadLabels(index, &label).ok());
    return label;
  }
  static std::string ErrorOf(const proto::Job& job) {
    return std::string(LoadDatasets(job).status().message());
  }

  const testing::TempDirectory directory_;
};

TEST_F(ImageFolderTest, ClassesAreNumberedInTheOrderOfTheirNames) {
  WritePets();
  const Datasets data = LoadDatasets(JobOf()).value();
  ASSERT_EQ(data.train->size(), 3);
  EXPECT_EQ(data.train->sample_shape(), (Shape{2, 3}));
  std::map<int, int> labels;  // By value.
  for (int i = 0; i < 3; ++i) {
    const std::vector<uint8_t> values = Values(*data.train, i);
    EXPECT_THAT(values, Each(values[0]));
    labels[values[0]] = Label(*data.train, i);
  }
  EXPECT_THAT(labels, ElementsAre(Pair(10, 0), Pair(11, 1), Pair(12, 1)));
  // The test has pictures of the second class only.
  ASSERT_EQ(data.test->size(), 1);
  EXPECT_EQ(Label(*data.test, 0), 1);
  EXPECT_THAT(Values(*data.test, 0), Each(20));
  EXPECT_THAT(
      DataFiles(JobOf().data()).value(),
      ElementsAre(HasSubstr("train/cat/1.png"), HasSubstr("train/dog/10.PNG"), HasSubstr("test/dog/1.png")));
}

TEST_F(ImageFolderTest, ValidationSplitHasPicturesOfEveryClass) {
  for (const char* name : {"cat", "dog", "eel", "fox"}) {
    for (int i = 0; i < 50; ++i) Write(absl::StrCat("train/", name, "/", i, ".png"), Grey(1));
  }
  proto::Job job = JobOf();
  job.mutable_data()->set_classes(4);
  job.mutable_data()->set_validation_samples(40);
  job.mutable_data()->mutable_image_folder()->clear_test();
  const Datasets data = LoadDatasets(job).value();
  std::map<int, int> counts;
  for (int i = 0; i < 40; ++i) ++counts[Label(*data.validation, i)];
  EXPECT_THAT(counts, SizeIs(4));
  for (const auto& [label, count] : counts) EXPECT_GE(count, 3) << label;  // 10 on average.
}

TEST_F(ImageFolderTest, SizeAndChannelsOfTheJobHoldForAll) {
  WritePets();
  Write("train/dog/3.jpg", testing::Jpeg(testing::Gradient(16, 8, 3), 16, 8, 3));
  proto::Job job = JobOf();
  auto& folder = *job.mutable_data()->mutable_image_folder();
  folder.set_channels(3);
  job.mutable_data()->mutable_resize()->set_height(4);
  job.mutable_data()->mutable_resize()->set_width(5);
  const Datasets data = LoadDatasets(job).value();
  EXPECT_EQ(data.train->sample_shape(), (Shape{4, 5, 3}));
  for (int i = 0; i < 4; ++i) {
    const std::vector<uint8_t> values = Values(*data.train, i);
    EXPECT_EQ(values.size(), 60u);
    if (Label(*data.train, i) != 0) continue;
    EXPECT_THAT(values, Each(10));
  }
}

TEST_F(ImageFolderTest, PictureThatCannotBeReadIsNamed) {
  WritePets();
  Write("train/dog/3.png", testing::Png(testing::Gradient(4, 4, 1), 4, 4, 1));
  const std::string whole = Grey(1);
  Write("train/dog/4.png", whole.substr(0, whole.size() - 16));  // Its header is whole.
  Write("train/dog/5.jpg", testing::Jpeg(testing::Gradient(2, 3, 4), 2, 3, 4));
  const Datasets data = LoadDatasets(JobOf()).value();
  std::vector<uint8_t> values(data.train->sample_elements());
  std::vector<std::string> errors;
  for (int i = 0; i < 6; ++i) {
    const absl::Status status = data.train->ReadValues(i, values.data());
    if (!status.ok()) errors.emplace_back(status.message());
  }
  EXPECT_THAT(errors, UnorderedElementsAre(
                          AllOf(HasSubstr("dog/3.png: 4 x 4 pixels"), HasSubstr("give it in data.resize")),
                          AllOf(HasSubstr("dog/4.png: damaged PNG"), Not(HasSubstr("data.resize"))),
                          AllOf(HasSubstr("dog/5.jpg: a JPEG in CMYK"), Not(HasSubstr("data.resize")))));
}

TEST_F(ImageFolderTest, FoldersThatDoNotFitAreRefused) {
  EXPECT_THAT(ErrorOf(JobOf()), AllOf(HasSubstr("cannot read the folder"), HasSubstr("/train")));
  WritePets();
  proto::Job job = JobOf();
  job.mutable_data()->set_classes(3);
  EXPECT_THAT(ErrorOf(job), HasSubstr("holds 2 folders, one a class, but data.classes is 3"));
  Write("test/bird/1.png", Grey(1));
  EXPECT_THAT(ErrorOf(JobOf()), HasSubstr("test/bird"));
  std::filesystem::remove_all(directory_.path() + "/test/bird");
  std::filesystem::remove(directory_.path() + "/train/cat/1.png");
  EXPECT_THAT(ErrorOf(JobOf()), HasSubstr("train/cat: the folder of a class holds no picture"));
}

}  // namespace
}  // namespace tethys
