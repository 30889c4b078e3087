#include "ps/push_parts.h"

#include <iterator>

namespace tethys {

void PushParts::Add(const Part& part) {
  places_.emplace(part.local.begin, parts_.size());
  parts_.push_back(part);
}

void PushParts::Clear() {
  parts_.clear();
  places_.clear();
}

const PushParts::Part* PushParts::Find(Range local) const {
  const auto place = places_.find(local.begin);
  return place != places_.end() && parts_[place->second].local == local ? &parts_[place->second] : nullptr;
}

const PushParts::Part* PushParts::FindOverlap(Range local) const {
  const auto place = FirstEndingAfter(local.begin);
  return place != places_.end() && place->first < local.end() ? &parts_[place->second] : nullptr;
}

void PushParts::ForEachIn(Range local, absl::FunctionRef<void(Part&)> function) {
  for (auto place = FirstEndingAfter(local.begin); place != places_.end() && place->first < local.end();
       ++place) {
    function(parts_[place->second]);
  }
}

PushParts::Places::const_iterator PushParts::FirstEndingAfter(int64_t position) const {
  const auto after = places_.upper_bound(position);
  if (after == places_.begin()) return after;
  const auto before = std::prev(after);
  return parts_[before->second].local.end() > position ? before : after;
}

}  // namespace tethys
