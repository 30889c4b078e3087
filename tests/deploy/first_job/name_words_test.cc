#include "deploy/first_job/name_words.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tethys {
namespace {

TEST(PartOfNameTest, WordsOfNamesGiveTheirPart) {
  for (const char* name :
       {"train.csv", "X_train.npy", "training-images-idx3-ubyte", "xtrain", "train2017", "a.npz#train"})
    EXPECT_EQ(PartOfName(name), NamedPart::kTrain) << name;
  for (const char* name : {"test.csv", "t10k-labels-idx1-ubyte.gz", "y_test", "test_batch.bin"})
    EXPECT_EQ(PartOfName(name), NamedPart::kTest) << name;
  for (const char* name : {"val", "valid-00001-of-00002.tfrecord", "x_validation"})
    EXPECT_EQ(PartOfName(name), NamedPart::kValidation) << name;
  for (const char* name : {"latest.npy", "data.csv", "contest", "restrained", "evaluate_me", ""})
    EXPECT_EQ(PartOfName(name), NamedPart::kNone) << name;
}

TEST(ContentOfNameTest, LabelsWinOverValues) {
  EXPECT_EQ(ContentOfName("images.npy"), NamedContent::kValues);
  EXPECT_EQ(ContentOfName("x_train.npy"), NamedContent::kValues);
  EXPECT_EQ(ContentOfName("Y.npy"), NamedContent::kLabels);
  EXPECT_EQ(ContentOfName("image_labels.npy"), NamedContent::kLabels);
  EXPECT_EQ(ContentOfName("mean.npy"), NamedContent::kNone);
}

TEST(PatternOfTest, PatternMatchesTheNamesAndNoOthers) {
  EXPECT_EQ(PatternOf({"b_1.bin", "b_2.bin", "b_3.bin"}, {"b_1.bin", "b_2.bin", "b_3.bin", "test.bin"}),
            "b_*.bin");
  EXPECT_EQ(PatternOf({"a-10.csv", "a-11.csv", "a-12.csv"}, {"a-10.csv", "a-11.csv", "a-12.csv"}), "a-*.csv");
  EXPECT_EQ(PatternOf({"b_1.bin", "b_2.bin", "b_3.bin"}, {"b_1.bin", "b_2.bin", "b_3.bin", "b_old.bin"}), "");
  EXPECT_EQ(PatternOf({"b_1.bin", "b_2.bin"}, {"b_1.bin", "b_2.bin"}), "") << "two names are short enough";
  EXPECT_EQ(PatternOf({"b[1]", "b[2]", "b[3]"}, {"b[1]", "b[2]", "b[3]"}), "")
      << "a bracket has a meaning in patterns";
}

}  // namespace
}  // namespace tethys
