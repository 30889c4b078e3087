#include "ps/payload.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

namespace tethys {
namespace {

// The bytes of `values`, cut into pieces of `piece_bytes` from an odd address on, as gRPC may deliver them.
class Pieces {
 public:
  Pieces(const std::vector<float>& values, size_t piece_bytes)
      : bytes_(" " +
               std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float))) {
    for (size_t begin = 1; begin < bytes_.size(); begin += piece_bytes) {
      pieces_.push_back(absl::string_view(bytes_).substr(begin, piece_bytes));
    }
  }
  PayloadPieces get() const { return pieces_; }

 private:
  const std::string bytes_;
  std::vector<absl::string_view> pieces_;
};

std::vector<float> Ramp(int64_t count) {
  std::vector<float> values(count);
  for (int64_t i = 0; i < count; ++i) values[i] = static_cast<float>(i);
  return values;
}

class PayloadTest : public ::testing::TestWithParam<int64_t> {};

TEST_P(PayloadTest, PiecesOfAnyLengthAreCopiedAndAddedIntoMemory) {
  const std::vector<float> values = Ramp(GetParam());
  for (const size_t piece_bytes : {1, 3, 4, 7, 1000, 1 << 20}) {
    const Pieces pieces(values, piece_bytes);
    std::vector<float> out(values.size(), -1);
    EXPECT_TRUE(CopyPayload(pieces.get(), GetParam(), out.data()));
    EXPECT_EQ(out, values);
    EXPECT_TRUE(AddPayload(pieces.get(), GetParam(), out.data()));
    for (size_t i = 0; i < values.size(); ++i) ASSERT_EQ(out[i], 2 * values[i]);
  }
}

TEST_P(PayloadTest, NonFiniteValueIsFoundAtAnyPosition) {
  for (const float bad :
       {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(), std::nanf("")}) {
    for (const int64_t position : {int64_t{0}, GetParam() / 2, GetParam() - 1}) {
      std::vector<float> values = Ramp(GetParam());
      values[position] = bad;
      const Pieces pieces(values, 1000);
      std::vector<float> out(values.size());
      EXPECT_FALSE(CopyPayload(pieces.get(), GetParam(), out.data()));
      EXPECT_FALSE(AddPayload(pieces.get(), GetParam(), out.data()));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Counts, PayloadTest, ::testing::Values(1, 15, 16, 17, 4096, 4097, 10000));

}  // namespace
}  // namespace tethys
