#include "deploy/run/job_places.h"

#include <signal.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "deploy/flags/data_secrets.h"
#include "deploy/hosts/cluster_hosts.h"
#include "deploy/hosts/cluster_plan.h"
#include "deploy/hosts/host_needs.h"
#include "deploy/process/own_program.h"
#include "deploy/process/scratch_directory.h"
#include "deploy/process/signal_source.h"
#include "runtime/base/control_group.h"
#include "runtime/base/file.h"
#include "runtime/job/job.h"
#include "runtime/shape/job_shape.h"

namespace tethys {
namespace {

std::vector<Places> PlacesAllHere(const std::vector<proto::Job>& jobs) {
  std::vector<Places> places;
  for (const proto::Job& job : jobs) {
    places.push_back(PlacesHere(OwnProgram(), job.workers(), ShapeOf(job).servers));
  }
  return places;
}

// Returns a place for each of `entries`; the places of hosts that no job uses are empty. `used`: the indices
// in `entries` of the hosts that jobs use.
absl::StatusOr<std::vector<Place>> PrepareUsed(const std::vector<HostEntry>& entries,
                                               const std::set<int>& used, const Flags& flags) {
  std::vector<ClusterHost> hosts;
  for (const int i : used) hosts.push_back(ClusterHostOf(entries[i], flags.Get("hostfile")));
  signal(SIGPIPE, SIG_IGN);   // A write to a host that is gone then returns an error.
  const InterruptsHeld held;  // Released after the scratch directory has been removed.
  TETHYS_ASSIGN_OR_RETURN(const ScratchDirectory scratch, ScratchDirectory::Create());
  TETHYS_ASSIGN_OR_RETURN(std::vector<Place> prepared,
                          PrepareHosts(hosts, {.ssh_config = flags.Get("ssh_config"),
                                               .bundle = flags.Get("bundle"),
                                               .scratch = scratch.path(),
                                               .note = PrintLine}));
  std::vector<Place> places(entries.size());
  size_t next = 0;
  for (const int i : used) places[i] = std::move(prepared[next++]);
  return places;
}

// The index in `entries` of the host plan.hosts[host]; entries.size() if `entries` lacks this host.
int EntryOf(const ClusterPlan& plan, int host, const std::vector<HostEntry>& entries) {
  const auto found = std::find_if(entries.begin(), entries.end(), [&](const HostEntry& entry) {
    return entry.host == plan.hosts[host].host;
  });
  return static_cast<int>(found - entries.begin());
}

Places PlacesOf(const ClusterPlan& plan, const std::vector<HostEntry>& entries,
                const std::vector<Place>& hosts) {
  const auto place_of = [&](int host) { return hosts[EntryOf(plan, host, entries)]; };
  Places places;
  places.chief = place_of(plan.roles.chief);
  for (const int i : plan.roles.servers) places.servers.push_back(place_of(i));
  for (const int i : plan.roles.workers) places.workers.push_back(place_of(i));
  places.worker_devices = plan.worker_devices;
  return places;
}

absl::StatusOr<std::vector<Places>> PlacesByFlags(const Flags& flags, const std::vector<proto::Job>& jobs,
                                                  const std::vector<std::vector<HostEntry>>& own_hosts) {
  if (!flags.Has("hostfile")) {
    for (const char* flag : {"ssh_config", "bundle"}) {
      if (!flags.Has(flag)) continue;
      // --resume uses ssh_config to fetch the results of an earlier attempt.
      if (flags.Has("resume") && flag == absl::string_view("ssh_config")) continue;
      return absl::InvalidArgumentError(absl::StrCat("--", flag, " has an effect only with --hostfile"));
    }
    return PlacesAllHere(jobs);
  }
  const std::string file = flags.Get("hostfile");
  TETHYS_ASSIGN_OR_RETURN(const std::vector<HostEntry> entries, ReadHostFile(file));
  std::vector<ClusterPlan> plans;
  std::set<int> used;
  for (size_t i = 0; i < jobs.size(); ++i) {
    const bool own = i < own_hosts.size() && !own_hosts[i].empty();
    TETHYS_ASSIGN_OR_RETURN(ClusterPlan plan, PlanCluster(own ? own_hosts[i] : entries, file, jobs[i]));
    for (const int host : plan.UsedHosts()) {
      const int entry = EntryOf(plan, host, entries);
      if (entry == static_cast<int>(entries.size())) {
        return absl::InvalidArgumentError(
            absl::StrCat(file, " does not name host ", plan.hosts[host].host, ", on which a job is to run"));
      }
      used.insert(entry);
    }
    plans.push_back(std::move(plan));
  }
  TETHYS_ASSIGN_OR_RETURN(const std::vector<Place> hosts, PrepareUsed(entries, used, flags));
  std::vector<Places> places;
  for (const ClusterPlan& plan : plans) places.push_back(PlacesOf(plan, entries, hosts));
  return places;
}

// Before anything is started, checks that every machine has the files and GPUs that the jobs need there.
absl::Status CheckNeeds(const Flags& flags, const std::vector<proto::Job>& jobs,
                        const std::vector<Places>& places) {
  std::map<std::string, HostNeeds> needs;
  std::map<std::string, Place> hosts;
  for (size_t i = 0; i < jobs.size(); ++i) {
    TETHYS_ASSIGN_OR_RETURN(const auto of_job,
                            NeedsOf(jobs[i], places[i], flags.GetAll("cuda_library_path")));
    for (const auto& [host, of_host] : of_job) AddNeeds(of_host, needs[host]);
    hosts[places[i].chief.host] = places[i].chief;
    for (const Place& place : places[i].workers) hosts[place.host] = place;
  }
  std::vector<Place> asked;
  for (auto& [host, place] : hosts) {
    if (const auto found = needs.find(host); found == needs.end() || found->second.empty()) continue;
    asked.push_back(std::move(place));
  }
  if (asked.empty()) return absl::OkStatus();
  const InterruptsHeld held;  // Released after the scratch directory has been removed.
  TETHYS_ASSIGN_OR_RETURN(const ScratchDirectory scratch, ScratchDirectory::Create());
  return AskForNeeds(needs, asked, scratch.path());
}

}  // namespace

int CoresHere() { return UsableCores(); }

FlagSpec TlsFlag() {
  return {.name = "tls",
          .value = "on|off",
          .help =
              "Whether the job's processes use mutual TLS, with certificates made for this job. "
              "Default: on with --hostfile, off without."};
}

absl::StatusOr<bool> WantsTls(const Flags& flags) {
  if (!flags.Has("tls")) return flags.Has("hostfile");
  const std::string wish = flags.Get("tls");
  if (wish == "on" || wish == "off") return wish == "on";
  return absl::InvalidArgumentError(absl::StrCat("--tls=", wish, ": must be on or off"));
}

void PrintLine(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

std::vector<FlagSpec> WithClusterFlags(std::vector<FlagSpec> flags) {
  flags.push_back({.name = "hostfile",
                   .value = "FILE",
                   .help = "Runs on the machines of this file, by ssh (docs/guide/machines.md). Default: "
                           "everything on this machine.",
                   .is_input = true});
  flags.push_back({.name = "ssh_config",
                   .value = "FILE",
                   .help = "The configuration of ssh, in place of ~/.ssh/config.",
                   .is_input = true});
  flags.push_back(
      {.name = "bundle",
       .value = "FILE",
       .help = "The bundle for machines that lack this build, made by deploy/bundle.sh. Default: the bundle "
               "beside this program, which is made if it is missing.",
       .is_input = true});
  flags.push_back(TlsFlag());
  flags.push_back(SecretsFlag());
  return flags;
}

absl::StatusOr<std::vector<Places>> PlaceJobs(const Flags& flags, const std::vector<proto::Job>& jobs) {
  return PlaceJobs(flags, jobs, {});
}

absl::StatusOr<std::vector<Places>> PlaceJobs(const Flags& flags, const std::vector<proto::Job>& jobs,
                                              const std::vector<std::vector<HostEntry>>& hosts) {
  TETHYS_ASSIGN_OR_RETURN(std::vector<Places> places, PlacesByFlags(flags, jobs, hosts));
  TETHYS_RETURN_IF_ERROR(CheckNeeds(flags, jobs, places));
  TETHYS_ASSIGN_OR_RETURN(const bool tls, WantsTls(flags));
  for (Places& place : places) place.tls = tls;
  return places;
}

absl::Status CheckFitsHosts(const Flags& flags, const proto::Job& job) {
  if (!flags.Has("hostfile")) return absl::OkStatus();
  return PlanCluster(flags.Get("hostfile"), job).status();
}

absl::Status PriceByHosts(const Flags& flags, proto::Job& job) {
  if (!flags.Has("hostfile") || job.price_per_hour() > 0) return absl::OkStatus();
  TETHYS_ASSIGN_OR_RETURN(const ClusterPlan plan, PlanCluster(flags.Get("hostfile"), job));
  job.set_price_per_hour(plan.PricePerHour());
  return absl::OkStatus();
}

}  // namespace tethys
