#include "ps/norm_exchange.h"

#include <limits>
#include <string>
#include <vector>

#include "absl/types/optional.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tethys {
namespace {

using ::testing::AllOf;
using ::testing::DoubleNear;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// An exchange for two shards of 8 and 3 elements, for a worker that has pushed step 5 as its push 6.
class NormExchangeTest : public ::testing::Test {
 protected:
  void Make(double clip_norm, bool measures, bool lock_step = true) {
    config_.clip_norm = clip_norm;
    config_.measures = measures;
    proto::Placement placement;
    placement.set_servers(1);
    for (const Range& range : {Range{0, 8}, Range{16, 3}}) {
      proto::Shard& shard = *placement.add_shard();
      shard.set_variable(range.begin == 0 ? "a" : "b");
      shard.set_begin(range.begin);
      shard.set_count(range.count);
    }
    layout_ = ShardLayout::Create(placement, 0, 32).value();
    norms_.emplace(config_, lock_step, layout_, checks_);
    inbox_.push = FrameOf(FrameKind::kPush);
  }
  static Frame FrameOf(FrameKind kind) {
    Frame frame;
    frame.kind = kind;
    frame.sequence = 6;
    frame.step = 5;
    return frame;
  }
  // Takes a frame. Returns "wait", "answer", "measure", "update", or the error.
  std::string Take(FrameKind kind, uint64_t values, const std::vector<double>& sent = {}) {
    Frame frame = FrameOf(kind);
    frame.dtype = FrameDType::kFloat64;
    frame.range_count = values;
    frame.payload_bytes = sent.size() * sizeof(double);
    const absl::string_view payload(reinterpret_cast<const char*>(sent.data()), frame.payload_bytes);
    if (const absl::Status wanted = norms_->CheckWanted(frame); !wanted.ok()) return StatusText(wanted);
    const auto next = norms_->Take(frame, {payload}, inbox_);
    if (!next.ok()) return StatusText(next.status());
    constexpr const char* kWords[] = {"wait", "answer", "measure", "update"};
    return kWords[static_cast<int>(*next)];
  }
  // Records that the current push has been applied, which completes the step for the worker, too.
  void EndPush() {
    inbox_.applied = inbox_.push;
    inbox_.push = Frame{};
  }

  StoreConfig config_{
      .slots = {}, .schedule = LearningRateSchedule(proto::Optimizer(), {}), .parameter_server = {}};
  ShardLayout layout_;
  FrameChecks checks_{config_};
  PushInbox inbox_;
  absl::optional<NormExchange> norms_;
};

TEST_F(NormExchangeTest, ClippedStepIsHeldFromItsLastSumToItsCommit) {
  Make(2, false);
  EXPECT_FALSE(norms_->Add(8));
  EXPECT_EQ(Take(FrameKind::kNorm, 1), "wait");
  EXPECT_THAT(Take(FrameKind::kCommit, 1, {9}), HasSubstr("not all gradients of its step have arrived"));
  EXPECT_TRUE(norms_->Add(3));
  EXPECT_FALSE(norms_->Add(0));  // A range of padding after the last element.
  EXPECT_TRUE(norms_->holds_step());
  norms_->SetNorm(9);
  EXPECT_EQ(Take(FrameKind::kNorm, 1), "answer");
  EXPECT_EQ(norms_->AnswerTo(FrameKind::kNorm, inbox_.push).values[0], 9);
  EXPECT_EQ(Take(FrameKind::kCommit, 1, {16}), "update");
  Update update;
  norms_->Clip(update);
  EXPECT_THAT(update.gradient_scale, DoubleNear(0.5, 1e-5));  // The norm is 4, and is clipped to 2.
  EXPECT_THAT(norms_->End(), IsEmpty());
  EXPECT_FALSE(norms_->holds_step());
  EndPush();
  EXPECT_EQ(Take(FrameKind::kCommit, 1, {16}), "answer");
  EXPECT_THAT(Take(FrameKind::kCommit, 1, {17}),
              HasSubstr("but the sums of another worker for the same step"));
}

TEST_F(NormExchangeTest, TrustRatiosAreMeasuredOnceThenCommitted) {
  Make(0, true);
  norms_->Add(8);
  EXPECT_EQ(Take(FrameKind::kMeasure, 4), "wait");
  norms_->Add(3);
  EXPECT_THAT(Take(FrameKind::kCommit, 4, {1, 2, 3, 4}), HasSubstr("have not been measured"));
  EXPECT_EQ(Take(FrameKind::kMeasure, 4), "measure");
  norms_->SetMeasured({{.parameters = 1, .measured = 2}, {.parameters = 3, .measured = 4}});
  EXPECT_EQ(Take(FrameKind::kMeasure, 4), "answer");
  EXPECT_THAT(norms_->AnswerTo(FrameKind::kMeasure, inbox_.push).values, SizeIs(4));
  EXPECT_THAT(Take(FrameKind::kCommit, 4, {1, 2, 3, 3}), HasSubstr("below this server's own sum of 4"));
  EXPECT_EQ(Take(FrameKind::kCommit, 4, {1, 2, 3, 5}), "update");
  const std::vector<RegionSquares> squares = norms_->End();
  ASSERT_THAT(squares, SizeIs(2));
  EXPECT_EQ(squares[1].parameters, 3);
  EXPECT_EQ(squares[1].measured, 5);
}

TEST_F(NormExchangeTest, TrustRatiosOfClippedGradientsUseTheTotalNorm) {
  Make(2, true);
  norms_->Add(11);
  norms_->SetNorm(9);
  EXPECT_THAT(Take(FrameKind::kMeasure, 4, {std::numeric_limits<double>::infinity()}),
              HasSubstr("expected a finite number"));
  EXPECT_EQ(Take(FrameKind::kMeasure, 4, {16}), "measure");
  norms_->SetMeasured({{.parameters = 0, .measured = 1}, {.parameters = 0, .measured = 1}});
  EXPECT_EQ(Take(FrameKind::kCommit, 4, {0, 1, 0, 1}), "update");
  Update update;
  norms_->Clip(update);
  EXPECT_THAT(update.gradient_scale, DoubleNear(0.5, 1e-5));
}

TEST_F(NormExchangeTest, NormFramesThatAreNotNeededOrOfAnotherPushAreRefused) {
  Make(0, false);
  EXPECT_FALSE(norms_->holds_back());
  EXPECT_THAT(Take(FrameKind::kNorm, 1), HasSubstr("do not clip gradients"));
  EXPECT_THAT(Take(FrameKind::kMeasure, 4), HasSubstr("need none"));
  EXPECT_THAT(Take(FrameKind::kCommit, 1, {1}), HasSubstr("wait for no norm"));
  Make(2, true, /*lock_step=*/false);
  EXPECT_FALSE(norms_->holds_back());
  Make(2, false);
  EXPECT_THAT(Take(FrameKind::kNorm, 2), HasSubstr("expected an exchange of 1 sums of squares"));
  inbox_.push.sequence = 7;
  EXPECT_THAT(Take(FrameKind::kNorm, 1),
              AllOf(HasSubstr("OUT_OF_RANGE"), HasSubstr("its last push is 7 of step 5")));
}

}  // namespace
}  // namespace tethys
