#include "runtime/cluster/chief_watch.h"

#include <gtest/gtest.h>

namespace tethys {
namespace {

using Verdict = ChiefWatch::Verdict;

// The chief counts as lost after 20 s of silence, and the task as stuck 5 s later. Look is called once a
// second. Of the time between two calls, at most 2 s count as silence.
class ChiefWatchTest : public ::testing::Test {
 protected:
  Verdict After(Nanoseconds seconds, int64_t heard = 0, bool broken = false) {
    Verdict verdict = Verdict::kPresent;
    for (Nanoseconds i = 0; i < seconds; ++i) verdict = watch_.Look(now_ += kSecond, heard, broken);
    return verdict;
  }

  Nanoseconds now_ = 1000 * kSecond;
  ChiefWatch watch_{20 * kSecond, 5 * kSecond, 2 * kSecond, now_};
};

TEST_F(ChiefWatchTest, SilentChief_IsLostAndAfterTheGracePeriodTheTaskIsStuck) {
  EXPECT_EQ(After(20), Verdict::kPresent);
  EXPECT_EQ(After(1), Verdict::kLost);
  EXPECT_EQ(After(5), Verdict::kLost);
  EXPECT_EQ(After(1), Verdict::kStuck);
}

TEST_F(ChiefWatchTest, ChiefThatSendsMessages_IsNotLost) {
  for (int64_t heard = 1; heard < 10; ++heard) EXPECT_EQ(After(19, heard), Verdict::kPresent);
}

TEST_F(ChiefWatchTest, BrokenSession_MakesTheChiefLostAtOnce) {
  EXPECT_EQ(After(1, 0, true), Verdict::kLost);
  EXPECT_EQ(After(6, 0, true), Verdict::kStuck);
}

TEST_F(ChiefWatchTest, LostChiefThatSendsAgain_StaysLost) {
  EXPECT_EQ(After(21), Verdict::kLost);
  EXPECT_EQ(After(6, 1), Verdict::kStuck);
}

TEST_F(ChiefWatchTest, TimeWhenThisProcessWasStopped_IsNoSilenceOfTheChief) {
  now_ += 1000 * kSecond;
  EXPECT_EQ(After(18), Verdict::kPresent);
  EXPECT_EQ(After(1, 1), Verdict::kPresent);
}

}  // namespace
}  // namespace tethys
