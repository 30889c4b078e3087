#include <signal.h>

#include <algorithm>
#include <cstdio>

#include "deploy/command/verbs.h"
#include "deploy/hosts/host_check.h"
#include "deploy/process/scratch_directory.h"
#include "deploy/process/signal_source.h"
#include "deploy/run/job_places.h"

namespace tethys {
namespace {

absl::StatusOr<ClusterCheck> Check(const Flags& flags) {
  const std::string& what = flags.arguments()[0];
  if (what != "check") {
    return absl::InvalidArgumentError(
        absl::StrCat("'", what, "' is not understood; write tethys hosts check --hostfile=FILE"));
  }
  if (flags.Has("bundle") && !flags.Has("install")) {
    return absl::InvalidArgumentError("--bundle has an effect only with --install");
  }
  TETHYS_ASSIGN_OR_RETURN(const std::vector<HostEntry> entries, ReadHostFile(flags.Get("hostfile")));
  const InterruptsHeld held;  // Holds interrupts until the scratch directory is removed.
  TETHYS_ASSIGN_OR_RETURN(const ScratchDirectory scratch, ScratchDirectory::Create());
  signal(SIGPIPE, SIG_IGN);  // Then a write to a host whose connection is lost returns an error.
  return CheckCluster(
      {.entries = entries, .hostfile = flags.Get("hostfile"), .install = flags.Has("install")},
      {.ssh_config = flags.Get("ssh_config"),
       .bundle = flags.Get("bundle"),
       .scratch = scratch.path(),
       .note = PrintLine});
}

bool Sound(const ClusterCheck& check, bool install) {
  return std::all_of(
             check.hosts.begin(), check.hosts.end(),
             [&](const CheckedHost& host) { return host.reached.ok() && !(install && host.lacks_build); }) &&
         std::all_of(check.links.begin(), check.links.end(),
                     [](const CheckedLink& link) { return link.speed.ok(); });
}

int Hosts(const Flags& flags) {
  const absl::StatusOr<ClusterCheck> check = Check(flags);
  if (!check.ok()) return Fail("hosts", check.status(), kExitBadRequest);
  std::fputs(ClusterCheckText(*check).c_str(), stdout);
  return Sound(*check, flags.Has("install")) ? kExitSuccess : kExitFailed;
}

}  // namespace

Command HostsCommand() {
  return {
      {.verb = "hosts",
       .summary = "Checks the machines of a host file, and the links between them.",
       .description =
           "tethys hosts check shows for each machine whether ssh connects, its architecture, cores, "
           "memory, free disk and GPUs, and the offset of its clock from this machine's clock, with the "
           "error of the offset. Then it measures bandwidth and round-trip time between each pair of "
           "machines that have this build; a pair takes about a second, and several pairs are measured at "
           "once. Nothing is installed without --install. The exit status is 1 if a machine cannot be "
           "reached, if this build cannot be installed on a machine (with --install), or if a link fails.",
       .argument = "check",
       .flags =
           {{.name = "hostfile",
             .value = "FILE",
             .help = "The machines, one per line.",
             .required = true,
             .is_input = true},
            {.name = "ssh_config",
             .value = "FILE",
             .help = "The configuration of ssh, in place of ~/.ssh/config.",
             .is_input = true},
            {.name = "install",
             .help =
                 "Installs this build on machines that lack it, as the first job on a machine does, too."},
            {.name = "bundle",
             .value = "FILE",
             .help = "With --install: the same as --bundle of tethys train.",
             .is_input = true}},
       .examples = {"tethys hosts check --hostfile=hosts", "tethys hosts check --hostfile=hosts --install"}},
      Hosts};
}

}  // namespace tethys
