#include "ps/copy_past_caches.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace tethys {
namespace {

TEST(CopyPastCachesTest, CopiesExactlyTheRangeAtEveryPlace) {
  std::vector<float> from(64);
  std::iota(from.begin(), from.end(), 1.0f);
  for (int64_t source = 0; source < 5; ++source) {
    for (int64_t place = 0; place < 9; ++place) {
      for (int64_t count = 0; count < 23; ++count) {
        std::vector<float> to(64), expected(64);
        std::copy_n(from.begin() + source, count, expected.begin() + place);
        CopyPastCaches(from.data() + source, count, to.data() + place);
        EXPECT_EQ(to, expected) << source << ", " << place << ", " << count;
      }
    }
  }
}

}  // namespace
}  // namespace tethys
