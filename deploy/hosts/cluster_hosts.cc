#include "deploy/hosts/cluster_hosts.h"

#include <sys/utsname.h>

#include <algorithm>
#include <memory>
#include <set>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "deploy/hosts/payload.h"
#include "deploy/process/conversation.h"
#include "deploy/process/own_program.h"
#include "deploy/process/remote_shell.h"
#include "deploy/process/ssh.h"
#include "runtime/base/build_id.h"

namespace tethys {
namespace {

constexpr Nanoseconds kFactsDeadline = 20 * kSecond;
// A copy fails if no byte moves for this time.
constexpr Nanoseconds kCopyStall = 120 * kSecond;

// A script that installs the bundle on its standard input. It unpacks the bundle into a temporary folder and
// renames this folder, so the build is complete or absent even if two launchers install it at once. It
// removes builds whose folders were not touched for a month: the facts script and running processes touch the
// folders of the builds that they use. `folder` may contain other files of the user, so only folders that
// contain a bundle count as builds.
std::string InstallScript(const std::string& build, const std::string& folder) {
  return absl::StrCat("build=", build, "\nroot=", ShellQuote(folder), R"sh(
new="$root/.new-$$"
trap 'rm -rf "$new"' EXIT
mkdir -p "$new" || exit
tar -xzf - -C "$new" || exit
version="$("$new/tethys" --version)" || { echo "the program in the bundle does not run there" >&2; exit 1; }
case "$version" in
  *"$build"*) ;;
  *) echo "the bundle contains $version, but this is build $build" >&2; exit 1 ;;
esac
find "$root" -mindepth 1 -maxdepth 1 -type d -mtime +30 '(' -name '.new-*' -o \
  -exec sh -c 'test -f "$1/build" && test -f "$1/lib/tethys"' sh {} ';' ')' -exec rm -rf {} + 2>/dev/null
mv -T "$new" "$root/$build" 2>/dev/null || test -x "$root/$build/tethys")sh");
}

absl::Status At(const ClusterHost& host, const absl::Status& status) {
  return Annotate(status, absl::StrCat("host ", host.target.host));
}

// One status with the code of the first error and the messages of all errors.
absl::Status Together(const std::vector<absl::Status>& errors) {
  return absl::Status(errors[0].code(),
                      absl::StrJoin(errors, "\n    ", [](std::string* out, const absl::Status& error) {
                        absl::StrAppend(out, error.message());
                      }));
}

// A host that is reached by ssh, and its Place, which AskForFacts completes.
struct Remote {
  const ClusterHost* host;
  Place* place;
};

// Checks that the address in the host file is one of the host's own addresses, if these are known.
absl::Status CheckOwnAddress(const ClusterHost& host, const std::string& address, const HostFacts& facts) {
  if (facts.addresses.empty() || facts.addresses.count(address) > 0 || host.address.empty()) {
    return absl::OkStatus();
  }
  std::vector<std::string> own;
  for (const std::string& each : facts.addresses) {
    if (!IsLoopbackName(each)) own.push_back(each);
  }
  return absl::InvalidArgumentError(
      absl::StrCat(host.origin, ": address=", host.address, " is no address of this host, which has ",
                   own.empty() ? "none but loopback" : absl::StrJoin(own, ", ")));
}

class Preparation {
 public:
  explicit Preparation(const ClusterOptions& options) : options_(options) {}

  absl::Status Run(const std::vector<Remote>& remotes) {
    TETHYS_ASSIGN_OR_RETURN(const std::vector<LackingHost> lacking, AskForFacts(remotes));
    if (lacking.empty()) return absl::OkStatus();
    TETHYS_ASSIGN_OR_RETURN(const std::vector<absl::Status> installed, InstallBuild(lacking, options_));
    std::vector<absl::Status> errors;
    for (size_t i = 0; i < lacking.size(); ++i) {
      if (!installed[i].ok()) errors.push_back(At(lacking[i].host, installed[i]));
    }
    return errors.empty() ? absl::OkStatus() : Together(errors);
  }

