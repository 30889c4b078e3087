// Idea. Each operation uses some of three communicators: `local` connects the ranks of a host, `leaders`
// connects the first ranks of all hosts, and `all` connects all ranks.
//
//   all-reduce       local all-reduce; leaders all-reduce; each leader gives the sums to its host
//   reduce-scatter   local all-reduce; leaders reduce-scatter; each leader gives its block to its host, whose
//                    ranks own a part of the block each
//   all-gather       local all-gather; leaders gather the parts of their hosts; each leader gives its host
//                    the parts of the other hosts
//   messages         local inside a host, otherwise `all`
//
// Invariant. An error of one communicator reaches all ranks. A rank that gets the error aborts the other two
// communicators and calls a barrier on each. The barrier fails at once and sends the error to the other ranks
// of that communicator. (Interrupt makes this rank lost in all three communicators, so an interrupted rank
// reports nothing.) `local` has a longer timeout than the other two communicators, because its ranks wait
// while the leader waits for other hosts.
#include "collectives/hierarchical_communicator.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "collectives/block_cut.h"
#include "collectives/calls.h"

namespace tethys {
namespace {

// Returns ascending ranges that cover the same bytes as `parts`. Adjacent ranges are joined.
std::vector<Range> Joined(std::vector<Range> parts) {
  std::erase_if(parts, [](const Range& part) { return part.count == 0; });
  std::sort(parts.begin(), parts.end(), [](const Range& a, const Range& b) { return a.begin < b.begin; });
  std::vector<Range> joined;
  for (const Range& part : parts) {
    if (!joined.empty() && joined.back().end() == part.begin) {
      joined.back().count += part.count;
    } else {
      joined.push_back(part);
    }
  }
  return joined;
}

class HierarchicalCommunicator final : public Communicator {
 public:
  HierarchicalCommunicator(std::unique_ptr<Communicator> all, std::vector<int> hosts,
                           std::unique_ptr<Communicator> local, std::unique_ptr<Communicator> leaders,
                           SharedMemoryOptions shared)
      : all_(std::move(all)),
        hosts_(std::move(hosts)),
        local_(std::move(local)),
        leaders_(std::move(leaders)),
        shared_(std::move(shared)),
        rank_(all_->rank()),
        leaders_part_(local_->world_size()) {}

  int rank() const override { return rank_; }
  int world_size() const override { return static_cast<int>(hosts_.size()); }

  TrafficCount traffic() const override {
    TrafficCount traffic;
    for (const Communicator* part : {all_.get(), local_.get(), leaders_.get()}) {
      if (part == nullptr) continue;
      traffic.bytes_out += part->traffic().bytes_out;
      traffic.bytes_in += part->traffic().bytes_in;
    }
    return traffic;
  }

  absl::Status AllReduce(absl::Span<float> data) override {
    TETHYS_RETURN_IF_ERROR(Locally(local_->AllReduce(data)));
    if (leaders_ != nullptr) TETHYS_RETURN_IF_ERROR(AmongLeaders(leaders_->AllReduce(data)));
    return GiveToHost(BytesOf(data));
  }

  absl::Status ReduceScatter(absl::Span<float> data) override {
    TETHYS_RETURN_IF_ERROR(Locally(local_->AllReduce(data)));
    if (leaders_ != nullptr) TETHYS_RETURN_IF_ERROR(AmongLeaders(leaders_->ReduceScatter(data)));
    const Range block = BlockOfHost(hosts_[rank_], static_cast<int64_t>(data.size()));
    return GiveToHost(BytesOf(data.subspan(block.begin, block.count)));
  }

  Range OwnedBlock(int rank, int64_t count) const override {
    const Range host = BlockOfHost(hosts_[rank], count);
    const auto ranks = static_cast<int>(std::count(hosts_.begin(), hosts_.end(), hosts_[rank]));
    const Range part = BlockOf(host.count, ranks, IndexOnHost(rank));
    return {.begin = host.begin + part.begin, .count = part.count};
  }

