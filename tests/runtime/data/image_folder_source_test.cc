// Folders of pictures give their pictures in the order of classes and names.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
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

TEST_F(ImageFolderTest, ClassesAndPicturesComeInTheOrderOfTheirNames) {
  WritePets();
  const Datasets data = LoadDatasets(JobOf()).value();
  ASSERT_EQ(data.train->size(), 3);
  EXPECT_EQ(data.train->sample_shape(), (Shape{2, 3}));
  for (int i = 0; i < 3; ++i) EXPECT_THAT(Values(*data.train, i), Each(10 + i));
  EXPECT_THAT((std::vector{Label(*data.train, 0), Label(*data.train, 1), Label(*data.train, 2)}),
              ElementsAre(0, 1, 1));
  // The test has pictures of the second class only.
  ASSERT_EQ(data.test->size(), 1);
  EXPECT_EQ(Label(*data.test, 0), 1);
  EXPECT_THAT(Values(*data.test, 0), Each(20));
  EXPECT_THAT(
      DataFiles(JobOf().data()).value(),
      ElementsAre(HasSubstr("train/cat/1.png"), HasSubstr("train/dog/10.PNG"), HasSubstr("test/dog/1.png")));
}

TEST_F(ImageFolderTest, SizeAndChannelsOfTheJobHoldForAll) {
  WritePets();
  Write("train/dog/3.jpg", testing::Jpeg(testing::Gradient(16, 8, 3), 16, 8, 3));
  proto::Job job = JobOf();
  auto& folder = *job.mutable_data()->mutable_image_folder();
  folder.set_height(4);
  folder.set_width(5);
  folder.set_channels(3);
  const Datasets data = LoadDatasets(job).value();
  EXPECT_EQ(data.train->sample_shape(), (Shape{4, 5, 3}));
  EXPECT_THAT(Values(*data.train, 0), Each(10));
  EXPECT_EQ(Values(*data.train, 3).size(), 60u);
}

TEST_F(ImageFolderTest, PictureThatCannotBeReadIsNamed) {
  WritePets();
  Write("train/dog/3.png", testing::Png(testing::Gradient(4, 4, 1), 4, 4, 1));
  Write("train/dog/4.png", Grey(1).substr(0, 40));
  const Datasets data = LoadDatasets(JobOf()).value();
  std::vector<uint8_t> values(data.train->sample_elements());
  EXPECT_THAT(std::string(data.train->ReadValues(3, values.data()).message()),
              AllOf(HasSubstr("dog/3.png: 4 x 4 pixels"), HasSubstr("data.image_folder")));
  EXPECT_THAT(std::string(data.train->ReadValues(4, values.data()).message()),
              HasSubstr("dog/4.png: damaged PNG"));
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
