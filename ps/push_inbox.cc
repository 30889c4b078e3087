#include "ps/push_inbox.h"

namespace tethys {

void PushInbox::Add(const Frame& part, Range local, int64_t elements) {
  push = part;
  parts.Add(
      {.arena = {static_cast<int64_t>(part.range_begin), local.count}, .local = local, .waiting = elements});
  received += elements;
}

void PushInbox::MarkUpdated(const ShardLayout& layout, Range local,
                            absl::FunctionRef<void(PushParts::Part&)> updated) {
  parts.ForEachIn(local, [&](PushParts::Part& part) {
    part.waiting -= layout.ElementsIn(Intersection(part.local, local));
    if (part.waiting == 0) updated(part);
  });
}

proto::AppliedPush PushInbox::Apply(int64_t version, int64_t push_staleness) {
  applied = push;
  staleness = push_staleness;
  proto::AppliedPush record;
  record.set_worker(worker);
  record.set_incarnation(incarnation);
  record.set_sequence(static_cast<int64_t>(applied.sequence));
  record.set_sample_begin(static_cast<int64_t>(applied.sample_begin));
  record.set_sample_count(static_cast<int64_t>(applied.sample_count));
  record.set_version(version);
  record.set_staleness(staleness);
  return record;
}

void PushInbox::ForgetPush() {
  push = Frame{};
  parts.Clear();
  received = 0;
  awaits_norm = false;
}

void PushInbox::Replace(uint32_t new_incarnation) {
  ForgetPush();
  pulls.clear();
  incarnation = new_incarnation;
  applied = Frame{};
  staleness = 0;
}

}  // namespace tethys