  absl::Status AllGather(absl::Span<char> data, absl::Span<const Range> parts) override {
    TETHYS_RETURN_IF_ERROR(CheckParts(parts, world_size(), static_cast<int64_t>(data.size())));
    std::vector<std::vector<Range>> of_hosts(HostCount(hosts_));
    std::vector<Range> of_neighbours, of_others;
    for (int rank = 0; rank < world_size(); ++rank) {
      of_hosts[hosts_[rank]].push_back(parts[rank]);
      (hosts_[rank] == hosts_[rank_] ? of_neighbours : of_others).push_back(parts[rank]);
    }
    TETHYS_RETURN_IF_ERROR(Locally(local_->AllGather(data, of_neighbours)));
    if (leaders_ != nullptr) {
      TETHYS_RETURN_IF_ERROR(AmongLeaders(GatherAmongLeaders(data, std::move(of_hosts))));
    }
    for (const Range& part : Joined(std::move(of_others))) {
      TETHYS_RETURN_IF_ERROR(GiveToHost(data.subspan(part.begin, part.count)));
    }
    return absl::OkStatus();
  }

  absl::Status Barrier() override {
    TETHYS_RETURN_IF_ERROR(Locally(local_->Barrier()));
    if (leaders_ != nullptr) TETHYS_RETURN_IF_ERROR(AmongLeaders(leaders_->Barrier()));
    return Locally(local_->Barrier());
  }

  absl::Status Send(int peer, absl::Span<const char> data) override {
    TETHYS_RETURN_IF_ERROR(CheckPeer(peer, rank_, world_size()));
    if (hosts_[peer] == hosts_[rank_]) return Locally(local_->Send(IndexOnHost(peer), data));
    return BetweenHosts(all_->Send(peer, data));
  }

  absl::Status Receive(int peer, absl::Span<char> data) override {
    TETHYS_RETURN_IF_ERROR(CheckPeer(peer, rank_, world_size()));
    if (hosts_[peer] == hosts_[rank_]) return Locally(local_->Receive(IndexOnHost(peer), data));
    return BetweenHosts(all_->Receive(peer, data));
  }

  absl::StatusOr<std::unique_ptr<Communicator>> Split(int colour) override {
    TETHYS_ASSIGN_OR_RETURN(const std::vector<int> colours, tethys::AllGather(*this, colour));
    absl::StatusOr<std::unique_ptr<Communicator>> part = all_->Split(colour);
    TETHYS_RETURN_IF_ERROR(part.status());
    if (colour < 0) return nullptr;
    std::vector<int> known, hosts;
    SharedMemoryOptions shared = shared_;
    shared.member_names.clear();
    for (int rank = 0; rank < world_size(); ++rank) {
      if (colours[rank] != colour) continue;
      const auto host = std::find(known.begin(), known.end(), hosts_[rank]);
      hosts.push_back(static_cast<int>(host - known.begin()));
      if (host == known.end()) known.push_back(hosts_[rank]);
      shared.member_names.push_back(shared_.member_names[rank]);
    }
    return CreateCommunicatorOfHosts(*part, hosts, shared);
  }

  absl::StatusOr<float*> AllocateForReduction(int64_t count) override {
    absl::StatusOr<float*> memory = local_->AllocateForReduction(count);
    TETHYS_RETURN_IF_ERROR(Locally(memory.status()));
    return memory;
  }

  void Abort(const absl::Status& reason) override {
    local_->Abort(reason);
    if (leaders_ != nullptr) leaders_->Abort(reason);
    all_->Abort(reason);
  }

  void Interrupt(const absl::Status& reason) override {
    interrupted_ = true;
    local_->Interrupt(reason);
    if (leaders_ != nullptr) leaders_->Interrupt(reason);
    all_->Interrupt(reason);
  }

 private:
  int IndexOnHost(int rank) const {
    return static_cast<int>(std::count(hosts_.begin(), hosts_.begin() + rank, hosts_[rank]));
  }
  // The block that the leader of `host` owns. The leaders form a ring, in the order of hosts.
  Range BlockOfHost(int host, int64_t count) const { return RingBlock(count, HostCount(hosts_), host); }

