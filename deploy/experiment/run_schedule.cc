#include "deploy/experiment/run_schedule.h"

#include <numeric>

#include "deploy/report/report_value.h"
#include "runtime/base/random.h"
#include "runtime/base/status.h"

namespace tethys {

RunSchedule::RunSchedule(const ScheduleOptions& options) : options_(options) {
  std::vector<int> all(options.variants);
  std::iota(all.begin(), all.end(), 0);
  for (int block = 0; block < options.repeats; ++block) AddBlock(all);
}

absl::optional<RunSlot> RunSchedule::Next() const {
  if (to_come_.empty() && again_.empty()) return absl::nullopt;
  const bool block_ends = to_come_.empty() || (!again_.empty() && to_come_[0].block != again_[0].block);
  return block_ends ? again_[0] : to_come_[0];
}

void RunSchedule::Finished(bool disturbed) {
  const absl::optional<RunSlot> slot = Next();
  TETHYS_CHECK(slot.has_value());
  if (slot->again) {
    again_.erase(again_.begin());
    return;
  }
  to_come_.pop_front();
  if (disturbed) again_.push_back({.variant = slot->variant, .block = slot->block, .again = true});
}

void RunSchedule::AddBlock(absl::Span<const int> variants) {
  std::vector<uint32_t> order(variants.size());
  std::iota(order.begin(), order.end(), 0u);
  if (options_.random) {
    order = RandomPermutation(RandomStream(options_.seed, RandomPurpose::kShuffle, blocks_),
                              static_cast<int64_t>(variants.size()));
  }
  for (const uint32_t i : order) to_come_.push_back({.variant = variants[i], .block = blocks_});
  ++blocks_;
}

std::vector<RunSlot> RunSchedule::ToCome() const {
  std::vector<RunSlot> all;
  auto next = to_come_.begin();
  const int block = again_.empty() ? -1 : again_[0].block;
  while (next != to_come_.end() && next->block == block) all.push_back(*next++);
  all.insert(all.end(), again_.begin(), again_.end());
  all.insert(all.end(), next, to_come_.end());
  return all;
}

std::vector<int> VariantsNotWithin(double share, absl::Span<const RunRecord> runs, int variants) {
  std::vector<int> wide;
  for (int variant = 0; variant < variants; ++variant) {
    const proto::ReportVariant means = MeansOver(runs, variant, absl::nullopt);
    const proto::ReportValue& seconds = means.seconds();
    if (seconds.count() == 0) continue;
    const double half = HalfWidth(seconds);
    if (seconds.count() < 2 || half > share * seconds.mean()) wide.push_back(variant);
  }
  return wide;
}

}  // namespace tethys
