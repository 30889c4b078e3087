#include "runtime/device/sum_of_squares.h"

#include <gtest/gtest.h>

#include <vector>

#include "runtime/base/random.h"
#include "runtime/device/cpu/kernels.h"

namespace tethys {
namespace {

// Every processor and every process must add in the same order, because the factor by which clipping scales
// all gradients depends on the sum.
TEST(SumOfSquaresTest, SquareOfValueIIsAddedInLaneIModulo16) {
  RandomStream random(1, RandomPurpose::kTest, 0);
  for (const int count : {0, 1, 15, 16, 17, 40, 1000}) {
    std::vector<float> values;
    for (int i = 0; i < count; ++i) values.push_back(1e-9f * static_cast<float>(random.Next32()) - 2.0f);
    double expected = 0;
    for (int lane = 0; lane < 16; ++lane) {
      double sum = 0;
      for (int i = lane; i < count; i += 16) sum += double{values[i]} * double{values[i]};
      expected += sum;
    }
    EXPECT_EQ(SumOfSquaresInLanes(count, values.data()), expected) << count;
    EXPECT_EQ(cpu::SelectKernels().sum_of_squares(count, values.data()), expected) << count;
  }
}

}  // namespace
}  // namespace tethys
