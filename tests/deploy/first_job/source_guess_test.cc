#include "deploy/first_job/source_guess.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

namespace tethys {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

FoundData Folder() { return {.folder = "pets"}; }

SourceGuess Guess(const FoundData& found) {
  const absl::StatusOr<SourceGuess> guess = GuessSource(found);
  EXPECT_TRUE(guess.ok()) << guess.status();
  return guess.value_or(SourceGuess());
}

// The guessed data in one line.
std::string Data(const FoundData& found) {
  std::string text;
  google::protobuf::TextFormat::Printer printer;
  printer.SetSingleLineMode(true);
  printer.PrintToString(Guess(found).data, &text);
  return text;
}

std::string Error(const FoundData& found) {
  const absl::Status status = GuessSource(found).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  return std::string(status.message());
}

// ------------------------------------------------------------------------------------------ arrays

TEST(ArrayGuessTest, MnistFilesArePairedByAxesAndNames) {
  FoundData found = Folder();
  found.idx = {{"t10k-images", {10, 28, 28}},
               {"t10k-labels", {10}},
               {"train-images", {60, 28, 28}},
               {"train-labels", {60}}};
  EXPECT_EQ(Data(found),
            "idx { train_images: \"pets/train-images\" train_labels: \"pets/train-labels\" "
            "test_images: \"pets/t10k-images\" test_labels: \"pets/t10k-labels\" } ");
}

TEST(ArrayGuessTest, PairWithoutWordsInItsNamesIsForTraining) {
  FoundData found = Folder();
  found.npy = {{"a.npy", {60, 4}}, {"b.npy", {60}}};
  EXPECT_EQ(Data(found), "npy { train_images: \"pets/a.npy\" train_labels: \"pets/b.npy\" } ");
  found.npy = {{"x_test.npy", {60, 4}}, {"y_test.npy", {60, 1}}};
  EXPECT_EQ(Data(found), "npy { train_images: \"pets/x_test.npy\" train_labels: \"pets/y_test.npy\" } ");
}

TEST(ArrayGuessTest, ArraysBesideNamedPairsAreLeftOut) {
  FoundData found = Folder();
  found.npy = {{"mean.npy", {4}},
               {"x_train.npy", {60, 4}},
               {"x_val.npy", {9, 4}},
               {"y_train.npy", {60}},
               {"y_val.npy", {9}}};
  const SourceGuess guess = Guess(found);
  EXPECT_EQ(guess.data.npy().test_images(), "pets/x_val.npy");
  EXPECT_THAT(guess.left_out, ElementsAre("mean.npy"));
}

TEST(ArrayGuessTest, PairsThatAreNotClearAreRefused) {
  FoundData found = Folder();
  found.idx = {{"images", {60, 28, 28}}};
  EXPECT_THAT(Error(found), AllOf(HasSubstr("pets holds no labels"), HasSubstr("images [60, 28, 28]")));
  found.idx = {{"a", {60, 28, 28}}, {"b", {60, 28, 28}}, {"labels", {60}}};
  EXPECT_THAT(Error(found), AllOf(HasSubstr("more than one pair"), HasSubstr("labels [60]")));
  found.idx = {{"labels", {60}}};
  EXPECT_THAT(Error(found), HasSubstr("labels but no values"));
}

// ------------------------------------------------------------------------------------------ lists

TEST(ListGuessTest, BatchesOfCifarBecomeAPattern) {
  FoundData found = Folder();
  for (const char* name : {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "test_batch.bin"}) {
    found.cifar.push_back({.name = name});
    found.files.push_back(name);
  }
  EXPECT_EQ(Data(found), "cifar { train: \"pets/data_batch_*.bin\" test: \"pets/test_batch.bin\" } ");
  for (FoundCifar& file : found.cifar) file.hundred = true;
  EXPECT_THAT(Data(found), HasSubstr("labels: FINE"));
  found.cifar[0].hundred = false;
  EXPECT_THAT(Error(found), HasSubstr("CIFAR-10 and of CIFAR-100"));
}

TEST(ListGuessTest, SpecialCharactersOfFoldersAreEscapedInPatterns) {
  FoundData found = {.folder = "pets[1]"};
  found.cifar = {{.name = "train.bin"}};
  EXPECT_EQ(Guess(found).data.cifar().train(0), "pets\\[1]/train.bin");
}

TEST(ListGuessTest, FeaturesOfRecordsAreChosenByKindAndName) {
  using Kind = RecordFeature::Kind;
  FoundData found = Folder();
  found.records = {{"train.tfrecord",
                    {{"image/class/label", Kind::kIntegers, 1, 3},
                     {"image/encoded", Kind::kPicture, 900},
                     {"image/format", Kind::kBytes, 3},
                     {"image/height", Kind::kIntegers, 1, 28}}}};
  EXPECT_THAT(Data(found), AllOf(HasSubstr("image_feature: \"image/encoded\""),
                                 HasSubstr("label_feature: \"image/class/label\"")));
  found.records = {{"train.tfrecord", {{"label", Kind::kIntegers, 1, 3}, {"raw", Kind::kBytes, 3072}}}};
  EXPECT_THAT(Guess(found).data.tfrecord().shape(), ElementsAre(32, 32, 3));
  found.records = {{"train.tfrecord",
                    {{"height", Kind::kIntegers, 1, INT64_MAX},
                     {"label", Kind::kIntegers, 1, 3},
                     {"raw", Kind::kBytes, 784}}}};
  EXPECT_THAT(Error(found), HasSubstr("data.tfrecord.shape")) << "the height does not fit the values";
  found.records = {{"train.tfrecord", {{"label", Kind::kIntegers, 1, 3}, {"raw", Kind::kBytes, 3071}}}};
  EXPECT_THAT(Error(found), AllOf(HasSubstr("\"raw\" (3071 bytes)"), HasSubstr("data.tfrecord.shape")));
  found.records = {{"train.tfrecord", {{"image", Kind::kPicture, 900}}}};
  EXPECT_THAT(Error(found), AllOf(HasSubstr("the label is not clear"), HasSubstr("\"image\" (a picture)")));
}

// ------------------------------------------------------------------------------------------ tables

FoundTable TableOf(const FoundColumn& first, const FoundColumn& last) {
  return {.name = "a.csv", .columns = 5, .lines = 1000, .first = first, .last = last};
}
constexpr FoundColumn kMeasured = {.integers = false, .most = 0, .different = 700, .commonest = 0.01};
constexpr FoundColumn kTenClasses = {.integers = true, .most = 9, .different = 10, .commonest = 0.12};
constexpr FoundColumn kTwoClasses = {.integers = true, .most = 1, .different = 2, .commonest = 0.65};
constexpr FoundColumn kRowNumbers = {.integers = true, .most = 999, .different = 1000, .commonest = 0.001};
constexpr FoundColumn kDarkPixel = {.integers = true, .most = 1, .different = 2, .commonest = 0.99};

int LabelColumn(const FoundTable& table) {
  FoundData found = Folder();
  found.tables = {table};
  return Guess(found).data.csv().label_column();
}

TEST(TableGuessTest, LabelIsTheColumnThatLooksLikeClasses) {
  EXPECT_EQ(LabelColumn(TableOf(kMeasured, kTenClasses)), 4);
  EXPECT_EQ(LabelColumn(TableOf(kTenClasses, kMeasured)), 0);
  EXPECT_EQ(LabelColumn(TableOf(kRowNumbers, kTenClasses)), 4) << "row numbers do not repeat";
  EXPECT_EQ(LabelColumn(TableOf(kTenClasses, kTwoClasses)), 4) << "the column with fewer values";
  EXPECT_EQ(LabelColumn(TableOf(kTenClasses, kDarkPixel)), 0) << "a column that hardly varies is a feature";
}

TEST(TableGuessTest, NameOfAColumnWins) {
  FoundTable table = TableOf(kTenClasses, kTenClasses);
  table.header = {"Age", "Label", "b", "c", "d"};
  EXPECT_EQ(LabelColumn(table), 1);
}

TEST(TableGuessTest, TableWithoutAClearLabelIsRefused) {
  FoundData found = Folder();
  found.tables = {TableOf(kTenClasses, kTenClasses)};
  EXPECT_THAT(Error(found), AllOf(HasSubstr("column 0 with 10 different values"), HasSubstr("column 4"),
                                  HasSubstr("header line")));
  found.tables = {TableOf(kRowNumbers, kMeasured)};
  EXPECT_THAT(Error(found), HasSubstr("no column is clearly the label"));
}

TEST(TableGuessTest, SquareOfBytesIsAPicture) {
  FoundTable table = TableOf(kTenClasses, kDarkPixel);
  table.columns = 785;
  table.bytes_between = true;
  FoundData found = Folder();
  found.tables = {table};
  EXPECT_THAT(Data(found), AllOf(HasSubstr("shape: 28 shape: 28"), HasSubstr("bytes: true")));
  found.tables[0].columns = 784;
  EXPECT_FALSE(Guess(found).data.csv().bytes());
}

// ------------------------------------------------------------------------------------------ pictures

TEST(PictureGuessTest, FoldersOfPicturesAreClasses) {
  FoundData found = Folder();
  found.folders = {{"cat", 20}, {"dog", 30}};
  EXPECT_EQ(Data(found), "classes: 2 image_folder { train: \"pets\" } ");
  found.folders = {{"test", 0, {{"cat", 2}, {"dog", 3}}}, {"train", 0, {{"cat", 20}, {"dog", 30}}}};
  EXPECT_EQ(Data(found), "classes: 2 image_folder { train: \"pets/train\" test: \"pets/test\" } ");
  found.folders = {{"test_tube", 20}, {"vial", 30}};
  EXPECT_EQ(Data(found), "classes: 2 image_folder { train: \"pets\" } ");
}

TEST(PictureGuessTest, FoldersThatAreNotClearAreRefused) {
  FoundData found = Folder();
  found.folders = {{"test", 20}, {"train", 30}};
  EXPECT_THAT(Error(found), HasSubstr("pictures without labels (in test and train)"));
  found.folders = {{"cat", 20}};
  EXPECT_THAT(Error(found), HasSubstr("one class of pictures only"));
  found.folders = {{"cat", 20}, {"dog", 1}};
  EXPECT_THAT(Error(found), HasSubstr("dog (1)"));
  found.folders = {{"cat", 20}, {"train", 0, {{"cat", 2}, {"dog", 2}}}};
  EXPECT_THAT(Error(found), HasSubstr("beside"));
  found.folders = {{"a", 0, {{"cat", 2}, {"dog", 2}}}, {"b", 0, {{"cat", 2}, {"dog", 2}}}};
  EXPECT_THAT(Error(found), HasSubstr("several folders with folders of pictures: a and b"));
}

// ------------------------------------------------------------------------------------------ the folder

TEST(SourceGuessTest, SeveralFormatsAreListed) {
  FoundData found = Folder();
  found.idx = {{"images", {60, 28, 28}}};
  found.folders = {{"cat", 20}, {"dog", 30}};
  EXPECT_EQ(Error(found),
            "pets holds data of several formats: 1 IDX file (images) and 2 picture folders (cat and "
            "dog): move the "
            "data of one format to a folder of their own");
}

TEST(SourceGuessTest, FolderWithoutDataIsRefused) {
  FoundData found = Folder();
  EXPECT_THAT(Error(found), HasSubstr("pets is empty"));
  found.others = {"a.parquet; it is a Parquet file: write it with DataFrame.to_csv or numpy.save"};
  EXPECT_THAT(Error(found), AllOf(HasSubstr("no data that can be read"), HasSubstr("DataFrame.to_csv")));
  found.pictures = {"1.png", "2.png"};
  EXPECT_THAT(Error(found), HasSubstr("2 pictures without labels (1.png and 2.png)"));
}

TEST(SourceGuessTest, WorkingDirectoryIsNotNamed) {
  FoundData found = {.folder = "."};
  found.npy = {{"x.npy", {60, 4}}, {"y.npy", {60}}};
  EXPECT_EQ(Guess(found).data.npy().train_images(), "x.npy");
  EXPECT_THAT(Guess(found).left_out, IsEmpty());
}

}  // namespace
}  // namespace tethys