  // The facts of each host, in the order of `remotes`.
  const std::vector<HostFacts>& facts() const { return facts_; }

 private:
  // Asks the hosts for their facts, and completes the places. Returns the hosts that lack this build. The
  // error names every host that cannot be used.
  absl::StatusOr<std::vector<LackingHost>> AskForFacts(const std::vector<Remote>& remotes) {
    std::vector<std::unique_ptr<Conversation>> conversations;
    for (const Remote& remote : remotes) {
      conversations.push_back(
          std::make_unique<Conversation>(remote.place->ssh, FactsScript(BuildId(), remote.host->folder), "",
                                         absl::StrCat(options_.scratch, "/host-", conversations.size())));
    }
    const std::vector<Answer> answers =
        AskAll(conversations, std::vector<std::string>(remotes.size(), "facts"), kFactsDeadline);
    std::vector<LackingHost> lacking;
    std::vector<absl::Status> errors;
    for (size_t i = 0; i < remotes.size(); ++i) {
      const absl::StatusOr<HostFacts> facts = ReadFacts(remotes[i], answers[i]);
      facts_.push_back(facts.value_or(HostFacts()));
      if (!facts.ok()) {
        errors.push_back(At(*remotes[i].host, facts.status()));
        continue;
      }
      remotes[i].place->folder = facts->folder;
      remotes[i].place->program = absl::StrCat(facts->folder, "/", BuildId(), "/tethys");
      if (facts->program.empty()) lacking.push_back({*remotes[i].host, remotes[i].place->ssh, *facts});
    }
    if (!errors.empty()) return Together(errors);
    return lacking;
  }

  absl::StatusOr<HostFacts> ReadFacts(const Remote& remote, const Answer& answer) const {
    const ClusterHost& host = *remote.host;
    if (!answer.status.ok()) {
      return absl::Status(
          answer.status.code(),
          absl::StrCat(answer.status.message(), " (try: ", SshTrial(options_.ssh_config, host.target), ")"));
    }
    const HostFacts facts = ParseFacts(answer.lines);
    TETHYS_RETURN_IF_ERROR(CheckFolder(facts));
    utsname own;
    uname(&own);
    TETHYS_RETURN_IF_ERROR(CheckArchitecture(facts, own.machine));
    TETHYS_RETURN_IF_ERROR(CheckOwnAddress(host, remote.place->address, facts));
    const std::string warning = ClockWarning(FindClockOffset({answer}));
    if (!warning.empty()) options_.note(absl::StrCat("warning: ", host.target.host, ": ", warning));
    return facts;
  }

  const ClusterOptions& options_;
  std::vector<HostFacts> facts_;
};

// Notes for the user about addresses: two hosts that are the same machine, and a host that is reached at an
// address that is not its own. `facts` has an element for each of `remotes`; `own` are the addresses of this
// machine.
void NoteAddresses(const std::vector<Place>& places, const std::vector<Remote>& remotes,
                   const std::vector<HostFacts>& facts, const std::set<std::string>& own,
                   const ClusterOptions& options) {
  std::vector<std::set<std::string>> addresses(places.size());
  for (size_t i = 0; i < places.size(); ++i) {
    if (places[i].ssh.empty()) addresses[i] = own;
  }
  for (size_t i = 0; i < remotes.size(); ++i)
    addresses[remotes[i].place - places.data()] = facts[i].addresses;
  for (size_t i = 0; i < places.size(); ++i) {
    const std::string& address = places[i].address;
    if (!addresses[i].empty() && addresses[i].count(address) == 0) {
      options.note(
          absl::StrCat("warning: ", places[i].host, " is reached at ", address,
                       ", which is not an address of that machine: processes there cannot listen at this "
                       "address; give another address of the machine by address= in the host file"));
    }
    for (size_t j = 0; j < i; ++j) {
      const bool same = places[j].address == address || addresses[j].count(address) > 0 ||
                        addresses[i].count(places[j].address) > 0;
      if (!same || IsLoopbackName(address)) continue;
      options.note(absl::StrCat("warning: ", places[j].host, " and ", places[i].host, " are one machine (",
                                address,
                                "), so the processes share the cores: name this machine once, with slots=N"));
      break;
    }
  }
}

}  // namespace

