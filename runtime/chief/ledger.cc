#include "runtime/chief/ledger.h"

#include <algorithm>

namespace tethys {

SampleLedger::SampleLedger(Slice segment, int64_t batch, int workers)
    : segment_(segment), batch_(batch), workers_(workers), next_(segment.begin) {}

std::vector<Slice> SampleLedger::Lease(int worker, int batches) {
  std::vector<Slice> leases;
  if (batch_ <= 0) return leases;
  const int64_t left = (segment_.end - next_ + batch_ - 1) / batch_;
  const int64_t fair = std::max<int64_t>(1, left / (2 * workers_));
  const int64_t count = std::min<int64_t>({batches, fair, left});
  for (int64_t i = 0; i < count; ++i) {
    const Slice lease{next_, std::min(next_ + batch_, segment_.end)};
    lease_[lease.begin] = worker;
    leases.push_back(lease);
    next_ = lease.end;
  }
  return leases;
}

absl::Status SampleLedger::Use(int worker, Slice positions) {
  const auto refuse = [&](absl::string_view why) {
    return absl::FailedPreconditionError(absl::StrCat(
        "worker ", worker, " reports positions [", positions.begin, ", ", positions.end, ") as used, ", why));
  };
  if (positions.count() == 0) return absl::OkStatus();
  if (positions.count() < 0 || positions.begin < segment_.begin || positions.end > segment_.end) {
    return refuse(absl::StrCat("outside the segment [", segment_.begin, ", ", segment_.end, ")"));
  }
  if (batch_ > 0) {
    const auto lease = lease_.find(positions.begin);
    if (lease == lease_.end() || lease->second != worker) return refuse("for which it holds no lease");
    lease_.erase(lease);
  }
  auto after = used_.upper_bound(positions.begin);
  if (after != used_.end() && after->first < positions.end) return refuse("some of which are used already");
  auto before = after == used_.begin() ? used_.end() : std::prev(after);
  if (before != used_.end() && before->second > positions.begin)
    return refuse("some of which are used already");
  used_count_ += positions.count();
  int64_t end = positions.end;
  if (after != used_.end() && after->first == end) {
    end = after->second;
    used_.erase(after);
  }
  if (before != used_.end() && before->second == positions.begin) {
    before->second = end;
  } else {
    used_[positions.begin] = end;
  }
  return absl::OkStatus();
}

int64_t SampleLedger::first_unused() const {
  if (used_.empty() || used_.begin()->first != segment_.begin) return segment_.begin;
  return used_.begin()->second;
}

}  // namespace tethys
