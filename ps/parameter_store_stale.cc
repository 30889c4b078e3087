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

std::vector<std::vector<int>> ParameterStore::Gathered() const {
  const bool together = !UsesPushMean(config_.parameter_server);
  std::map<std::pair<uint64_t, int>, std::vector<int>> steps;
  for (const int worker : all_workers_) {
    const PushInbox& inbox = inboxes_[worker];
    if (!Whole(inbox) || inbox.held) continue;
    steps[{inbox.push.schedule_position, together ? 0 : worker}].push_back(worker);
  }
  std::vector<std::vector<int>> gathered;
  for (auto& [step, workers] : steps) gathered.push_back(std::move(workers));
  return gathered;
}

absl::Status ParameterStore::GoOn(StoreActions& actions) {
  const auto bound = static_cast<uint64_t>(config_.parameter_server.stale_synchronous().bound());
  const uint64_t slowest = SlowestClock();
  const auto may_begin = [&](uint64_t step) { return step <= bound || step - bound <= slowest; };
  const auto may = [&](int worker) {
    const PushInbox& inbox = inboxes_[worker];
    return Whole(inbox) && may_begin(inbox.clock);
  };
  const auto may_pull = [&](int worker) {
    const PushInbox& inbox = inboxes_[worker];
    return !inbox.pulls.empty() && may_begin(inbox.pulls.begin()->second.step);
  };
  // Only a push makes pending pushes due. A pull does not: every push that its answer must include was
  // applied when the slowest worker made its step. If it applied those that wait for other workers, they
  // would become an update without them, and what a job computes would depend on when its workers begin.
  if (std::any_of(all_workers_.begin(), all_workers_.end(), may)) {
    for (const std::vector<int>& workers : Gathered()) {
      TETHYS_RETURN_IF_ERROR(ApplyTogether(workers, actions));
    }
  }
  for (const int worker : all_workers_) {
    if (may_pull(worker)) AnswerPulls(worker, actions);
    if (!may(worker)) continue;
    EndPush(worker, actions);
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
      inboxes_[worker].held = true;
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