absl::StatusOr<std::vector<absl::Status>> InstallBuild(const std::vector<LackingHost>& hosts,
                                                       const ClusterOptions& options) {
  std::vector<absl::Status> statuses;
  for (const LackingHost& each : hosts) statuses.push_back(CheckWritable(each.facts, each.host.origin));
  if (std::none_of(statuses.begin(), statuses.end(), [](const auto& each) { return each.ok(); }))
    return statuses;
  TETHYS_ASSIGN_OR_RETURN(const Payload payload, FindPayload({.program = OwnProgram(),
                                                              .build = BuildId(),
                                                              .bundle = options.bundle,
                                                              .scratch = options.scratch,
                                                              .cache = BundleCache(),
                                                              .note = options.note}));
  for (size_t i = 0; i < hosts.size(); ++i) {
    if (statuses[i].ok()) statuses[i] = CheckSpace(hosts[i].facts, payload.installed_bytes);
  }
  std::vector<RemoteCommand> commands;
  std::vector<size_t> numbers;
  for (size_t i = 0; i < hosts.size(); ++i) {
    if (!statuses[i].ok()) continue;
    numbers.push_back(i);
    commands.push_back({.ssh = hosts[i].ssh,
                        .command = InstallScript(BuildId(), hosts[i].facts.folder),
                        .input_path = payload.path,
                        .moves_data = true});
  }
  if (commands.empty()) return statuses;
  options.note(absl::StrCat("copying ", payload.path, " to ", commands.size(),
                            commands.size() == 1 ? " host that lacks" : " hosts that lack", " this build"));
  const std::vector<RemoteResult> results = RunEverywhere(commands, kCopyStall, options.scratch);
  for (size_t i = 0; i < results.size(); ++i) {
    if (results[i].status.ok()) continue;
    const LackingHost& each = hosts[numbers[i]];
    statuses[numbers[i]] = absl::Status(
        results[i].status.code(),
        absl::StrCat("this build could not be copied to this host: ", results[i].status.message(),
                     " (a host needs sh, tar, gzip, and a folder with free space from which programs may "
                     "run; the folder now is ",
                     each.facts.folder, ": name another folder by folder=PATH in ", each.host.origin, ")"));
  }
  return statuses;
}

absl::StatusOr<std::vector<Place>> PrepareHosts(const std::vector<ClusterHost>& hosts,
                                                const ClusterOptions& options) {
  const std::set<std::string> own = OwnAddresses();
  const std::vector<absl::StatusOr<std::string>> addresses =
      FindAddresses(hosts, options.ssh_config, options.scratch);
  std::vector<Place> places(hosts.size());
  std::vector<Remote> remotes;
  for (size_t i = 0; i < hosts.size(); ++i) {
    places[i].host = hosts[i].target.host;
    places[i].program = OwnProgram();
    TETHYS_ASSIGN_OR_RETURN(places[i].address, addresses[i]);
    if (own.count(places[i].address) > 0) continue;
    places[i].ssh = SshCall(options.ssh_config, hosts[i].target);
    places[i].user = hosts[i].target.user;
    places[i].ssh_port = hosts[i].target.port;
    remotes.push_back({&hosts[i], &places[i]});
  }
  Preparation preparation(options);
  if (!remotes.empty()) TETHYS_RETURN_IF_ERROR(preparation.Run(remotes));
  NoteAddresses(places, remotes, preparation.facts(), own, options);
  return places;
}

}  // namespace tethys
