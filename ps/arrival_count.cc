#include "ps/arrival_count.h"

#include <iterator>

#include "runtime/base/status.h"

namespace tethys {

void ArrivalCount::Clear() {
  pieces_.clear();
  if (size_ > 0) pieces_[0] = {size_, workers_};
}

ArrivalCount::Pieces::iterator ArrivalCount::CutAt(int64_t position) {
  const auto after = pieces_.upper_bound(position);
  const auto around = std::prev(after);
  if (around->first == position) return around;
  const Piece rest = around->second;
  around->second.end = position;
  return pieces_.emplace_hint(after, position, rest);
}

std::vector<Range> ArrivalCount::Add(Range part) {
  TETHYS_CHECK(part.begin >= 0 && part.count > 0 && part.end() <= size_);
  if (part.end() < size_) CutAt(part.end());
  auto piece = CutAt(part.begin);
  std::vector<Range> complete;
  for (; piece != pieces_.end() && piece->first < part.end(); ++piece) {
    if (--piece->second.missing == 0) complete.push_back({piece->first, piece->second.end - piece->first});
  }
  return complete;
}

}  // namespace tethys
