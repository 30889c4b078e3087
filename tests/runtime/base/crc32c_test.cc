#include "runtime/base/crc32c.h"

#include <gtest/gtest.h>

#include <numeric>
#include <string>

namespace tethys {
namespace {

// CRC-32C by its definition, bit by bit.
uint32_t SlowCrc32c(absl::string_view data) {
  uint32_t crc = 0xffffffff;
  for (const char byte : data) {
    crc ^= static_cast<unsigned char>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82f63b78 : 0);
  }
  return ~crc;
}

std::string SomeBytes(int64_t count) {
  std::string bytes(count, '\0');
  uint32_t state = 1;
  for (char& byte : bytes) byte = static_cast<char>((state = state * 1664525 + 1013904223) >> 24);
  return bytes;
}

using Function = uint32_t (*)(absl::string_view, uint32_t);
class Crc32cTest : public ::testing::TestWithParam<Function> {
 protected:
  static uint32_t Of(absl::string_view data, uint32_t before = 0) { return GetParam()(data, before); }
};

// The first four are examples from RFC 3720, appendix B.4; 0xe3069283 is the usual check value of CRC-32C.
TEST_P(Crc32cTest, PublishedExamples_GiveTheirPublishedChecksums) {
  std::string rising(32, '\0');
  std::iota(rising.begin(), rising.end(), '\0');
  EXPECT_EQ(Of(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(Of(std::string(32, '\xff')), 0x62a8ab43u);
  EXPECT_EQ(Of(rising), 0x46dd794eu);
  EXPECT_EQ(Of(std::string(rising.rbegin(), rising.rend())), 0x113fdb5cu);
  EXPECT_EQ(Of("123456789"), 0xe3069283u);
  EXPECT_EQ(Of(""), 0u);
}

TEST_P(Crc32cTest, AnyLengthAndAlignment_MatchesTheBitwiseDefinition) {
  const std::string bytes = SomeBytes(20'000);
  for (const int64_t length : {1, 7, 8, 9, 255, 767, 768, 769, 1536, 6143, 6144, 6145, 13'000, 19'990}) {
    for (const int64_t begin : {0, 1, 5}) {
      const absl::string_view part = absl::string_view(bytes).substr(begin, length);
      EXPECT_EQ(Of(part), SlowCrc32c(part)) << length << " from " << begin;
    }
  }
}

TEST_P(Crc32cTest, ChecksumInPieces_EqualsTheChecksumOfTheWhole) {
  const std::string bytes = SomeBytes(10'000);
  for (const int64_t cut : {0, 1, 4096, 9'999, 10'000}) {
    EXPECT_EQ(Of(bytes.substr(cut), Of(bytes.substr(0, cut))), Of(bytes)) << cut;
  }
}

TEST(MaskedCrc32cTest, MaskedChecksumOfNoBytesIsTheConstantOfTheMask) {
  EXPECT_EQ(MaskedCrc32c(""), 0xa282ead8u);
}

INSTANTIATE_TEST_SUITE_P(Instructions, Crc32cTest, ::testing::Values(&Crc32c));
INSTANTIATE_TEST_SUITE_P(Portable, Crc32cTest, ::testing::Values(&PortableCrc32c));

}  // namespace
}  // namespace tethys
