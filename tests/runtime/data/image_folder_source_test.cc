// Tests that pictures in folders are read as samples, and that each folder is a class.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "runtime/data/class_names.h"
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
  std::map<int, int> labels;  // The label of each picture, by the picture's value.
  for (int i = 0; i < 3; ++i) {
    const std::vector<uint8_t> values = Values(*data.train, i);
    EXPECT_THAT(values, Each(values[0]));
    labels[values[0]] = Label(*data.train, i);
  }
  EXPECT_THAT(labels, ElementsAre(Pair(10, 0), Pair(11, 1), Pair(12, 1)));
  // The test split has only pictures of the second class.
  ASSERT_EQ(data.test->size(), 1);
  EXPECT_EQ(Label(*data.test, 0), 1);
  EXPECT_THAT(Values(*data.test, 0), Each(20));
  EXPECT_THAT(
      DataFiles(JobOf().data()).value(),
      ElementsAre(HasSubstr("train/cat/1.png"), HasSubstr("train/dog/10.PNG"), HasSubstr("test/dog/1.png")));
}

TEST_F(ImageFolderTest, ClassNamesAreTheFolderNamesConvertedToUtf8) {
  WritePets();
  EXPECT_THAT(ClassNamesOf(JobOf().data()).value(), ElementsAre("cat", "dog"));
  proto::Job job = JobOf();
  Write("latin/K\xe4se/1.png", Grey(1));
  Write("latin/\xc3\x84pfel\t/1.png", Grey(1));
  job.mutable_data()->mutable_image_folder()->set_train(directory_.path() + "/latin");
  EXPECT_THAT(ClassNamesOf(job.data()).value(), ElementsAre("K?se", "\xc3\x84pfel?"));
}

TEST(CleanClassNameTest, BytesThatAreNoUtf8AreReplaced) {
  EXPECT_EQ(CleanClassName("cat \xc3\xa9 \xe2\x82\xac \xf0\x9f\x90\xb1"),
            "cat \xc3\xa9 \xe2\x82\xac \xf0\x9f\x90\xb1");
  // The names have a start byte without its end, an overlong slash, a surrogate, a number beyond Unicode, and
  // control characters.
  EXPECT_EQ(CleanClassName("a\xc3"), "a?");
  EXPECT_EQ(CleanClassName("\xc0\xaf"), "??");
  EXPECT_EQ(CleanClassName("\xed\xa0\x80"), "???");
  EXPECT_EQ(CleanClassName("\xf4\x90\x80\x80"), "????");
  EXPECT_EQ(CleanClassName("a\n\x1b[1m\xc2\x9b"), "a??[1m?");
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
  for (const auto& [label, count] : counts) EXPECT_GE(count, 3) << label;  // The expected count is 10.
}

