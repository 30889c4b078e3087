#include "collectives/hierarchical_communicator.h"

#include <algorithm>
#include <utility>

namespace tethys {
namespace {

class HierarchicalCommunicator final : public Communicator {
 public:
  HierarchicalCommunicator(int rank, std::vector<int> hosts, std::unique_ptr<Communicator> local,
                           std::unique_ptr<Communicator> leaders)
      : rank_(rank), hosts_(std::move(hosts)), local_(std::move(local)), leaders_(std::move(leaders)) {}

  int rank() const override { return rank_; }
  int world_size() const override { return static_cast<int>(hosts_.size()); }

  TrafficCount traffic() const override {
    TrafficCount traffic = local_->traffic();
    if (leaders_ != nullptr) {
      traffic.bytes_out += leaders_->traffic().bytes_out;
      traffic.bytes_in += leaders_->traffic().bytes_in;
    }
    return traffic;
  }

  absl::Status AllReduce(absl::Span<float> data) override {
    TETHYS_RETURN_IF_ERROR(Locally(local_->AllReduce(data)));
    if (leaders_ != nullptr) TETHYS_RETURN_IF_ERROR(AmongLeaders(leaders_->AllReduce(data)));
    return Locally(local_->Broadcast(data, 0));
  }

  // Broadcasts on the root's host, then among the leaders, then on the other hosts.
  absl::Status Broadcast(absl::Span<float> data, int root) override {
    if (root < 0 || root >= world_size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("broadcast from rank ", root, " in a world of ", world_size()));
    }
    const int root_host = hosts_[root];
    const bool here = root_host == hosts_[rank_];
    const auto root_index = static_cast<int>(std::count(hosts_.begin(), hosts_.begin() + root, root_host));
    if (here) TETHYS_RETURN_IF_ERROR(Locally(local_->Broadcast(data, root_index)));
    if (leaders_ != nullptr) TETHYS_RETURN_IF_ERROR(AmongLeaders(leaders_->Broadcast(data, root_host)));
    return here ? Locally(local_->Barrier()) : Locally(local_->Broadcast(data, 0));
  }

  absl::Status Barrier() override {
    TETHYS_RETURN_IF_ERROR(Locally(local_->Barrier()));
    if (leaders_ != nullptr) TETHYS_RETURN_IF_ERROR(AmongLeaders(leaders_->Barrier()));
    return Locally(local_->Barrier());
  }

  absl::StatusOr<float*> AllocateForReduction(int64_t count) override {
    absl::StatusOr<float*> memory = local_->AllocateForReduction(count);
    TETHYS_RETURN_IF_ERROR(Locally(memory.status()));
    return memory;
  }

  void Abort(const absl::Status& reason) override {
    local_->Abort(reason);
    if (leaders_ != nullptr) leaders_->Abort(reason);
  }

 private:
  absl::Status Locally(const absl::Status& status) {
    if (!status.ok() && leaders_ != nullptr) {
      leaders_->Abort(status);
      // The other leaders learn of the abort only through a later collective, so this starts one.
      leaders_->Barrier().IgnoreError();
    }
    return status;
  }
  absl::Status AmongLeaders(const absl::Status& status) {
    if (!status.ok()) local_->Abort(status);
    return status;
  }

  const int rank_;
  const std::vector<int> hosts_;
  const std::unique_ptr<Communicator> local_;
  const std::unique_ptr<Communicator> leaders_;
};

}  // namespace

std::unique_ptr<Communicator> CreateHierarchicalCommunicator(int rank, std::vector<int> hosts,
                                                             std::unique_ptr<Communicator> local,
                                                             std::unique_ptr<Communicator> leaders) {
  return std::make_unique<HierarchicalCommunicator>(rank, std::move(hosts), std::move(local),
                                                    std::move(leaders));
}

}  // namespace tethys
