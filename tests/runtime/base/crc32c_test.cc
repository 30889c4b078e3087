#include "runtime/base/crc32c.h"

#include <gtest/gtest.h>

#include <string>

namespace tethys {
namespace {

TEST(Crc32cTest, AgreesWithPublishedSums) {
  EXPECT_EQ(Crc32c("123456789"), 0xe3069283u);
  EXPECT_EQ(Crc32c(std::string(32, '\0')), 0x8a9136aau);  // RFC 3720, B.4, as the next.
  EXPECT_EQ(Crc32c(std::string(32, '\xff')), 0x62a8ab43u);
  EXPECT_EQ(Crc32c(""), 0u);
}

TEST(Crc32cTest, TheMaskTurnsBy15BitsAndAdds) { EXPECT_EQ(MaskedCrc32c(""), 0xa282ead8u); }

}  // namespace
}  // namespace tethys
