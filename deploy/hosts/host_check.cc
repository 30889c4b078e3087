#include "deploy/hosts/host_check.h"

#include <sys/utsname.h>

#include <memory>
#include <set>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "deploy/process/own_program.h"
#include "deploy/process/remote_shell.h"
#include "runtime/base/build_id.h"

namespace tethys {
namespace {

constexpr Nanoseconds kFactsDeadline = 30 * kSecond;
constexpr Nanoseconds kClockDeadline = 10 * kSecond;
constexpr Nanoseconds kListenDeadline = 30 * kSecond;
// Longer than the deadline inside MeasureLink, because the error of MeasureLink says more than the error of
// this deadline.
constexpr Nanoseconds kLinkDeadline = 15 * kSecond;
constexpr int kClockRounds = 8;

using Conversations = std::vector<std::unique_ptr<Conversation>>;

std::vector<std::string> Repeated(const std::string& question, size_t count) {
  return std::vector<std::string>(count, question);
}

absl::string_view FirstLine(const Answer& answer) {
  return answer.lines.empty() ? absl::string_view() : absl::string_view(answer.lines[0]);
}

class Checker {
 public:
  Checker(const CheckRequest& request, const ClusterOptions& options)
      : options_(options), install_(request.install), rounds_(request.rounds) {
    utsname own;
    uname(&own);
    check_.architecture = own.machine;
    const std::set<std::string> own_addresses = OwnAddresses();
    for (const HostEntry& entry : request.entries) hosts_.push_back(ClusterHostOf(entry, request.hostfile));
    const std::vector<absl::StatusOr<std::string>> addresses =
        FindAddresses(hosts_, options.ssh_config, options.scratch);
    for (size_t i = 0; i < hosts_.size(); ++i) {
      const ClusterHost& host = hosts_[i];
      CheckedHost checked{.host = host.target.host, .trial = SshTrial(options.ssh_config, host.target)};
      checked.links = addresses[i].status();
      checked.address = addresses[i].value_or("");
      checked.here = own_addresses.count(checked.address) > 0;
      ssh_.push_back(checked.here ? std::vector<std::string>() : SshCall(options.ssh_config, host.target));
      check_.hosts.push_back(std::move(checked));
    }
  }

  ClusterCheck Run() {
    CheckHosts();
    if (install_) Install();
    CheckLinks();
    return std::move(check_);
  }

 private:
  std::unique_ptr<Conversation> Talk(size_t host, const std::string& command,
                                     const std::string& input) const {
    return std::make_unique<Conversation>(ssh_[host], command, input,
                                          absl::StrCat(options_.scratch, "/host-", host));
  }

  void CheckHosts() {
    const size_t count = check_.hosts.size();
    Conversations conversations;
    for (size_t i = 0; i < count; ++i) {
      conversations.push_back(Talk(i, FactsScript(BuildId(), hosts_[i].folder), ""));
    }
    const std::vector<Answer> facts = AskAll(conversations, Repeated("facts", count), kFactsDeadline);
    std::vector<std::vector<Answer>> times(count);
    for (int round = 0; round < kClockRounds; ++round) {
      const std::vector<Answer> answers = AskAll(conversations, Repeated("time", count), kClockDeadline);
      for (size_t i = 0; i < count; ++i) times[i].push_back(answers[i]);
    }
    const std::vector<Answer> gpus = AskAll(conversations, Repeated("gpus", count), kFactsDeadline);
    for (size_t i = 0; i < count; ++i) {
      CheckedHost& host = check_.hosts[i];
      host.reached = facts[i].status;
      host.facts = ParseFacts(facts[i].lines);
      host.facts.gpus = ParseFacts(gpus[i].lines).gpus;
      if (host.here) host.facts.program = OwnProgramForOthers();
      host.clock = host.here ? ClockOffset() : FindClockOffset(times[i]);
      host.lacks_build = host.reached.ok() && host.facts.program.empty();
    }
  }

  // Installs this build where it is missing. If a host cannot store or run the build, CheckedHost::links has
  // the reason.
  void Install() {
    std::vector<LackingHost> lacking;
    std::vector<CheckedHost*> checked;
    for (size_t i = 0; i < hosts_.size(); ++i) {
      CheckedHost& host = check_.hosts[i];
      if (!host.lacks_build || !CheckArchitecture(host.facts, check_.architecture).ok()) continue;
      if (const absl::Status known = CheckFolder(host.facts); !known.ok()) {
        host.links = known;
        continue;
      }
      lacking.push_back({hosts_[i], ssh_[i], host.facts});
      checked.push_back(&host);
    }
    if (lacking.empty()) return;
    const absl::StatusOr<std::vector<absl::Status>> installed = InstallBuild(lacking, options_);
    for (size_t i = 0; i < lacking.size(); ++i) {
      const absl::Status status = installed.ok() ? (*installed)[i] : installed.status();
      checked[i]->lacks_build = !status.ok();
      if (status.ok()) {
        checked[i]->facts.program = absl::StrCat(checked[i]->facts.folder, "/", BuildId(), "/tethys");
      } else {
        // The code NotFound (for example, for a wrong --bundle) would mean that no installation was tried.
        checked[i]->links =
            absl::IsNotFound(status) ? absl::FailedPreconditionError(status.message()) : status;
      }
    }
  }

