// A segment whose batches the chief leases.
//
//   chief: Run, Lease{k batches}            the first lease comes without a request
//   worker, when at most kLowWater batches are left: LeaseRequest{kAskFor}; chief: Lease{...}
//   chief: Lease{..., last}; the worker uses the batches that it holds and ends the segment
//
// Invariant: at most one request is outstanding, and none once the last lease came.
#include <deque>

#include "workers/segment_course.h"

namespace tethys {
namespace {

// A worker requests kAskFor more batches when at most kLowWater are left.
constexpr size_t kLowWater = 2;
constexpr int kAskFor = 4;

class LeasedSegment final : public SegmentCourse {
 public:
  LeasedSegment(const proto::Run& run, bool in_rounds, int64_t first_step)
      : run_(run), in_rounds_(in_rounds), step_(first_step) {}

  bool ended() const override { return last_ && leases_.empty() && !any_announced(); }
  bool takes_orders() const override { return !ended(); }
  bool waits() const override { return !last_ && leases_.empty() && !any_announced(); }

  absl::StatusOr<bool> OnOrder(const proto::ToTask& order, Messages& messages) override {
    if (!order.has_lease() || order.lease().run() != run_.number()) return false;
    for (const proto::LeaseRange& range : order.lease().range()) {
      const bool in_step = range.begin() >= range.step_begin() && range.begin() <= range.end() &&
                           range.end() - range.step_begin() <= range.step_count();
      if (!in_step || range.begin() < run_.begin() || range.end() > run_.end()) {
        return absl::InternalError(absl::StrCat("the chief leased positions [", range.begin(), ", ",
                                                range.end(),
                                                "), which do not all lie in one step of the segment"));
      }
      leases_.push_back({.positions = {range.begin(), range.end()},
                         .global_count = range.step_count(),
                         .step_begin = range.step_begin(),
                         .step = in_rounds_ ? range.clock() : step_++});
    }
    last_ = order.lease().last();
    may_ask_ = true;
    AskIfFew(messages);
    return true;
  }

 protected:
  absl::optional<BatchAssignment> Next(Messages& messages) override {
    AskIfFew(messages);
    if (leases_.empty()) return absl::nullopt;
    const BatchAssignment batch = leases_.front();
    leases_.pop_front();
    return batch;
  }

 private:
  void AskIfFew(Messages& messages) {
    if (last_ || !may_ask_ || leases_.size() > kLowWater) return;
    messages.emplace_back().mutable_lease_request()->set_batches(kAskFor);
    may_ask_ = false;
  }

  const proto::Run run_;
  const bool in_rounds_;
  std::deque<BatchAssignment> leases_;  // Leased batches that are not announced yet.
  int64_t step_;                        // With leases on demand: the number of the next leased batch.
  bool may_ask_ = false;                // False until the first lease, and while a request is not answered.
  bool last_ = false;
};

}  // namespace

std::unique_ptr<SegmentCourse> CreateLeasedSegment(const proto::Run& run, bool in_rounds,
                                                   int64_t first_step) {
  return std::make_unique<LeasedSegment>(run, in_rounds, first_step);
}

}  // namespace tethys
