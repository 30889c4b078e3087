#include "workers/batch_sequence.h"

#include <deque>

namespace tethys {
namespace {

// A sequence requests kAskFor more batches when at most kLowWater are left.
constexpr size_t kLowWater = 2;
constexpr int kAskFor = 4;

class LockStepSequence final : public BatchSequence {
 public:
  LockStepSequence(const proto::Run& run, int64_t global_batch, int rank, int world)
      : run_(run),
        global_batch_(global_batch),
        rank_(rank),
        world_(world),
        steps_(StepsPerEpoch(run.end() - run.begin(), global_batch, false)) {}

  absl::StatusOr<absl::optional<BatchAssignment>> Next(bool) override {
    if (step_ == steps_) return absl::optional<BatchAssignment>();
    const int64_t samples = run_.end() - run_.begin();
    const Slice whole = StepSlice(samples, global_batch_, step_);
    const Slice mine = StepSlice(samples, global_batch_, step_, rank_, world_);
    ++step_;
    return absl::optional<BatchAssignment>(BatchAssignment{
        {run_.begin() + mine.begin, run_.begin() + mine.end}, whole.count(), run_.begin() + whole.begin});
  }

 private:
  const proto::Run run_;
  const int64_t global_batch_;
  const int rank_;
  const int world_;
  const int64_t steps_;
  int64_t step_ = 0;
};

class LeasedSequence final : public BatchSequence {
 public:
  LeasedSequence(const proto::Run& run, TaskSession& session) : run_(run), session_(session) {}

  absl::StatusOr<absl::optional<BatchAssignment>> Next(bool wait) override {
    while (true) {
      if (!last_ && !asked_ && leases_.size() <= kLowWater && received_) Ask();
      absl::optional<proto::ToTask> order;
      if (leases_.empty() && !last_ && wait) {
        TETHYS_ASSIGN_OR_RETURN(order, session_.Receive());
      } else {
        TETHYS_ASSIGN_OR_RETURN(order, session_.Poll());
      }
      if (!order.has_value()) break;
      TETHYS_RETURN_IF_ERROR(Take(*order));
    }
    if (leases_.empty()) return absl::optional<BatchAssignment>();
    const BatchAssignment batch = leases_.front();
    leases_.pop_front();
    return absl::optional<BatchAssignment>(batch);
  }

 private:
  void Ask() {
    proto::FromTask message;
    message.mutable_lease_request()->set_batches(kAskFor);
    session_.Send(std::move(message));
    asked_ = true;
  }

  absl::Status Take(const proto::ToTask& order) {
    if (order.has_stop())
      return absl::AbortedError(absl::StrCat("the chief ended the job: ", order.stop().reason()));
    if (!order.has_lease() || order.lease().run() != run_.number()) {
      return absl::InternalError("the chief sent an order other than a lease within a segment");
    }
    for (const proto::LeaseRange& range : order.lease().range()) {
      const bool in_step = range.begin() >= range.step_begin() && range.begin() <= range.end() &&
                           range.end() - range.step_begin() <= range.step_count();
      if (!in_step || range.begin() < run_.begin() || range.end() > run_.end()) {
        return absl::InternalError(absl::StrCat("the chief leased positions [", range.begin(), ", ",
                                                range.end(), "), outside the segment"));
      }
      leases_.push_back({.positions = {range.begin(), range.end()},
                         .global_count = range.step_count(),
                         .step_begin = range.step_begin(),
                         .clock = range.clock()});
    }
    last_ = order.lease().last();
    received_ = true;
    asked_ = false;
    return absl::OkStatus();
  }

  const proto::Run run_;
  TaskSession& session_;
  std::deque<BatchAssignment> leases_;
  bool received_ = false;  // The chief sends the first lease without a request.
  bool asked_ = false;
  bool last_ = false;
};

}  // namespace

std::unique_ptr<BatchSequence> CreateLockStepSequence(const proto::Run& run, int64_t global_batch, int rank,
                                                      int world) {
  return std::make_unique<LockStepSequence>(run, global_batch, rank, world);
}

std::unique_ptr<BatchSequence> CreateLeasedSequence(const proto::Run& run, TaskSession& session) {
  return std::make_unique<LeasedSequence>(run, session);
}

}  // namespace tethys
