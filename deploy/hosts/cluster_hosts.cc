#include "deploy/hosts/cluster_hosts.h"

#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/utsname.h>

#include <algorithm>
#include <memory>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "deploy/hosts/host_facts.h"
#include "deploy/hosts/payload.h"
#include "deploy/process/conversation.h"
#include "deploy/process/own_program.h"
#include "runtime/base/build_id.h"

namespace tethys {
namespace {

constexpr Nanoseconds kFactsDeadline = 20 * kSecond;
// The longest time without a byte moved.
constexpr Nanoseconds kCopyStall = 120 * kSecond;

// A script that installs the bundle on its standard input. It unpacks the bundle into a temporary folder and
// renames that, so the build is complete or absent even if two launchers install it at once. It removes
// builds that were not used for a month: the facts script and running processes touch the builds that they
// use.
std::string InstallScript(const std::string& build) {
  return absl::StrCat("build=", build, R"sh(
root="$HOME/.cache/tethys"
new="$root/.new-$$"
trap 'rm -rf "$new"' EXIT
mkdir -p "$new" || exit
tar -xzf - -C "$new" || exit
version="$("$new/tethys" --version)" || { echo "it does not run there" >&2; exit 1; }
case "$version" in
  *"$build"*) ;;
  *) echo "the bundle holds $version, and this is build $build" >&2; exit 1 ;;
esac
find "$root" -mindepth 1 -maxdepth 1 -type d ! -name runs ! -name data -mtime +30 -exec rm -rf {} + 2>/dev/null
mv -T "$new" "$root/$build" 2>/dev/null || test -x "$root/$build/tethys")sh");
}

std::string NumericAddress(const std::string& name) {
  addrinfo hints{};
  hints.ai_family = AF_INET;
  addrinfo* list = nullptr;
  if (getaddrinfo(name.c_str(), nullptr, &hints, &list) != 0) return "";
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> holder(list, freeaddrinfo);
  char text[NI_MAXHOST];
  const int error =
      getnameinfo(list->ai_addr, list->ai_addrlen, text, sizeof(text), nullptr, 0, NI_NUMERICHOST);
  return error == 0 ? text : "";
}

bool IsLoopback(const std::string& address) { return absl::StartsWith(address, "127."); }

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

// A host that is reached by ssh, and its place.
struct Remote {
  const ClusterHost* host;
  Place* place;
  HostFacts facts = {};
};

class Preparation {
 public:
  explicit Preparation(const ClusterOptions& options) : options_(options) {}

  absl::Status Run(const std::vector<Remote>& remotes) {
    TETHYS_ASSIGN_OR_RETURN(const std::vector<Remote> lacking, AskForFacts(remotes));
    return lacking.empty() ? absl::OkStatus() : Install(lacking);
  }

 private:
  // Completes the places. Returns the hosts that lack this build. The error names every host that cannot be
  // used.
  absl::StatusOr<std::vector<Remote>> AskForFacts(const std::vector<Remote>& remotes) {
    std::vector<std::unique_ptr<Conversation>> conversations;
    for (const Remote& remote : remotes) {
      conversations.push_back(
          std::make_unique<Conversation>(remote.place->ssh, FactsScript(BuildId()), "",
                                         absl::StrCat(options_.scratch, "/host-", conversations.size())));
    }
    const std::vector<Answer> answers =
        AskAll(conversations, std::vector<std::string>(remotes.size(), "facts"), kFactsDeadline);
    std::vector<Remote> lacking;
    std::vector<absl::Status> errors;
    for (size_t i = 0; i < remotes.size(); ++i) {
      const absl::StatusOr<HostFacts> facts = ReadFacts(*remotes[i].host, answers[i]);
      if (!facts.ok()) {
        errors.push_back(At(*remotes[i].host, facts.status()));
        continue;
      }
      remotes[i].place->folder = facts->home + "/.cache/tethys";
      remotes[i].place->program = absl::StrCat(remotes[i].place->folder, "/", BuildId(), "/tethys");
      if (!facts->program.empty()) continue;
      lacking.push_back(remotes[i]);
      lacking.back().facts = *facts;
    }
    if (!errors.empty()) return Together(errors);
    return lacking;
  }

