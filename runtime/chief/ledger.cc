#include "runtime/chief/ledger.h"

namespace tethys {

absl::Status SampleLedger::Use(int worker, Slice positions) {
  const auto refuse = [&](absl::string_view why) {
    return absl::FailedPreconditionError(absl::StrCat(
        "worker ", worker, " reports positions [", positions.begin, ", ", positions.end, ") as used, ", why));
  };
  if (positions.count() == 0) return absl::OkStatus();
  if (positions.count() < 0 || positions.begin < segment_.begin || positions.end > segment_.end) {
    return refuse(absl::StrCat("outside the segment [", segment_.begin, ", ", segment_.end, ")"));
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