  // Copies the leader's `data` to the other ranks of its host.
  absl::Status GiveToHost(absl::Span<char> data) {
    leaders_part_[0].count = static_cast<int64_t>(data.size());
    return Locally(local_->AllGather(data, leaders_part_));
  }

  // In round i every leader sends the i-th joined part of its host.
  absl::Status GatherAmongLeaders(absl::Span<char> data, std::vector<std::vector<Range>> of_hosts) {
    size_t rounds = 0;
    for (std::vector<Range>& parts : of_hosts) {
      parts = Joined(std::move(parts));
      rounds = std::max(rounds, parts.size());
    }
    for (size_t round = 0; round < rounds; ++round) {
      std::vector<Range> sent;
      for (const std::vector<Range>& parts : of_hosts) {
        sent.push_back(round < parts.size() ? parts[round] : Range());
      }
      TETHYS_RETURN_IF_ERROR(leaders_->AllGather(data, sent));
    }
    return absl::OkStatus();
  }

  // An interrupted rank reports nothing, not even while Interrupt has interrupted only some of the
  // communicators.
  bool MustReport(const absl::Status& status) const {
    return !status.ok() && !interrupted_ &&
           (shared_.interruption == nullptr || shared_.interruption->Check().ok());
  }
  absl::Status Locally(const absl::Status& status) {
    if (MustReport(status)) {
      Tell(leaders_.get(), status);
      Tell(all_.get(), status);
    }
    return status;
  }
  absl::Status AmongLeaders(const absl::Status& status) {
    if (MustReport(status)) {
      local_->Abort(status);
      Tell(all_.get(), status);
    }
    return status;
  }
  absl::Status BetweenHosts(const absl::Status& status) {
    if (MustReport(status)) {
      local_->Abort(status);
      Tell(leaders_.get(), status);
    }
    return status;
  }
  // Aborts `others`, then calls a barrier on `others`. Abort itself sends nothing; the barrier sends `status`
  // to the other ranks.
  static void Tell(Communicator* others, const absl::Status& status) {
    if (others == nullptr) return;
    others->Abort(status);
    others->Barrier().IgnoreError();
  }

  const std::unique_ptr<Communicator> all_;
  const std::vector<int> hosts_;
  const std::unique_ptr<Communicator> local_;
  const std::unique_ptr<Communicator> leaders_;  // Null on ranks that are no leader.
  const SharedMemoryOptions shared_;
  const int rank_;
  std::atomic<bool> interrupted_{false};  // Set before Interrupt interrupts the first communicator.
  // The parts of an AllGather on this host in which only the leader, rank 0, contributes.
  std::vector<Range> leaders_part_;
};

}  // namespace

int HostCount(const std::vector<int>& hosts) { return 1 + *std::max_element(hosts.begin(), hosts.end()); }

absl::StatusOr<std::unique_ptr<Communicator>> CreateCommunicatorOfHosts(std::unique_ptr<Communicator>& all,
                                                                        const std::vector<int>& hosts,
                                                                        const SharedMemoryOptions& shared) {
  const int count = HostCount(hosts);
  if (count == all->world_size()) return std::move(all);
  SharedMemoryOptions options = shared;
  if (count > 1) options.step_timeout *= 2;
  TETHYS_ASSIGN_OR_RETURN(std::unique_ptr<Communicator> local,
                          CreateSharedMemoryCommunicator(*all, hosts, std::move(options)));
  if (count == 1) {
    all.reset();
    return local;
  }
  TETHYS_ASSIGN_OR_RETURN(std::unique_ptr<Communicator> leaders, all->Split(local->rank() == 0 ? 0 : -1));
  return std::make_unique<HierarchicalCommunicator>(std::move(all), hosts, std::move(local),
                                                    std::move(leaders), shared);
}

}  // namespace tethys
