#include "deploy/cluster_launcher.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <map>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "deploy/cluster_hosts.h"
#include "runtime/base/file.h"
#include "runtime/job/job.h"

namespace tethys {
namespace {

struct Host {
  SshTarget target;
  std::string address;
  int slots = 1;
  std::string role;
};
struct Assignment {
  int chief = 0;
  std::vector<int> servers, workers;
};

absl::StatusOr<std::vector<Host>> ReadHosts(const std::string& path) {
  TETHYS_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, 1 << 20));
  std::vector<Host> hosts;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    std::vector<std::string> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
    if (words.empty() || words[0][0] == '#') continue;
    Host host;
    host.target.host = words[0];
    for (auto& w : words) {
      std::pair<std::string, std::string> kv = absl::StrSplit(w, absl::MaxSplits('=', 1));
      if (kv.first == "slots") host.slots = atoi(kv.second.c_str());
      if (kv.first == "role") host.role = kv.second;
      if (kv.first == "address") host.address = kv.second;
    }
    hosts.push_back(host);
  }
  return hosts;
}

Assignment Assign(const std::vector<Host>& hosts, int workers, int servers) {
  Assignment a;
  const bool has = false;
  for (int i = 0; i < (int)hosts.size(); ++i) {
    if (hosts[i].role.find("chief") != std::string::npos) a.chief = i;
    if (hosts[i].role.find("worker") != std::string::npos && (int)a.workers.size() < workers)
      a.workers.push_back(i);
    if (hosts[i].role.find("ps") != std::string::npos && (int)a.servers.size() < servers)
      a.servers.push_back(i);
  }
  int at = hosts.size() > 1 ? 1 : 0;
  (void)has;
  while ((int)a.workers.size() < workers) {
    a.workers.push_back(at);
    at = (at + 1) % hosts.size();
  }
  while ((int)a.servers.size() < servers) {
    a.servers.push_back(at);
    at = (at + 1) % hosts.size();
  }
  return a;
}

}  // namespace

std::vector<FlagSpec> WithClusterFlags(std::vector<FlagSpec> flags) {
  flags.insert(
      flags.end(),
      {{.name = "hostfile",
        .value = "FILE",
        .help = "Runs the job on the machines of this file, by ssh. Default: all on this machine."},
       {.name = "ssh_config", .value = "FILE", .help = "In place of ~/.ssh/config."},
       {.name = "bundle",
        .value = "FILE",
        .help =
            "What hosts that lack this build are given; deploy/bundle.sh makes it. Default: the one beside "
            "this program."}});
  return flags;
}

absl::StatusOr<std::vector<Places>> PlaceJobs(const Flags& flags, const std::vector<proto::Job>& jobs) {
  std::vector<Places> all;
  if (!flags.Has("hostfile")) {
    for (const proto::Job& job : jobs) {
      all.push_back(PlacesHere("/proc/self/exe", job.workers(), ServerCount(job)));
    }
    return all;
  }
  TETHYS_ASSIGN_OR_RETURN(const std::vector<Host> hosts, ReadHosts(flags.Get("hostfile")));
  std::vector<Assignment> assignments;
  std::map<int, Place> used;
  for (const proto::Job& job : jobs) {
    Assignment a = Assign(hosts, job.workers(), ServerCount(job));
    used[a.chief];
    for (int i : a.workers) used[i];
    for (int i : a.servers) used[i];
    assignments.push_back(a);
  }
  std::vector<ClusterHost> needed;
  for (auto& [i, place] : used) needed.push_back({hosts[i].target, hosts[i].address});
  char scratch[] = "/tmp/tethys-ssh-XXXXXX";
  if (mkdtemp(scratch) == nullptr) return ErrnoStatus(errno, scratch);
  auto places = PrepareHosts(needed, {.ssh_config = flags.Get("ssh_config"),
                                      .bundle = flags.Get("bundle"),
                                      .scratch = scratch,
                                      .note = [](const std::string& line) {
                                        std::printf("%s\n", line.c_str());
                                        std::fflush(stdout);
                                      }});
  RemoveRecursively(scratch).IgnoreError();
  TETHYS_RETURN_IF_ERROR(places.status());
  int n = 0;
  for (auto& [i, place] : used) place = (*places)[n++];
  for (const Assignment& a : assignments) {
    Places p{.chief = used[a.chief], .servers = {}, .workers = {}};
    for (int i : a.servers) p.servers.push_back(used[i]);
    for (int i : a.workers) p.workers.push_back(used[i]);
    all.push_back(p);
  }
  return all;
}

}  // namespace tethys
