#include "workers/group_interruption.h"

#include <gtest/gtest.h>

namespace tethys {
namespace {

TEST(GroupInterruptionTest, HaltOfTheNewestGroupInterruptsThatGroup) {
  GroupInterruption interruption;
  EXPECT_TRUE(interruption.Check().ok());
  const Interruption& group = interruption.Begin(3);
  interruption.OnHalt(2);
  EXPECT_TRUE(group.Check().ok()) << "a Halt of an earlier group";
  interruption.OnHalt(3);
  EXPECT_TRUE(absl::IsAborted(group.Check()));
  EXPECT_TRUE(absl::IsAborted(interruption.Check()));
  EXPECT_TRUE(interruption.Begin(4).Check().ok());
  EXPECT_TRUE(interruption.Check().ok());
}

TEST(GroupInterruptionTest, HaltThatArrivesBeforeItsGroupBeginsInterruptsThatGroup) {
  GroupInterruption interruption;
  interruption.OnHalt(5);
  EXPECT_TRUE(absl::IsAborted(interruption.Begin(4).Check()));
  EXPECT_TRUE(absl::IsAborted(interruption.Begin(5).Check()));
  EXPECT_TRUE(interruption.Begin(6).Check().ok());
}

}  // namespace
}  // namespace tethys
