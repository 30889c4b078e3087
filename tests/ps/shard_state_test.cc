#include "ps/shard_state.h"

#include <cstring>
#include <string>
#include <vector>

#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace tethys {
namespace {

// Two shards of 8 and 3 elements, updated with gradients that differ by element and update.
class ShardStateTest : public ::testing::Test {
 protected:
  void Make(const std::string& optimizer, bool keeps_undo) {
    proto::Optimizer config;
    ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(optimizer, &config)) << optimizer;
    proto::Placement placement;
    placement.set_servers(1);
    for (const Range& range : {Range{0, 8}, Range{16, 3}}) {
      proto::Shard& shard = *placement.add_shard();
      shard.set_variable(range.begin == 0 ? "a" : "b");
      shard.set_begin(range.begin);
      shard.set_count(range.count);
    }
    layout_ = ShardLayout::Create(placement, 0, 32).value();
    std::vector<NamedRange> ranges;
    for (const ShardLayout::Shard& shard : layout_.shards()) ranges.push_back({shard.variable, shard.local});
    state_.emplace(layout_, SlotsOf(config),
                   CreateOptimizer(config, *device_, MakeUpdateRegions(config, ranges)).value(), *stream_,
                   keeps_undo);
    for (Arena* arena : state_->arenas()) *arena = Arena(layout_.local_size());
    state_->Initialize();
    sums_.clear();
    for (int64_t i = 0; i < layout_.local_size(); ++i) sums_.push_back(static_cast<float>(i % 5) - 1.7f);
  }

  Update UpdateOf(int64_t number, Range part) const {
    return {.learning_rate = 0.1,
            .gradient_scale = 1.0 / static_cast<double>(number + 2),
            .number = number,
            .part = part,
            .gradients_are_finite = true};
  }
  // Updates `parts`. If `measures`, first measures the sums of squares, as an optimizer with a trust ratio
  // needs.
  void Apply(int64_t number, const std::vector<Range>& parts, bool measures) {
    std::vector<RegionSquares> squares(2);
    if (measures) {
      ASSERT_TRUE(state_->Measure(UpdateOf(number, kWholeArena), sums_.data(), absl::MakeSpan(squares)).ok());
    }
    for (const Range& part : parts) {
      Update update = UpdateOf(number, part);
      if (measures) update.squares = squares;
      ASSERT_TRUE(state_->Apply(update, sums_.data()).ok());
    }
  }
  // The bit patterns of all parameters and slots.
  std::vector<uint32_t> Bits() {
    std::vector<uint32_t> bits;
    const absl::Status read = state_->ForEachShard([&](int, int64_t, absl::Span<float> values) {
      for (const float value : values) std::memcpy(&bits.emplace_back(), &value, sizeof(value));
      return absl::OkStatus();
    });
    EXPECT_TRUE(read.ok()) << read;
    return bits;
  }

  ShardLayout layout_;
  std::vector<float> sums_;
  const std::unique_ptr<Device> device_ = CreateCpuDevice(1).value();
  const std::unique_ptr<Stream> stream_ = device_->CreateStream().value();
  absl::optional<ShardState> state_;
};

constexpr struct {
  const char* optimizer;
  bool measures;
} kOptimizers[] = {{"sgd {}", false},
                   {"sgd { momentum: 0.9 }", false},
                   {"adam { beta_1: 0.9 beta_2: 0.99 epsilon: 1e-7 }", false},
                   {"adagrad { initial_accumulator: 0.1 epsilon: 1e-7 }", false},
                   {"lars { momentum: 0.9 trust: 0.001 epsilon: 1e-8 }", true},
                   {"lamb { beta_1: 0.9 beta_2: 0.99 epsilon: 1e-6 }", true}};

TEST_F(ShardStateTest, PartlyAppliedUpdateIsTakenBackBitForBitAndAppliedAgain) {
  for (const auto& [optimizer, measures] : kOptimizers) {
    SCOPED_TRACE(optimizer);
    Make(optimizer, /*keeps_undo=*/true);
    Apply(1, {{0, 19}}, measures);
    const std::vector<uint32_t> before = Bits();
    Apply(2, {{16, 3}, {2, 5}}, measures);
    EXPECT_NE(Bits(), before);
    EXPECT_EQ(state_->undo_number(), 2);
    state_->TakeBack();
    EXPECT_EQ(Bits(), before);
    EXPECT_EQ(state_->undo_number(), 0);
    Apply(2, {{0, 8}, {8, 11}}, measures);
    const std::vector<uint32_t> again = Bits();

    Make(optimizer, /*keeps_undo=*/false);
    Apply(1, {{0, 19}}, measures);
    Apply(2, {{0, 19}}, measures);
    EXPECT_EQ(Bits(), again);
    state_->TakeBack();  // There is no undo, so TakeBack changes nothing.
    EXPECT_EQ(Bits(), again);
  }
}

TEST_F(ShardStateTest, TakeBackRestoresSlotsThatAGradientMeasurementChangedBeforeAnyUpdate) {
  Make("lamb { beta_1: 0.9 beta_2: 0.99 epsilon: 1e-6 }", true);
  Apply(1, {{0, 19}}, true);
  const std::vector<uint32_t> before = Bits();
  Apply(2, {}, true);
  EXPECT_NE(Bits(), before);
  state_->TakeBack();
  EXPECT_EQ(Bits(), before);
}

TEST_F(ShardStateTest, ValuesSavedBeforeAnUpdateAreOverwrittenByTheNextUpdate) {
  Make("sgd { momentum: 0.9 }", true);
  Apply(1, {{0, 19}}, false);
  const std::vector<uint32_t> before = Bits();
  Apply(2, {{0, 8}}, false);
  state_->TakeBack();
  EXPECT_EQ(Bits(), before);
  Apply(2, {{0, 19}}, false);
  const std::vector<uint32_t> after = Bits();
  state_->ForgetUndo();
  state_->TakeBack();
  EXPECT_EQ(Bits(), after);
}

TEST_F(ShardStateTest, SlotsBeginWithTheirInitialValues) {
  Make("adagrad { initial_accumulator: 0.5 epsilon: 1e-7 }", false);
  EXPECT_EQ(state_->arenas().size(), 2);
  EXPECT_EQ(state_->arenas()[1]->span()[7], 0.5f);
  EXPECT_EQ(state_->arenas()[1]->span()[8], 0);  // Element 8 is padding.
  Make("adagrad { initial_accumulator: 0.5 epsilon: 1e-7 }", true);
  EXPECT_EQ(state_->arenas().size(), 4);
}

}  // namespace
}  // namespace tethys
