#include "runtime/base/nearest_name.h"

#include <gtest/gtest.h>

#include <vector>

namespace tethys {
namespace {

const std::vector<std::string> kVerbs = {"train", "compare", "evaluate"};

TEST(NearestNameTest, FindsNamesDespiteTyposAbbreviationsAndCase) {
  EXPECT_EQ(NearestName("tran", kVerbs), "train");
  EXPECT_EQ(NearestName("eval", kVerbs), "evaluate");
  EXPECT_EQ(NearestName("comapre", kVerbs), "compare");
  EXPECT_EQ(NearestName("TRAIN", kVerbs), "train");
}

TEST(NearestNameTest, IsEmptyIfNoNameIsNear) {
  EXPECT_EQ(NearestName("launch", kVerbs), "");
  EXPECT_EQ(NearestName("", kVerbs), "");
  EXPECT_EQ(NearestName("train", {}), "");
  EXPECT_EQ(NearestName(std::string(1 << 20, 't'), kVerbs), "");
}

}  // namespace
}  // namespace tethys
