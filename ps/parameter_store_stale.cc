// The stale-synchronous rule (when a worker may begin its next step, and which pushes are then applied), and
// OnFence, which is for all consistencies.
#include <algorithm>
#include <utility>

#include "ps/consistency.h"
#include "ps/parameter_store.h"

namespace tethys {

uint64_t ParameterStore::SlowestClock() const {
  uint64_t slowest = UINT64_MAX;
  for (const PushInbox& inbox : inboxes_) {
    if (inbox.takes_part) slowest = std::min(slowest, inbox.clock);
  }
  return slowest;
}

bool ParameterStore::MayBegin(uint64_t step, uint64_t slowest) const {
  const auto bound = static_cast<uint64_t>(config_.parameter_server.stale_synchronous().bound());
  return step <= bound || step - bound <= slowest;
}

bool ParameterStore::Due(const PushInbox& inbox, uint64_t slowest) const {
  return inbox.push.sequence != 0 && Complete(inbox) && MayBegin(inbox.clock, slowest);
}

std::vector<std::vector<int>> ParameterStore::DuePushes(uint64_t slowest) const {
  const bool together = !UsesPushMean(config_.parameter_server);
  std::map<std::pair<uint64_t, int>, std::vector<int>> steps;
  for (const int worker : all_workers_) {
    const PushInbox& inbox = inboxes_[worker];
    if (!Due(inbox, slowest)) continue;
    steps[{inbox.push.schedule_position, together ? 0 : worker}].push_back(worker);
  }
  std::vector<std::vector<int>> due;
  for (auto& [step, workers] : steps) due.push_back(std::move(workers));
  return due;
}

absl::Status ParameterStore::GoOn(StoreActions& actions) {
  const uint64_t slowest = SlowestClock();
  for (const std::vector<int>& workers : DuePushes(slowest)) {
    TETHYS_RETURN_IF_ERROR(ApplyTogether(workers, actions));
  }
  for (const int worker : all_workers_) {
    const PushInbox& inbox = inboxes_[worker];
    const bool pulls = !inbox.pulls.empty() && MayBegin(inbox.pulls.begin()->second.step, slowest);
    if (pulls) AnswerPulls(worker, actions);
    if (Due(inbox, slowest)) EndPush(worker, actions);
  }
  return absl::OkStatus();
}

void ParameterStore::AnswerPulls(int worker, StoreActions& actions) {
  for (const auto& [begin, frame] : std::exchange(inboxes_[worker].pulls, {})) {
    ParameterReply reply = AnswerTo(frame, layout_.ToLocal(frame.range_begin, frame.range_count).value());
    reply.staleness = 0;
    actions.Reply(reply);
  }
}

absl::Status ParameterStore::ApplyTogether(const std::vector<int>& workers, StoreActions& actions) {
  float* sums = nullptr;  // The staging memory of the first worker with samples.
  for (const int worker : workers) {
    PushInbox& inbox = inboxes_[worker];
    if (inbox.push.sample_count == 0) continue;
    if (sums == nullptr) {
      sums = inbox.staging.data();
    } else if (!AddValues(inbox.staging.data(), layout_.local_size(), sums)) {
      return Break(NotFinite(inbox.push), actions);
    }
  }
  if (sums == nullptr) {  // Steps without samples change nothing.
    for (const int worker : workers) {
      Record(worker, 0, actions);
      MarkUpdated(worker, {0, layout_.local_size()}, nullptr);
    }
    return absl::OkStatus();
  }
  const Frame& push = inboxes_[workers[0]].push;
  const bool own_mean = UsesPushMean(config_.parameter_server);
  return Commit(workers, workers.back(), sums, own_mean ? push.sample_count : push.global_sample_count,
                actions);
}

absl::Status ParameterStore::OnFence(const proto::Fence& fence, StoreActions& actions) {
  if (fence.worker() < 0 || fence.worker() >= static_cast<int>(inboxes_.size())) {
    return absl::InvalidArgumentError(absl::StrCat("server ", config_.server, ": a fence for worker ",
                                                   fence.worker(), ", the job has ", inboxes_.size()));
  }
  PushInbox& inbox = inboxes_[fence.worker()];
  if (bulk_ && inbox.push.sequence != 0 && fence.incarnation() > inbox.incarnation) {
    return LostWithinStep(inbox);
  }
  if (fence.incarnation() > inbox.incarnation) {
    inbox.ForgetPush();
    inbox.pulls.clear();
    inbox.incarnation = fence.incarnation();
    inbox.applied = Frame{};
    inbox.staleness = 0;
  }
  if (!stale_) return absl::OkStatus();
  inbox.takes_part = fence.takes_part();
  inbox.clock = std::max(inbox.clock, static_cast<uint64_t>(std::max<int64_t>(fence.clock(), 0)));
  return broken_.ok() ? GoOn(actions) : absl::OkStatus();
}

}  // namespace tethys
