#include <google/protobuf/util/json_util.h>

#include "absl/strings/str_cat.h"
#include "deploy/schedulers/scheduler_environment.h"
#include "deploy/schedulers/variables.h"
#include "proto/tf_config.pb.h"
#include "runtime/base/socket.h"

namespace tethys {
namespace {

constexpr char kTfConfig[] = "TF_CONFIG";

absl::StatusOr<proto::TfConfig> ReadTfConfig(const Environment& environment) {
  const absl::optional<std::string> text = environment(kTfConfig);
  if (!text.has_value()) {
    return BadVariable(
        kTfConfig,
        R"(is not set; expected {"cluster": {"worker": ["HOST:PORT", ...]}, "task": {"type": "worker", )"
        R"("index": 0}})");
  }
  proto::TfConfig config;
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;
  const auto parsed = google::protobuf::util::JsonStringToMessage(*text, &config, options);
  if (!parsed.ok())
    return BadVariable(kTfConfig, absl::StrCat("is not the JSON expected: ", parsed.ToString()));
  return config;
}

absl::StatusOr<HostPort> AddressOf(const google::protobuf::RepeatedPtrField<std::string>& addresses,
                                   const std::string& type, int index) {
  const std::string what = absl::StrCat("cluster.", type, "[", index, "]");
  if (index < 0 || index >= addresses.size()) {
    return BadVariable(kTfConfig, absl::StrCat(what, " is named as this task, but the cluster has only ",
                                               addresses.size(), " tasks of this type"));
  }
  const absl::StatusOr<HostPort> address = ParseHostPort(addresses[index]);
  if (!address.ok()) return BadVariable(kTfConfig, absl::StrCat(what, ": ", address.status().message()));
  return address;
}

}  // namespace

absl::StatusOr<ScheduledTask> TaskFromTfConfig(const SchedulerFacts& facts) {
  TETHYS_ASSIGN_OR_RETURN(const proto::TfConfig config, ReadTfConfig(facts.environment));
  const proto::TfCluster& cluster = config.cluster();
  const std::string& type = config.task().type();
  const auto& chiefs = cluster.chief().empty() ? cluster.master() : cluster.chief();
  if (chiefs.size() > 1)
    return BadVariable(kTfConfig, "cluster.chief names several tasks, but a job has one chief");
  if (cluster.worker().empty())
    return BadVariable(kTfConfig, "cluster.worker is empty; expected the address of each worker");

  ScheduledTask task;
  task.index = config.task().index();
  task.workers = cluster.worker_size();
  task.servers = cluster.ps_size();
  const google::protobuf::RepeatedPtrField<std::string>* own = nullptr;
  if (type == "chief" || type == "master") {
    task.role = proto::CHIEF;
    own = &chiefs;
  } else if (type == "worker") {
    task.role = proto::WORKER;
    own = &cluster.worker();
  } else if (type == "ps") {
    task.role = proto::PS;
    own = &cluster.ps();
  } else {
    return BadVariable(kTfConfig,
                       absl::StrCat("task.type is '", type,
                                    "'; Tethys has chief, worker and ps (its workers also evaluate)"));
  }
  TETHYS_ASSIGN_OR_RETURN(const HostPort address, AddressOf(*own, type, task.index));
  TETHYS_ASSIGN_OR_RETURN(const HostPort chief, chiefs.empty() ? AddressOf(cluster.worker(), "worker", 0)
                                                               : AddressOf(chiefs, "chief", 0));
  task.host = address.host;
  task.chief_host = chief.host;
  task.hosts = {chief.host};
  for (const auto* addresses : {&cluster.worker(), &cluster.ps()}) {
    for (const std::string& each : *addresses) {
      // Errors in the addresses of other tasks are reported by these tasks.
      if (const absl::StatusOr<HostPort> other = ParseHostPort(each); other.ok())
        task.hosts.push_back(other->host);
    }
  }
  task.chief_port = chief.port;
  task.starts_chief =
      task.role == proto::CHIEF || (chiefs.empty() && task.role == proto::WORKER && task.index == 0);
  return task;
}

}  // namespace tethys
