// Groups of late devices (tests/testing/late_device.h) that sum arrays among themselves, in place of NCCL.
// The devices belong to threads of one test. As with GPUs, a sum that waits for a lost device never
// completes, and the host can look at the stream meanwhile.
//
// An abort is as harmful as NCCL's may be: the work in flight of the aborting rank completes with wrong sums,
// and the other ranks no longer wait for this rank, so their sums are wrong, too.
#ifndef TETHYS_TESTS_WORKERS_DEVICE_GROUPS_H_
#define TETHYS_TESTS_WORKERS_DEVICE_GROUPS_H_

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/base/mutex.h"
#include "tests/testing/late_device.h"

namespace tethys::testing {

// Thread-safe.
class DeviceGroups {
 public:
  // What aborted sums contain. The value is finite, so that only Optimizer::Refuse keeps it out of
  // parameters.
  static constexpr float kWrong = 1e6f;

  // A device that joins groups of this object. `identity` must differ for every device of the test.
  std::unique_ptr<Device> CreateDevice(const std::string& identity) {
    return CreateLateDevice({.identity = identity, .join = [this, identity](const StreamGroup& group) {
                               return Join(identity, group);
                             }});
  }

  // Ends the device, as if its process had been killed: what it has sent stays, and it sends nothing more.
  void Kill(const std::string& identity) {
    MutexLock lock(mu_);
    for (auto& [id, group] : groups_) {
      for (Rank& rank : group->ranks) rank.killed |= rank.identity == identity;
    }
  }

  // From now on, no abort on the device ends. Its work stays in flight.
  void HangAborts(const std::string& identity) {
    MutexLock lock(mu_);
    hanging_.insert(identity);
  }

  // The number of arrays that ranks have given.
  int64_t given() const {
    MutexLock lock(mu_);
    return given_;
  }
  // The number of sums of two or more ranks that have completed on some rank, and the number of those that an
  // abort has spoilt.
  int64_t sums() const {
    MutexLock lock(mu_);
    return sums_;
  }
  int64_t spoilt() const {
    MutexLock lock(mu_);
    return spoilt_;
  }

 private:
  struct Rank {
    std::string identity;
    bool aborted = false;
    bool killed = false;
    int late = -1;  // The attempts at which this rank will not find the present sum; -1: not chosen.
    std::vector<std::vector<float>> sent;  // The arrays that this rank has given, in order.
  };
  struct Group {
    std::vector<Rank> ranks;
    int joined = 0;
  };

  class Member final : public StreamCommunicator {
   public:
    Member(DeviceGroups& all, std::shared_ptr<Group> group, const StreamGroup& options)
        : all_(all), group_(std::move(group)), options_(options) {}
    ~Member() override { Abort().IgnoreError(); }

    int rank() const override { return options_.rank; }
    int world_size() const override { return options_.world_size; }
    absl::Status AllReduce(Stream& stream, float* data, int64_t count) override {
      EnqueueWaitingWork(stream, [this, data, count, done = done_] {
        return all_.Sum(*group_, rank(), *done, {data, static_cast<size_t>(count)});
      });
      return absl::OkStatus();
    }
    absl::Status AllReduce(Stream&, Bfloat16*, int64_t) override { return Unused(); }
    absl::Status ReduceScatter(Stream&, float*, int64_t) override { return Unused(); }
    absl::Status AllGather(Stream&, float*, int64_t) override { return Unused(); }
    absl::Status Send(Stream&, int, const float*, int64_t) override { return Unused(); }
    absl::Status Receive(Stream&, int, float*, int64_t) override { return Unused(); }
    absl::Status Check() override { return absl::OkStatus(); }
    absl::Status Abort() override {
      MutexLock lock(all_.mu_);
      if (all_.hanging_.count(group_->ranks[rank()].identity) > 0) {
        return absl::InternalError("the abort did not end");
      }
      group_->ranks[rank()].aborted = true;
      return absl::OkStatus();
    }
    std::string Describe() const override { return absl::StrCat("late devices among ", world_size()); }

   private:
    static absl::Status Unused() { return absl::UnimplementedError("no test needs this"); }

    DeviceGroups& all_;
    const std::shared_ptr<Group> group_;
    const StreamGroup options_;
    const std::shared_ptr<size_t> done_ = std::make_shared<size_t>(0);  // The number of this rank's sums.
  };

  // Blocks until all ranks have joined, as with NCCL.
  absl::StatusOr<std::unique_ptr<StreamCommunicator>> Join(const std::string& identity,
                                                           const StreamGroup& options) {
    std::shared_ptr<Group> group;
    {
      MutexLock lock(mu_);
      std::shared_ptr<Group>& slot = groups_[options.id];
      if (slot == nullptr) slot = std::make_shared<Group>();
      group = slot;
      group->ranks.resize(options.world_size);
      group->ranks[options.rank].identity = identity;
      ++group->joined;
    }
    auto member = std::make_unique<Member>(*this, group, options);
    while (true) {
      {
        MutexLock lock(mu_);
        if (group->joined == options.world_size) return member;
      }
      if (options.interrupted != nullptr) TETHYS_RETURN_IF_ERROR(options.interrupted());
      std::this_thread::yield();
    }
  }

  // Makes sum number `done` of a rank, or finds that other ranks have not given their arrays yet.
  absl::StatusOr<bool> Sum(Group& group, int rank, size_t& done, absl::Span<float> data) {
    MutexLock lock(mu_);
    Rank& own = group.ranks[rank];
    if (own.killed) return absl::UnavailableError("the process was killed");
    if (own.sent.size() == done && !own.aborted) {
      own.sent.emplace_back(data.begin(), data.end());
      ++given_;
    }
    bool wrong = own.aborted;
    for (const Rank& other : group.ranks) {
      if (other.sent.size() > done) continue;
      if (!other.aborted || other.killed) {
        if (!own.aborted) return false;
      }
      wrong = true;
    }
    if (group.ranks.size() > 1 && IsLate(own)) return false;
    if (wrong) {
      std::fill(data.begin(), data.end(), kWrong);
      ++spoilt_;
    } else {
      std::fill(data.begin(), data.end(), 0.0f);
      for (const Rank& other : group.ranks) {
        for (size_t i = 0; i < data.size(); ++i) data[i] += other.sent[done][i];
      }
      sums_ += group.ranks.size() > 1 ? 1 : 0;
    }
    ++done;
    return true;
  }

  // One sum in four reaches a rank later than other ranks: the rank finds it at a later attempt.
  bool IsLate(Rank& own) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (own.late < 0) own.late = random_() % 4 == 0 ? static_cast<int>(random_() % 500) : 0;
    return own.late-- > 0;
  }

  mutable Mutex mu_;
  std::mt19937 random_ ABSL_GUARDED_BY(mu_){1};
  std::map<std::string, std::shared_ptr<Group>> groups_ ABSL_GUARDED_BY(mu_);
  std::set<std::string> hanging_ ABSL_GUARDED_BY(mu_);
  int64_t given_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t sums_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t spoilt_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace tethys::testing

#endif  // TETHYS_TESTS_WORKERS_DEVICE_GROUPS_H_
