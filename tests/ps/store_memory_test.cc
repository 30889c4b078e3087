#include "ps/store_memory.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tethys {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(StoreMemoryTest, EachArenaHasTheRequestedNumberOfZeroedElements) {
  Arena a, b;
  ASSERT_TRUE(AllocateForStore(0, 32, {&a, &b}, "").ok());
  EXPECT_EQ(a.size(), 32);
  EXPECT_EQ(b.data()[31], 0);
}

TEST(StoreMemoryTest, ErrorOfTooLittleMemoryNamesSizesAndRemedy) {
  Arena a, b;
  const absl::Status status = AllocateForStore(3, int64_t{1} << 45, {&a, &b}, "parameters, momentum");
  EXPECT_THAT(StatusText(status),
              AllOf(HasSubstr("RESOURCE_EXHAUSTED: server 3 needs 2 times 134217728 MiB"),
                    HasSubstr("(parameters, momentum)"), HasSubstr("strategy.parameter_server.servers")));
  EXPECT_EQ(a.size(), 0);
}

}  // namespace
}  // namespace tethys