  // Starts `tethys link`, which listens, on every machine that has this build, and sets `listeners` to the
  // addresses. Sets CheckedHost::links of every machine.
  Conversations StartMeters(const std::string& secret, std::vector<std::string>& listeners) {
    Conversations conversations(check_.hosts.size());
    for (size_t i = 0; i < check_.hosts.size(); ++i) {
      CheckedHost& host = check_.hosts[i];
      if (!host.reached.ok() && host.links.ok())
        host.links = absl::UnavailableError("the host was not reached");
      if (!host.links.ok()) continue;
      if (host.facts.program.empty()) {
        host.links = absl::NotFoundError("this build is not installed on this host");
        continue;
      }
      const std::string command =
          absl::StrCat("exec ", ShellQuote(host.facts.program), " link --bind=", ShellQuote(host.address));
      conversations[i] = Talk(i, command, secret);
    }
    const std::vector<Answer> answers =
        AskAll(conversations, Repeated("listen", conversations.size()), kListenDeadline);
    for (size_t i = 0; i < answers.size(); ++i) {
      if (conversations[i] == nullptr) continue;
      absl::Status& status = check_.hosts[i].links;
      status = answers[i].status;
      absl::string_view address = FirstLine(answers[i]);
      if (status.ok() && !absl::ConsumePrefix(&address, "listening ")) {
        status =
            absl::UnavailableError("tethys on this host does not report the address at which it listens");
      }
      listeners[i] = std::string(address);
    }
    return conversations;
  }

  void CheckLinks() {
    const std::string secret = absl::StrCat(JobToken::Random().ToHex(), " hosts-check\n");
    std::vector<std::string> listeners(check_.hosts.size());
    const Conversations conversations = StartMeters(secret, listeners);
    std::vector<int> able;
    for (size_t i = 0; i < check_.hosts.size(); ++i) {
      if (check_.hosts[i].links.ok()) able.push_back(static_cast<int>(i));
    }
    for (const auto& round : RoundsOfPairs(static_cast<int>(able.size()), rounds_.most)) {
      std::vector<std::vector<std::pair<int, int>>> parts = {round};
      if (rounds_.one_at_once) {
        parts.clear();
        for (const auto& pair : round) parts.push_back({pair});
      }
      for (const auto& part : parts) {
        std::vector<std::string> questions(check_.hosts.size());
        for (const auto& [from, to] : part) {
          questions[able[from]] = absl::StrCat("measure ", listeners[able[to]]);
        }
        const std::vector<Answer> answers = AskAll(conversations, questions, kLinkDeadline);
        for (const auto& [from, to] : part) {
          check_.links.push_back({able[from], able[to], ParseSpeed(answers[able[from]])});
        }
      }
    }
  }

  static absl::StatusOr<LinkSpeed> ParseSpeed(const Answer& answer) {
    TETHYS_RETURN_IF_ERROR(answer.status);
    absl::string_view line = FirstLine(answer);
    if (absl::ConsumePrefix(&line, "failed ")) return absl::UnavailableError(line);
    const std::vector<std::string> words = absl::StrSplit(line, ' ');
    LinkSpeed speed;
    if (words.size() == 5 && words[0] == "speed" && absl::SimpleAtod(words[1], &speed.round_trip) &&
        absl::SimpleAtod(words[2], &speed.there) && absl::SimpleAtod(words[3], &speed.back) &&
        absl::SimpleAtod(words[4], &speed.block)) {
      return speed;
    }
    return absl::InternalError("tethys on this host did not answer with a speed");
  }

  const ClusterOptions& options_;
  const bool install_;
  const LinkRounds rounds_;
  std::vector<ClusterHost> hosts_;
  ClusterCheck check_;
  std::vector<std::vector<std::string>> ssh_;  // One ssh call per host.
};

}  // namespace

ClusterCheck CheckCluster(const CheckRequest& request, const ClusterOptions& options) {
  return Checker(request, options).Run();
}

std::vector<std::vector<std::pair<int, int>>> RoundsOfPairs(int count, int most) {
  // The circle method of tournaments: the last number keeps its seat, the other numbers move by one seat each
  // round, and numbers on opposite seats are a pair. With an odd count, one number is left out in each round.
  const int seats = count + count % 2;
  std::vector<std::vector<std::pair<int, int>>> rounds;
  for (int round = 0; round < seats - 1 && round < most; ++round) {
    rounds.emplace_back();
    for (int i = 0; i < seats / 2; ++i) {
      const int one = (round + i) % (seats - 1);
      const int other = i == 0 ? seats - 1 : (round - i + seats - 1) % (seats - 1);
      if (one < count && other < count) rounds.back().emplace_back(one, other);
    }
  }
  return rounds;
}

}  // namespace tethys
