#include "runtime/chief/ledger.h"

#include <map>

namespace tethys {

absl::Status SampleLedger::Use(int worker, Slice positions) {
  const auto refuse = [&](absl::string_view why) {
    return absl::FailedPreconditionError(absl::StrCat(
        "worker ", worker, " reports positions [", positions.begin, ", ", positions.end, ") as used: ", why));
  };
  if (positions.count() == 0) return absl::OkStatus();
  if (positions.count() < 0 || positions.begin < segment_.begin || positions.end > segment_.end) {
    return refuse(absl::StrCat("they are outside the segment [", segment_.begin, ", ", segment_.end, ")"));
  }
  if (used_.Add(positions.begin, positions.end) != IntervalSet::kNone) {
    return refuse("some of them are used already");
  }
  return absl::OkStatus();
}

int64_t SampleLedger::first_unused() const {
  const std::map<int64_t, int64_t>& used = used_.intervals();
  return used.empty() || used.begin()->first != segment_.begin ? segment_.begin : used.begin()->second;
}

}  // namespace tethys
