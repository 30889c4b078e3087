#include "ps/frame_checks.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace tethys {
namespace {

constexpr size_t kNamedVariables = 3;  // The most variables that an error names.

bool SamePush(const Frame& a, const Frame& b) {
  return a.sequence == b.sequence && a.step == b.step && a.global_sample_count == b.global_sample_count &&
         a.sample_begin == b.sample_begin && a.sample_count == b.sample_count &&
         a.schedule_position == b.schedule_position && a.base_version == b.base_version;
}

}  // namespace

PushedStep StepOf(const Frame& push) {
  return {.worker = static_cast<int>(push.rank),
          .step = push.step,
          .version = push.base_version,
          .samples = static_cast<int64_t>(push.sample_count),
          .global_samples = push.global_sample_count,
          .position = push.schedule_position};
}

std::string FrameChecks::Who(const Frame& frame) const {
  const bool known = frame.rank < config_.workers.size();
  return absl::StrCat("server ", config_.server, " refuses worker ",
                      known ? config_.workers[frame.rank] : static_cast<int>(frame.rank), ", step ",
                      frame.step, ": ");
}

absl::Status FrameChecks::Refusal(const absl::Status& error, const Frame& frame) const {
  return absl::Status(error.code(), absl::StrCat(Who(frame), error.message()));
}

absl::Status FrameChecks::CheckSender(const Frame& frame) const {
  if (frame.rank >= config_.workers.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(Who(frame), "the job has ", config_.workers.size(), " workers, whose ranks begin at 0"));
  }
  if (frame.generation != config_.generation) {
    return absl::FailedPreconditionError(absl::StrCat(Who(frame), "the worker's generation is ",
                                                      frame.generation, ", but the generation of the job is ",
                                                      config_.generation, ": join again"));
  }
  return absl::OkStatus();
}

absl::Status FrameChecks::CheckIncarnation(const Frame& frame, const PushInbox& inbox) const {
  if (frame.incarnation < inbox.incarnation) {
    return absl::FailedPreconditionError(absl::StrCat(Who(frame), "the worker's incarnation is ",
                                                      frame.incarnation, ", but incarnation ",
                                                      inbox.incarnation, " has taken its place"));
  }
  return absl::OkStatus();
}

absl::Status FrameChecks::CheckPart(const Frame& frame, PayloadPieces payload, const PushInbox& inbox,
                                    const ConsistencyRule& rule, int64_t version) const {
  const uint64_t expected = frame.sample_count == 0 ? 0 : frame.range_count * sizeof(float);
  if (frame.dtype != FrameDType::kFloat32 || frame.payload_bytes != expected ||
      PayloadBytes(payload) != static_cast<int64_t>(expected)) {
    return absl::InvalidArgumentError(absl::StrCat(
        Who(frame), frame.range_count, " gradients of a batch of ", frame.sample_count, " samples must take ",
        expected, " bytes of float32 (0 bytes if the batch has no samples), but the message has ",
        PayloadBytes(payload), " bytes"));
  }
  if (frame.sample_count > static_cast<uint64_t>(config_.global_batch)) {
    return absl::InvalidArgumentError(absl::StrCat(Who(frame), "the gradients are sums over ",
                                                   frame.sample_count, " samples, but the global batch is ",
                                                   config_.global_batch));
  }
  if (inbox.has_push()) {
    const Frame& push = inbox.push;
    if (SamePush(frame, push)) return absl::OkStatus();
    return absl::OutOfRangeError(absl::StrCat(Who(frame), "push ", push.sequence, " of step ", push.step,
                                              " is not complete, and push ", frame.sequence, " of step ",
                                              frame.step, " is not a part of it"));
  }
  if (frame.sequence != inbox.applied.sequence + 1) {
    return absl::OutOfRangeError(absl::StrCat(Who(frame), "expected push ", inbox.applied.sequence + 1,
                                              ", got push ", frame.sequence));
  }
  const absl::Status follows = rule.Check(StepOf(frame), static_cast<uint64_t>(version));
  return follows.ok() ? follows : Refusal(follows, frame);
}

absl::Status FrameChecks::CheckOverlap(const Frame& frame, Range local, const PushInbox& inbox) const {
  const PushParts::Part* part = inbox.parts.FindOverlap(local);
  if (part == nullptr) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      Who(frame), "the range of ", frame.range_count, " elements that begins at element ", frame.range_begin,
      " overlaps the range of ", part->arena.count, " elements that begins at element ", part->arena.begin,
      ", which this worker sent before"));
}

absl::Status FrameChecks::CheckIntact(const Frame& frame, PayloadPieces payload) const {
  const absl::Status intact = CheckPayload(frame, payload);
  return intact.ok() ? intact : Refusal(intact, frame);
}

absl::Status FrameChecks::LostWithinStep(const PushInbox& inbox) const {
  return absl::FailedPreconditionError(absl::StrCat(Who(inbox.push), "incarnation ", inbox.incarnation,
                                                    " was lost in the middle of step ", inbox.push.step,
                                                    ": resume the job from its checkpoint"));
}

absl::Status FrameChecks::NotFinite(const Frame& frame, const ShardLayout& layout) const {
  const Range arena{static_cast<int64_t>(frame.range_begin), static_cast<int64_t>(frame.range_count)};
  std::vector<std::string> variables;
  for (const ShardLayout::Shard& shard : layout.shards()) {
    const bool among = shard.arena.begin < arena.end() && arena.begin < shard.arena.end();
    if (among && (variables.empty() || variables.back() != shard.variable)) {
      variables.push_back(shard.variable);
    }
  }
  const size_t more = variables.size() - std::min(variables.size(), kNamedVariables);
  variables.resize(variables.size() - more);
  return absl::FailedPreconditionError(absl::StrCat(
      Who(frame), "a gradient, or its sum with the gradients of other workers, is NaN or infinite (in ",
      absl::StrJoin(variables, ", "), more > 0 ? absl::StrCat(" and ", more, " more") : "",
      "); the step is not applied. Lower optimizer.learning_rate, or check the data"));
}

}  // namespace tethys
