#include "runtime/chief/held_records.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "runtime/chief/saved_values.h"

namespace tethys {

void HeldRecords::Open(const std::vector<TaskId>& workers, int64_t step) {
  next_ = step;
  held_.clear();
  for (const TaskId worker : workers) held_[worker.index];
  pushes_.erase(std::remove_if(pushes_.begin(), pushes_.end(),
                               [step](const HeldPush& held) { return held.push.version() > step; }),
                pushes_.end());
}

std::vector<HeldPush> HeldRecords::TakePushes() {
  const auto later = std::stable_partition(
      pushes_.begin(), pushes_.end(), [this](const HeldPush& held) { return held.push.version() <= next_; });
  std::vector<HeldPush> counted(std::make_move_iterator(pushes_.begin()), std::make_move_iterator(later));
  pushes_.erase(pushes_.begin(), later);
  for (const HeldPush& held : counted) Report(held.server, held.push.version(), held.push.worker());
  return counted;
}

void HeldRecords::NoteCounted(const proto::AppliedPush& push, int servers) {
  reporting_ = servers;
  noted_[{push.version(), push.worker()}].push = push;
}

void HeldRecords::Report(int server, int64_t version, int worker) {
  const auto noted = noted_.find({version, worker});
  if (noted == noted_.end()) return;
  noted->second.reported.insert(server);
  if (static_cast<int>(noted->second.reported.size()) == reporting_) noted_.erase(noted);
}

std::vector<HeldPush> HeldRecords::TakeUnreported(int server) {
  std::vector<HeldPush> unreported;
  for (const auto& [key, noted] : noted_) {
    if (noted.reported.count(server) == 0) unreported.push_back({server, noted.push});
  }
  for (const HeldPush& held : unreported) Report(server, held.push.version(), held.push.worker());
  return unreported;
}

absl::Status HeldRecords::Add(TaskId worker, const HeldRecord& held) {
  const auto queue = held_.find(worker.index);
  if (queue == held_.end()) return absl::OkStatus();
  const int64_t expected = next_ + static_cast<int64_t>(queue->second.size());
  if (held.record.step() != expected) {
    return absl::InvalidArgumentError(
        absl::StrCat("it has recorded step ", held.record.step(), ", and its next step is ", expected));
  }
  queue->second.push_back(held);
  return absl::OkStatus();
}

int64_t HeldRecords::newest() const {
  size_t most = 0;
  for (const auto& [worker, queue] : held_) most = std::max(most, queue.size());
  return next_ + static_cast<int64_t>(most);
}

absl::optional<CountedStep> HeldRecords::TakeComplete() {
  const bool complete = !held_.empty() && std::all_of(held_.begin(), held_.end(), [](const auto& entry) {
    return !entry.second.empty();
  });
  if (!complete) return absl::nullopt;
  return Take();
}

CountedStep HeldRecords::Take() {
  CountedStep counted{.step = next_++, .part = {}};
  for (auto& [worker, queue] : held_) {
    CountedStep::Part& part = counted.part.emplace_back();
    part.worker = worker;
    if (queue.empty()) continue;
    part.held = std::move(queue.front());
    queue.pop_front();
  }
  return counted;
}

void HeldRecords::Save(proto::HeldState& state) const {
  state.set_next(next_);
  for (const auto& [worker, queue] : held_) {
    proto::HeldState::Queue& saved = *state.add_queue();
    saved.set_worker(worker);
    for (const HeldRecord& held : queue) {
      *saved.add_record() = held.record;
      saved.add_clock_offset_ns(held.clock_offset);
    }
  }
  for (const HeldPush& held : pushes_) {
    proto::HeldState::Applied& saved = *state.add_applied();
    saved.set_server(held.server);
    *saved.mutable_push() = held.push;
  }
  for (const auto& [key, noted] : noted_) {
    proto::HeldState::Counted& saved = *state.add_counted();
    *saved.mutable_push() = noted.push;
    saved.mutable_server()->Assign(noted.reported.begin(), noted.reported.end());
  }
}

absl::Status HeldRecords::Restore(const proto::HeldState& state, int workers, int servers) {
  StateCheck check;
  check.Count("next", state.next());
  std::map<int, std::deque<HeldRecord>> held;
  for (const proto::HeldState::Queue& saved : state.queue()) {
    check.Within("worker", saved.worker(), 0, workers - 1);
    check.That(saved.clock_offset_ns_size() == saved.record_size(), "a record has no clock");
    check.That(held.count(saved.worker()) == 0, "worker ", saved.worker(), " has two queues");
    if (!check.ok()) break;
    std::deque<HeldRecord>& queue = held[saved.worker()];
    for (int i = 0; i < saved.record_size(); ++i) {
      check.That(saved.record(i).step() == state.next() + i, "a record of worker ", saved.worker(),
                 " is of step ", saved.record(i).step());
      check.Within("clock_offset_ns", saved.clock_offset_ns(i), -StateCheck::kLatest, StateCheck::kLatest);
      queue.push_back({saved.record(i), saved.clock_offset_ns(i)});
    }
  }
  std::vector<HeldPush> pushes;
  for (const proto::HeldState::Applied& saved : state.applied()) {
    check.Within("server", saved.server(), 0, servers - 1);
    check.Count("version", saved.push().version());
    pushes.push_back({saved.server(), saved.push()});
  }
  std::map<std::pair<int64_t, int>, Noted> noted;
  for (const proto::HeldState::Counted& saved : state.counted()) {
    check.Within("version", saved.push().version(), 0, state.next());
    check.Within("worker", saved.push().worker(), 0, workers - 1);
    for (const int server : saved.server()) check.Within("server", server, 0, servers - 1);
    noted[{saved.push().version(), saved.push().worker()}] = {saved.push(),
                                                              {saved.server().begin(), saved.server().end()}};
  }
  check.That(static_cast<int>(noted.size()) == state.counted_size(), "a push is noted twice");
  TETHYS_RETURN_IF_ERROR(check.status());
  next_ = state.next();
  held_ = std::move(held);
  pushes_ = std::move(pushes);
  noted_ = std::move(noted);
  reporting_ = servers;
  return absl::OkStatus();
}

}  // namespace tethys
