#include "deploy/hosts/cluster_plan.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "deploy/text.h"
#include "runtime/job/job.h"
#include "runtime/shape/job_shape.h"

namespace tethys {
namespace {

// The tasks of a role on `host`, as "worker 0 1 2"; empty if there are none.
std::string TasksOn(int host, absl::string_view role, const std::vector<int>& hosts) {
  std::vector<size_t> indices;
  for (size_t i = 0; i < hosts.size(); ++i) {
    if (hosts[i] == host) indices.push_back(i);
  }
  return indices.empty() ? "" : absl::StrCat(role, " ", absl::StrJoin(indices, " "));
}

std::string DeviceText(const HostEntry& host) { return host.device ? DeviceKindText(*host.device) : "-"; }

bool AnySaysItsDevice(const std::vector<HostEntry>& hosts) {
  return std::any_of(hosts.begin(), hosts.end(),
                     [](const HostEntry& host) { return host.device.has_value(); });
}

// The field of the job that requires a GPU; empty if no field does.
std::string ForGpusOnly(const proto::Job& job) {
  if (job.device().tf32()) return "device.tf32";
  if (job.device().precision() != proto::Device::FP32) return "device.precision BF16";
  const bool in_bfloat16 = job.strategy().mirrored().gradients() != proto::Device::FP32;
  return in_bfloat16 ? "strategy.mirrored.gradients BF16" : "";
}

absl::Status CheckPrecision(const HostEntry& host, const proto::Job& job) {
  const std::string for_gpus = ForGpusOnly(job);
  if (host.device != proto::Device::CPU || for_gpus.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      host.line, ": workers on ", host.host, " compute on the CPU (device=cpu), but the job uses ", for_gpus,
      ", which only GPUs support: leave this field of the job out, or place no worker on this host"));
}

std::string PriceText(const HostEntry& host) {
  return host.price_per_hour ? DigitsText(*host.price_per_hour, 4) : "-";
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
  TETHYS_ASSIGN_OR_RETURN(std::vector<HostEntry> hosts, ReadHostFile(host_file));
  return PlanCluster(std::move(hosts), host_file, job);
}

absl::StatusOr<ClusterPlan> PlanCluster(std::vector<HostEntry> hosts, const std::string& origin,
                                        const proto::Job& job) {
  ClusterPlan plan;
  plan.hosts = std::move(hosts);
  absl::StatusOr<RoleAssignment> roles = AssignRoles(plan.hosts, job.workers(), ShapeOf(job).servers);
  if (!roles.ok()) return Annotate(roles.status(), origin);
  plan.roles = *std::move(roles);
  if (!AnySaysItsDevice(plan.hosts)) return plan;
  for (const int i : plan.roles.workers) {
    const absl::Status sound = CheckPrecision(plan.hosts[i], job);
    if (!sound.ok()) return absl::InvalidArgumentError(absl::StrCat(origin, ":", sound.message()));
    plan.worker_devices.push_back(plan.hosts[i].device.value_or(job.device().kind()));
  }
  return plan;
}

std::string WorkerDevicesText(const std::vector<proto::Device::Kind>& devices) {
  return absl::StrJoin(devices, ",", [](std::string* out, proto::Device::Kind device) {
    absl::StrAppend(out, DeviceKindText(device));
  });
}

absl::StatusOr<std::vector<proto::Device::Kind>> ParseWorkerDevices(absl::string_view text, int workers) {
  std::vector<proto::Device::Kind> devices;
  for (const absl::string_view word : absl::StrSplit(text, ',', absl::SkipEmpty())) {
    TETHYS_ASSIGN_OR_RETURN(devices.emplace_back(), ParseDeviceKind(word));
  }
  if (devices.empty() || static_cast<int>(devices.size()) == workers) return devices;
  return absl::InvalidArgumentError(
      absl::StrCat("the list names ", devices.size(), " devices, but the job has ", workers, " workers"));
}

namespace {}  // namespace

std::string ChiefAloneText(const ClusterPlan& plan) {
  const auto runs = [&plan](const std::vector<int>& hosts) {
    return std::find(hosts.begin(), hosts.end(), plan.roles.chief) != hosts.end();
  };
  const HostEntry& host = plan.hosts[plan.roles.chief];
  const bool alone = !runs(plan.roles.workers) && !runs(plan.roles.servers);
  if (!alone || host.roles.any_named() || plan.PricePerHour() <= 0) return "";
  return absl::StrCat("the price of ", host.host,
                      " counts although it runs only the chief; role=chief,worker in "
                      "its line of the host file lets the first worker run there, too\n");
}

std::string ClusterTable(const ClusterPlan& plan) {
  std::vector<Column> columns = {{{"host"}, true}, {{"address"}, true}, {{"slots"}}, {{"price per", "hour"}}};
  const bool with_devices = AnySaysItsDevice(plan.hosts);
  if (with_devices) columns.push_back({{"device"}, true});
  columns.push_back({{"runs"}, true});
  std::vector<std::vector<std::string>> rows;
  for (int i = 0; i < static_cast<int>(plan.hosts.size()); ++i) {
    const HostEntry& host = plan.hosts[i];
    std::vector<std::string> runs;
    if (i == plan.roles.chief) runs.push_back("chief");
    for (std::string& tasks : std::vector<std::string>{TasksOn(i, "ps", plan.roles.servers),
                                                       TasksOn(i, "worker", plan.roles.workers)}) {
      if (!tasks.empty()) runs.push_back(std::move(tasks));
    }
    std::vector<std::string>& row = rows.emplace_back();
    row = {host.host, host.address.empty() ? "-" : host.address, absl::StrCat(host.slots), PriceText(host)};
    if (with_devices) row.push_back(DeviceText(host));
    row.push_back(runs.empty() ? "nothing" : absl::StrJoin(runs, ", "));
  }
  std::string text = Table(columns, rows);
  if (plan.PricePerHour() > 0)
    absl::StrAppend(&text, "price per hour of the used hosts together: ", DigitsText(plan.PricePerHour(), 4),
                    "\n");
  return absl::StrCat(text, ChiefAloneText(plan));
}

std::string IdleHostsText(const ClusterPlan& plan) {
  std::set<int> used(plan.roles.workers.begin(), plan.roles.workers.end());
  used.insert(plan.roles.servers.begin(), plan.roles.servers.end());
  used.insert(plan.roles.chief);
  if (used.size() == plan.hosts.size()) return "";
  return absl::StrCat(plan.hosts.size() - used.size(), " of ", plan.hosts.size(),
                      " hosts run nothing: hosts are filled one after the other, each with as many "
                      "processes as it has slots\n");
}

}  // namespace tethys