TEST_F(ImageFolderTest, SizeAndChannelsGivenInTheJobApplyToAllPictures) {
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

TEST_F(ImageFolderTest, ErrorNamesThePictureThatCannotBeRead) {
  WritePets();
  Write("train/dog/3.png", testing::Png(testing::Gradient(4, 4, 1), 4, 4, 1));
  const std::string whole = Grey(1);
  Write("train/dog/4.png", whole.substr(0, whole.size() - 16));  // The header of the file is whole.
  Write("train/dog/5.jpg", testing::Jpeg(testing::Gradient(2, 3, 4), 2, 3, 4));
  const Datasets data = LoadDatasets(JobOf()).value();
  std::vector<uint8_t> values(data.train->sample_elements());
  std::vector<std::string> errors;
  for (int i = 0; i < 6; ++i) {
    const absl::Status status = data.train->ReadValues(i, values.data());
    if (!status.ok()) errors.emplace_back(status.message());
  }
  EXPECT_THAT(errors,
              UnorderedElementsAre(
                  AllOf(HasSubstr("dog/3.png: 4 x 4 pixels"), HasSubstr("give a size in data.resize")),
                  AllOf(HasSubstr("dog/4.png: damaged PNG"), Not(HasSubstr("data.resize"))),
                  AllOf(HasSubstr("dog/5.jpg: a JPEG in CMYK"), Not(HasSubstr("data.resize")))));
}

TEST_F(ImageFolderTest, FoldersThatDoNotMatchTheClassesOfTheJobAreRefused) {
  EXPECT_THAT(ErrorOf(JobOf()), AllOf(HasSubstr("cannot read the folder"), HasSubstr("/train")));
  WritePets();
  proto::Job job = JobOf();
  job.mutable_data()->set_classes(3);
  EXPECT_THAT(ErrorOf(job),
              HasSubstr("holds 2 folders (cat, dog), one for each class, but data.classes is 3"));
  Write("test/bird/1.png", Grey(1));
  EXPECT_THAT(ErrorOf(JobOf()), HasSubstr("test/bird"));
  std::filesystem::remove_all(directory_.path() + "/test/bird");
  std::filesystem::remove(directory_.path() + "/train/cat/1.png");
  EXPECT_THAT(ErrorOf(JobOf()), HasSubstr("train/cat: the folder of a class holds no picture"));
}

// A picture of 2 x 3 pixels in one colour.
std::string Red() {
  std::vector<uint8_t> values;
  for (int i = 0; i < 6; ++i) values.insert(values.end(), {200, 10, 20});
  return testing::Png(values, 2, 3, 3);
}

TEST_F(ImageFolderTest, OnePictureInColourGivesAllSamplesThreeChannels) {
  for (const char* red : {"train/cat/a.png", "train/cat/b.png", "train/dog/x.png"}) {
    for (const char* name : {"train/cat/a.png", "train/cat/b.png", "train/dog/x.png", "test/dog/y.png"}) {
      Write(name, name == std::string(red) || std::string(name) == "test/dog/y.png" ? Red() : Grey(7));
    }
    const Datasets data = LoadDatasets(JobOf()).value();
    EXPECT_EQ(data.train->sample_shape(), (Shape{2, 3, 3})) << red;
  }
  Write("test/dog/y.png", Grey(7));
  EXPECT_THAT(ErrorOf(JobOf()),
              HasSubstr("one of these files is grey, the other in colour: for folders of pictures write "
                        "data.image_folder.channels: 3"));
  proto::Job job = JobOf();
  job.mutable_data()->mutable_image_folder()->set_channels(1);
  EXPECT_EQ(LoadDatasets(job).value().train->sample_shape(), (Shape{2, 3}));
}

// Cameras store thumbnails and colour profiles in a JPEG file before the picture itself.
TEST_F(ImageFolderTest, ColourOfAJpegIsFoundBehindLongMetadataSegments) {
  std::string jpeg = testing::Jpeg(std::vector<uint8_t>(2 * 3 * 3, 90), 2, 3, 3);
  jpeg.insert(2, "\xff\xe1\xff\xff" + std::string(65533, 'x'));
  Write("test/dog/y.png", Red());
  for (const char* coloured : {"train/cat/a.jpg", "train/cat/b.jpg", "train/dog/x.jpg"}) {
    for (const char* name : {"train/cat/a.jpg", "train/cat/b.jpg", "train/dog/x.jpg"}) {
      Write(name, name == std::string(coloured) ? jpeg : Grey(7));
    }
    EXPECT_EQ(LoadDatasets(JobOf()).value().train->sample_shape(), (Shape{2, 3, 3})) << coloured;
  }
}

TEST_F(ImageFolderTest, GreyPictureThatHasChangedToColourWhenItIsReadIsAnError) {
  WritePets();
  const Datasets data = LoadDatasets(JobOf()).value();
  // The file has changed since its header was read, so it is treated like a file whose header was never read.
  Write("train/cat/1.png", Red());
  std::vector<uint8_t> values(6);
  std::vector<std::string> errors;
  for (int i = 0; i < 3; ++i) {
    const absl::Status status = data.train->ReadValues(i, values.data());
    if (!status.ok()) errors.emplace_back(status.message());
  }
  EXPECT_THAT(errors, ElementsAre(AllOf(HasSubstr("cat/1.png is in colour"),
                                        HasSubstr("data.image_folder.channels: 3"))));
}

TEST_F(ImageFolderTest, NoteCountsFilesThatAreLeftOut) {
  WritePets();
  std::filesystem::remove(directory_.path() + "/train/cat/notes.txt");
  for (const char* quiet : {"train/cat/Thumbs.db", "train/cat/.DS_Store", "train/dog/desktop.ini",
                            "train/__MACOSX/cat/._1.png", "train/@eaDir/1.png"}) {
    Write(quiet, "no picture");
  }
  const proto::Job job = JobOf();
  const auto notes = [&] { return ReadDatasetSizes(job).value().notes; };
  EXPECT_THAT(notes(), SizeIs(0));
  for (const char* name :
       {"train/cat/2.webp", "train/cat/3.gif", "train/dog/4.jfif", "train/dog/more/5.png", "train/6.png"}) {
    Write(name, Grey(1));
  }
  EXPECT_THAT(notes(),
              ElementsAre(AllOf(HasSubstr("3 files whose names do not end in .png"), HasSubstr("cat/2.webp")),
                          AllOf(HasSubstr("1 folder within the folder of a class"), HasSubstr("dog/more")),
                          AllOf(HasSubstr("1 picture beside"), HasSubstr("train/6.png"))));
}

TEST_F(ImageFolderTest, NoteNamesTheSizesOfPicturesOfMixedSizes) {
  for (int i = 0; i < 30; ++i) {
    Write(absl::StrCat("train/cat/", i, ".png"), Grey(1));
    Write(absl::StrCat("train/dog/", i, ".png"), Grey(1));
  }
  proto::Job job = JobOf();
  job.mutable_data()->mutable_image_folder()->clear_test();
  EXPECT_THAT(ReadDatasetSizes(job).value().notes, SizeIs(0));
  // Every second picture of a dog is replaced with a JPEG of another size, which has a long metadata segment
  // before its header.
  std::string jpeg = testing::Jpeg(testing::Gradient(16, 8, 1), 16, 8, 1);
  jpeg.insert(2, "\xff\xe1\xff\xff" + std::string(65533, 'x'));
  for (int i = 0; i < 30; i += 2) Write(absl::StrCat("train/dog/", i, ".png"), jpeg);
  EXPECT_THAT(ReadDatasetSizes(job).value().notes,
              ElementsAre(AllOf(HasSubstr("2 x 3"), HasSubstr("16 x 8"), HasSubstr("/train/dog/"),
                                HasSubstr("give it in data.resize, for example resize { height: "))));
  job.mutable_data()->mutable_resize()->set_height(4);
  job.mutable_data()->mutable_resize()->set_width(5);
  EXPECT_THAT(ReadDatasetSizes(job).value().notes, SizeIs(0));
}

TEST_F(ImageFolderTest, ErrorNamesAnExtraLevelOfFolders) {
  Write("train/pets/cat/1.png", Grey(1));
  Write("train/pets/dog/1.png", Grey(1));
  EXPECT_THAT(ErrorOf(JobOf()),
              AllOf(HasSubstr("holds 1 folder (pets)"), HasSubstr("holds no pictures but folders (cat, dog)"),
                    HasSubstr("/train/pets in the job")));
  std::filesystem::remove_all(directory_.path() + "/train");
  Write("train/cat/a/1.png", Grey(1));
  Write("train/dog/1.png", Grey(1));
  EXPECT_THAT(ErrorOf(JobOf()),
              AllOf(HasSubstr("train/cat: the folder of a class holds no picture"),
                    HasSubstr("but folders (a), so there is one level of folders too many")));
}

TEST_F(ImageFolderTest, NoteSaysThatSixteenBitPicturesUseOnlyFewOfTheirBits) {
  WritePets();
  std::vector<uint16_t> values(6, 3780);
  png_image image = {};
  image.version = PNG_IMAGE_VERSION;
  image.width = 3;
  image.height = 2;
  image.format = PNG_FORMAT_LINEAR_Y;
  std::string file(PNG_IMAGE_PNG_SIZE_MAX(image), '\0');
  png_alloc_size_t size = file.size();
  ASSERT_NE(png_image_write_to_memory(&image, file.data(), &size, 0, values.data(), 0, nullptr), 0);
  file.resize(size);
  ASSERT_EQ(file[24], 16);
  Write("train/cat/1.png", file);
  EXPECT_THAT(
      ReadDatasetSizes(JobOf()).value().notes,
      ElementsAre(HasSubstr("1 file whose name does not end in .png"),
                  AllOf(HasSubstr("cat/1.png has 16 bits a channel"), HasSubstr("becomes 14 of 255"))));
}

}  // namespace
}  // namespace tethys
