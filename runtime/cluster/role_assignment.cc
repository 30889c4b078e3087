#include "runtime/cluster/role_assignment.h"

#include <algorithm>

namespace tethys {
namespace {

// Returns a text such as "1 worker" or "2 servers".
std::string CountOf(int count, absl::string_view role) {
  return absl::StrCat(count, role == "ps" ? " server" : " worker", count == 1 ? "" : "s");
}

class Assigner {
 public:
  explicit Assigner(absl::Span<const HostEntry> hosts) : hosts_(hosts) {
    for (const HostEntry& host : hosts) free_.push_back(host.slots);
  }

  int Chief() const {
    const auto named =
        std::find_if(hosts_.begin(), hosts_.end(), [](const HostEntry& host) { return host.roles.chief; });
    return named == hosts_.end() ? 0 : static_cast<int>(named - hosts_.begin());
  }

  absl::StatusOr<std::vector<int>> Servers(int count, int chief) {
    std::vector<int> named, unnamed;
    for (int i = 0; i < static_cast<int>(hosts_.size()); ++i) {
      if (hosts_[i].roles.ps) named.push_back(i);
      if (!hosts_[i].roles.any_named() && i != chief) unnamed.push_back(i);
    }
    std::reverse(unnamed.begin(), unnamed.end());
    if (!hosts_[chief].roles.any_named()) unnamed.push_back(chief);
    std::vector<int> taken;
    TakeInTurn(named, count, taken);
    TakeInTurn(unnamed, count, taken);
    servers_ = static_cast<int>(taken.size());
    return Enough("ps", count, taken);
  }

  absl::StatusOr<std::vector<int>> Workers(int count, int chief) {
    std::vector<int> order;
    for (int i = 0; i < static_cast<int>(hosts_.size()); ++i) {
      if (hosts_[i].roles.worker) order.push_back(i);
    }
    for (int i = 0; i < static_cast<int>(hosts_.size()); ++i) {
      if (!hosts_[i].roles.any_named() && i != chief) order.push_back(i);
    }
    if (!hosts_[chief].roles.any_named()) order.push_back(chief);
    std::vector<int> taken;
    for (const int host : order) {
      while (static_cast<int>(taken.size()) < count && Take(host)) taken.push_back(host);
    }
    return Enough("worker", count, taken);
  }

 private:
  bool Take(int host) {
    if (free_[host] == 0) return false;
    --free_[host];
    return true;
  }

  void TakeInTurn(absl::Span<const int> order, int count, std::vector<int>& taken) {
    for (bool any = true; any;) {
      any = false;
      for (const int host : order) {
        if (static_cast<int>(taken.size()) == count) return;
        if (!Take(host)) continue;
        taken.push_back(host);
        any = true;
      }
    }
  }

  absl::StatusOr<std::vector<int>> Enough(absl::string_view role, int count, std::vector<int> taken) const {
    const int missing = count - static_cast<int>(taken.size());
    if (missing > 0) {
      const bool beside = servers_ > 0 && role == "worker";
      return absl::FailedPreconditionError(absl::StrCat(
          "the job has ", CountOf(count, role), beside ? absl::StrCat(" and ", CountOf(servers_, "ps")) : "",
          ", and the host file has slots for ", taken.size(), beside ? " of the workers" : "", ": ", missing,
          " missing. Add hosts, raise slots= (or let more hosts take role=", role,
          "), or lower the number in the job"));
    }
    std::sort(taken.begin(), taken.end());
    return taken;
  }

  const absl::Span<const HostEntry> hosts_;
  std::vector<int> free_;  // The free slots of each host.
  int servers_ = 0;        // The number of servers that have got slots.
};

}  // namespace

absl::StatusOr<RoleAssignment> AssignRoles(absl::Span<const HostEntry> hosts, int workers, int servers) {
  if (hosts.empty()) return absl::InvalidArgumentError("a job needs a host");
  Assigner assigner(hosts);
  RoleAssignment assignment;
  assignment.chief = assigner.Chief();
  TETHYS_ASSIGN_OR_RETURN(assignment.servers, assigner.Servers(servers, assignment.chief));
  TETHYS_ASSIGN_OR_RETURN(assignment.workers, assigner.Workers(workers, assignment.chief));
  return assignment;
}

}  // namespace tethys
