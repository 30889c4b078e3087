// Tests predictions in files and on the terminal.
#include "deploy/model_files/predictions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "deploy/model_files/shown_predictions.h"
#include "runtime/base/file.h"
#include "tests/testing/temp_directory.h"

namespace tethys {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// Logits for the probabilities 0.25, 0.5 and 0.25.
const std::vector<float> kLogits = {0, std::log(2.0f), 0};

TEST(PredictionsTest, CsvFileHasTheNamesOfClasses) {
  const testing::TempDirectory directory;
  const std::string path = directory.Path("a.csv");
  const PredictionShape shape = {
      .samples = 2, .output = {3}, .labelled = true, .class_names = {"cat", "dog, big", "eel"}};
  const auto file = PredictionFile::Create(path, shape).value();
  ASSERT_TRUE(file->Add(2, kLogits).ok());
  ASSERT_TRUE(file->Add(255, kLogits).ok());  // A label that the loss ignores.
  ASSERT_TRUE(file->Commit().ok());
  const std::string text = ReadFile(path).value();
  EXPECT_THAT(text, StartsWith("sample,label,label_name,class,class_name,probability_cat,\"probability_dog, "
                               "big\",probability_eel\n"
                               "0,2,eel,1,\"dog, big\",0.25"));
  EXPECT_THAT(text, HasSubstr("\n1,255,,1,\"dog, big\",0.25"));
}

TEST(PredictionsTest, TerminalShowsTheLikeliestClassesOfTheFirstSamples) {
  ShownPredictions named({.output = {3}, .files = {"a.png", "b.png"}, .class_names = {"cat", "dog", "eel"}});
  named.Add(0, kLogits);
  named.Add(0, std::vector<float>{9, -9, -9});
  EXPECT_EQ(named.Text(), "a.png: dog 50.0 %, cat 25.0 %, eel 25.0 %\nb.png: cat 100.0 %\n");
  ShownPredictions labelled({.output = {3}, .labelled = true});
  for (int i = 0; i < 1022; ++i) labelled.Add(2, kLogits);
  EXPECT_THAT(labelled.Text(),
              StartsWith("sample 0: class 1 50.0 %, class 0 25.0 %, class 2 25.0 % (labelled class 2)\n"));
  EXPECT_THAT(labelled.Text(), ::testing::EndsWith("\n... and 1,002 more\n"));
  ShownPredictions targets({.output = {2}, .classifies = false});
  targets.Add(0, std::vector<float>{0.5f, -2});
  EXPECT_EQ(targets.Text(), "sample 0: 0.5, -2\n");
}

}  // namespace
}  // namespace tethys
