#include "deploy/cluster_plan.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "deploy/text.h"
#include "runtime/job/job.h"

namespace tethys {
namespace {

// "worker 0 1 2", of those that are on `host`; empty: none.
std::string TasksOn(int host, absl::string_view role, const std::vector<int>& hosts) {
  std::vector<size_t> indices;
  for (size_t i = 0; i < hosts.size(); ++i) {
    if (hosts[i] == host) indices.push_back(i);
  }
  return indices.empty() ? "" : absl::StrCat(role, " ", absl::StrJoin(indices, " "));
}

std::string PriceText(const HostEntry& host) {
  return host.price_per_hour ? absl::StrFormat("%.4g", *host.price_per_hour) : "-";
}

}  // namespace

std::vector<int> ClusterPlan::UsedHosts() const {
  std::set<int> used = {roles.chief};
  used.insert(roles.servers.begin(), roles.servers.end());
  used.insert(roles.workers.begin(), roles.workers.end());
  return {used.begin(), used.end()};
}

double ClusterPlan::PricePerHour() const {
  double price = 0;
  for (const int host : UsedHosts()) {
    if (!hosts[host].price_per_hour) return 0;
    price += *hosts[host].price_per_hour;
  }
  return price;
}

absl::StatusOr<ClusterPlan> PlanCluster(const std::string& host_file, const proto::Job& job) {
  ClusterPlan plan;
  TETHYS_ASSIGN_OR_RETURN(plan.hosts, ReadHostFile(host_file));
  absl::StatusOr<RoleAssignment> roles = AssignRoles(plan.hosts, job.workers(), ServerCount(job));
  if (!roles.ok()) return Annotate(roles.status(), host_file);
  plan.roles = *std::move(roles);
  return plan;
}

std::string ClusterTable(const ClusterPlan& plan) {
  std::vector<std::vector<std::string>> rows;
  for (int i = 0; i < static_cast<int>(plan.hosts.size()); ++i) {
    const HostEntry& host = plan.hosts[i];
    std::vector<std::string> runs;
    if (i == plan.roles.chief) runs.push_back("chief");
    for (std::string& tasks : std::vector<std::string>{TasksOn(i, "ps", plan.roles.servers),
                                                       TasksOn(i, "worker", plan.roles.workers)}) {
      if (!tasks.empty()) runs.push_back(std::move(tasks));
    }
    rows.push_back({host.host, host.address.empty() ? "-" : host.address, absl::StrCat(host.slots),
                    PriceText(host), runs.empty() ? "nothing" : absl::StrJoin(runs, ", ")});
  }
  std::string text =
      Table({{{"host"}, true}, {{"address"}, true}, {{"slots"}}, {{"price/h"}}, {{"runs"}, true}}, rows);
  if (plan.PricePerHour() > 0) absl::StrAppendFormat(&text, "price of an hour: %.4g\n", plan.PricePerHour());
  return text;
}

}  // namespace tethys
