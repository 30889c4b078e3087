#include "deploy/describe/class_accuracy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tethys {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

void Add(int64_t label, int64_t predicted, int times, ClassAccuracy& classes) {
  for (int i = 0; i < times; ++i) classes.Add(label, predicted);
}

TEST(ClassAccuracyTest, EachClassHasItsAccuracyAndMostFrequentMistake) {
  ClassAccuracy classes;
  EXPECT_EQ(classes.Text({}), "");
  Add(0, 0, 3, classes);
  Add(2, 2, 5, classes);
  Add(2, 0, 2, classes);
  Add(2, 1, 1, classes);
  EXPECT_EQ(classes.Text({"cat", "dog", "eel"}),
            "class  name  samples  accuracy %  most often taken for\n"
            "    0  cat         3      100.00\n"
            "    2  eel         8       62.50  cat (2)\n");
  EXPECT_THAT(classes.Text({}), HasSubstr("    2        8       62.50  0 (2)\n"));
}

TEST(ClassAccuracyTest, LeastAccurateOfManyClassesAreShown) {
  ClassAccuracy classes;
  for (int i = 0; i < 100; ++i) Add(i, i == 77 ? 3 : i, 1, classes);
  EXPECT_THAT(classes.Text({}), StartsWith("the 30 lowest of 100 classes\n"));
  EXPECT_THAT(classes.Text({}), HasSubstr("\n   77        1        0.00  3 (1)\n"));
  EXPECT_THAT(classes.Text({}), Not(HasSubstr("\n   99 ")));
}

}  // namespace
}  // namespace tethys