  absl::StatusOr<HostFacts> ReadFacts(const ClusterHost& host, const Answer& answer) const {
    if (!answer.status.ok()) {
      return absl::Status(
          answer.status.code(),
          absl::StrCat(answer.status.message(), " (try: ", SshTrial(options_.ssh_config, host.target), ")"));
    }
    const HostFacts facts = ParseFacts(answer.lines);
    TETHYS_RETURN_IF_ERROR(CheckHome(facts));
    utsname own;
    uname(&own);
    TETHYS_RETURN_IF_ERROR(CheckArchitecture(facts, own.machine));
    const std::string warning = ClockWarning(FindClockOffset({answer}));
    if (!warning.empty()) options_.note(absl::StrCat("warning: ", host.target.host, ": ", warning));
    return facts;
  }

  absl::Status Install(const std::vector<Remote>& lacking) {
    TETHYS_ASSIGN_OR_RETURN(const Payload payload, FindPayload({.program = OwnProgram(),
                                                                .build = BuildId(),
                                                                .bundle = options_.bundle,
                                                                .scratch = options_.scratch,
                                                                .note = options_.note}));
    for (const Remote& remote : lacking) {
      TETHYS_RETURN_IF_ERROR(At(*remote.host, CheckSpace(remote.facts, payload.installed_bytes)));
    }
    options_.note(absl::StrCat("copying ", payload.path, " to ", lacking.size(),
                               lacking.size() == 1 ? " host that lacks" : " hosts that lack", " this build"));
    std::vector<RemoteCommand> commands;
    for (const Remote& remote : lacking) {
      commands.push_back({.ssh = remote.place->ssh,
                          .command = InstallScript(BuildId()),
                          .input_path = payload.path,
                          .moves_data = true});
    }
    const std::vector<RemoteResult> results = RunEverywhere(commands, kCopyStall, options_.scratch);
    std::vector<absl::Status> errors;
    for (size_t i = 0; i < lacking.size(); ++i) {
      if (results[i].status.ok()) continue;
      errors.push_back(
          At(*lacking[i].host,
             absl::Status(results[i].status.code(),
                          absl::StrCat("this build could not be copied there: ", results[i].status.message(),
                                       " (a host needs sh, tar, gzip, and room in "
                                       "~/.cache/tethys)"))));
    }
    if (!errors.empty()) return Together(errors);
    return absl::OkStatus();
  }

  const ClusterOptions& options_;
};

}  // namespace

std::set<std::string> OwnAddresses() {
  std::set<std::string> own;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return own;
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> holder(list, freeifaddrs);
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || entry->ifa_addr->sa_family != AF_INET) continue;
    char text[NI_MAXHOST];
    if (getnameinfo(entry->ifa_addr, sizeof(sockaddr_in), text, sizeof(text), nullptr, 0, NI_NUMERICHOST) ==
        0) {
      own.insert(text);
    }
  }
  return own;
}

absl::StatusOr<std::string> FindAddress(const ClusterHost& host, bool alone, const ClusterOptions& options) {
  std::string name = host.address;
  if (name.empty()) {
    TETHYS_ASSIGN_OR_RETURN(name, SshHostName(options.ssh_config, host.target, options.scratch));
  }
  const std::string address = NumericAddress(name);
  if (address.empty()) {
    return absl::NotFoundError(absl::StrCat(host.target.host, ": no address is known for ", name,
                                            ": give one by address= in the host file (the other machines "
                                            "must reach it there), or correct the name"));
  }
  if (IsLoopback(address) && !alone) {
    return absl::InvalidArgumentError(absl::StrCat(
        host.target.host, " is ", address,
        " here, where other machines do not reach it: give its address by address= in the host file"));
  }
  return address;
}

absl::StatusOr<std::vector<Place>> PrepareHosts(const std::vector<ClusterHost>& hosts,
                                                const ClusterOptions& options) {
  const std::set<std::string> own = OwnAddresses();
  std::vector<Place> places(hosts.size());
  std::vector<Remote> remotes;
  for (size_t i = 0; i < hosts.size(); ++i) {
    places[i].host = hosts[i].target.host;
    places[i].program = OwnProgram();
    TETHYS_ASSIGN_OR_RETURN(places[i].address, FindAddress(hosts[i], hosts.size() == 1, options));
    if (own.count(places[i].address) > 0) continue;
    places[i].ssh = SshCall(options.ssh_config, hosts[i].target);
    places[i].user = hosts[i].target.user;
    places[i].ssh_port = hosts[i].target.port;
    remotes.push_back({&hosts[i], &places[i]});
  }
  if (!remotes.empty()) TETHYS_RETURN_IF_ERROR(Preparation(options).Run(remotes));
  return places;
}

}  // namespace tethys
