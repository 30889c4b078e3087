#include "deploy/hosts/host_facts.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "deploy/process/remote_shell.h"

namespace tethys {
namespace {

constexpr double kMaxKib = 1e15;
// The largest clock offset without a warning, in seconds.
constexpr double kClockTolerance = 5;

// The most addresses that FactsScript lists.
constexpr size_t kMostAddresses = 500;

// The numeric text of an address as FactsScript prints it: IPv4 with dots, IPv6 as 32 hexadecimal digits.
// Empty for any other text and for a link-local address.
std::string OwnAddress(const std::string& text) {
  in_addr four;
  if (inet_pton(AF_INET, text.c_str(), &four) == 1) return text;
  const bool hex = text.size() == 32 && text.find_first_not_of("0123456789abcdefABCDEF") == std::string::npos;
  if (!hex || absl::StartsWith(text, "fe8")) return "";
  std::string colons;  // The address with colons, such as "fd00:0000:...".
  for (size_t at = 0; at < text.size(); at += 4) {
    absl::StrAppend(&colons, at > 0 ? ":" : "", absl::string_view(text).substr(at, 4));
  }
  in6_addr six;
  char numeric[INET6_ADDRSTRLEN];
  if (inet_pton(AF_INET6, colons.c_str(), &six) != 1) return "";
  return inet_ntop(AF_INET6, &six, numeric, sizeof(numeric)) == nullptr ? "" : numeric;
}

// Converts a whole number of KiB to bytes; -1 for any other text.
int64_t BytesOfKib(absl::string_view text) {
  int64_t kib = -1;
  return absl::SimpleAtoi(text, &kib) && kib >= 0 && static_cast<double>(kib) <= kMaxKib ? kib * 1024 : -1;
}

// The time in an answer, in nanoseconds since 1970, and the width of its last digit in seconds.
struct Stamp {
  int64_t nanoseconds = 0;
  double resolution = 0;
};

std::optional<Stamp> FindStamp(const Answer& answer) {
  for (absl::string_view line : answer.lines) {
    if (!absl::ConsumePrefix(&line, "time ")) continue;
    // Seconds and fraction are parsed as whole numbers, because a double would resolve only 0.2 µs.
    const std::pair<std::string, std::string> parts = absl::StrSplit(line, absl::MaxSplits('.', 1));
    int64_t seconds = 0;
    int64_t fraction = 0;
    const std::string& digits = parts.second;
    if (!absl::SimpleAtoi(parts.first, &seconds) || seconds < 0 || seconds > 4'000'000'000) continue;
    if (digits.size() > 9 || (!digits.empty() && !absl::SimpleAtoi(digits, &fraction)) || fraction < 0) {
      return Stamp{seconds * kSecond, 1};
    }
    const double resolution = std::pow(10.0, -static_cast<double>(digits.size()));
    return Stamp{seconds * kSecond + std::llround(static_cast<double>(fraction) * resolution * 1e9),
                 resolution};
  }
  return std::nullopt;
}

// Functions of the facts script. They print the limits of the shell's control group and of the groups above
// it, one line of numbers each, for ParseFacts. They read the same files as runtime/base/control_group.h.
// Cached files that the kernel can drop from memory at once do not count as used memory.
constexpr char kLimitsScript[] = R"sh(
limits_in() {
  group=$1$2
  while :; do
    if [ -r "$group/$3" ] && read -r most rest < "$group/$3"; then
      used=; [ -z "$4" ] || read -r used < "$group/$4"
      if [ -n "$used" ] && [ -r "$group/memory.stat" ]; then
        while read -r name size; do [ "$name" = "$6" ] && used=$((used - size)); done < "$group/memory.stat"
        [ "$used" -ge 0 ] || used=0
      fi
      say "$5" "$most ${rest:-$used}"
    fi
    [ "$group" != "$1" ] || break
    group=${group%/*}
  done
}
limits() {
  while IFS=: read -r _ kinds path; do
    [ "$path" != / ] || path=
    case ",$kinds," in
      ,,) for top in /sys/fs/cgroup /sys/fs/cgroup/unified; do
          limits_in $top "$path" memory.max memory.current limit inactive_file
          limits_in $top "$path" memory.high memory.current limit inactive_file
          limits_in $top "$path" cpu.max "" quota
        done ;;
      *,memory,*) limits_in /sys/fs/cgroup/memory "$path" memory.limit_in_bytes memory.usage_in_bytes limit \
        total_inactive_file ;;
      *,cpu,*) limits_in /sys/fs/cgroup/cpu "$path" cpu.cfs_quota_us cpu.cfs_period_us quota ;;
    esac
  done < /proc/self/cgroup
} 2>/dev/null
)sh";

// Parses two numbers of 0 or more; nullopt for any other text, such as "max" or -1, which mean no limit.
std::optional<std::pair<int64_t, int64_t>> TwoNumbers(const std::string& text) {
  const std::vector<std::string> words = absl::StrSplit(text, ' ');
  std::pair<int64_t, int64_t> numbers;
  if (words.size() != 2 || !absl::SimpleAtoi(words[0], &numbers.first) ||
      !absl::SimpleAtoi(words[1], &numbers.second) || numbers.first < 0 || numbers.second < 0) {
    return std::nullopt;
  }
  return numbers;
}

// Lowers a fact of the machine to the limit that control groups set for processes.
void ApplyLimit(const std::string& kind, const std::string& text, HostFacts& facts) {
  const auto numbers = TwoNumbers(text);
  if (!numbers.has_value()) return;
  const auto [most, other] = *numbers;
  if (kind == "limit") {
    if (facts.memory_bytes >= 0) facts.memory_bytes = std::min(facts.memory_bytes, most);
    const int64_t left = std::max<int64_t>(0, most - other);
    if (facts.memory_free_bytes >= 0) facts.memory_free_bytes = std::min(facts.memory_free_bytes, left);
  }
  if (kind == "quota" && facts.cores > 0 && most > 0 && other > 0) {
    const double cores = std::ceil(static_cast<double>(most) / static_cast<double>(other));
    if (cores < facts.cores) facts.cores = static_cast<int>(cores);
  }
}

}  // namespace

std::string FactsScript(const std::string& build, const std::string& folder) {
  return absl::StrCat("build=", build, "\nfolder=", ShellQuote(folder), R"sh(
[ -n "$folder" ] || case $HOME in /*) folder="$HOME/.cache/tethys" ;; esac
LC_ALL=C; export LC_ALL
say() { echo "tethys-check $1 $2"; })sh",
                      kLimitsScript, R"sh(
facts() {
  say folder "$folder"
  say architecture "$(uname -m 2>/dev/null || echo "$HOSTTYPE")"
  cores=0
  while read -r word _; do [ "$word" = processor ] && cores=$((cores + 1)); done < /proc/cpuinfo
  say cores "$(nproc 2>/dev/null || echo $cores)"
  while read -r name kib _; do
    case $name in MemTotal:) say memory "$kib" ;; MemAvailable:) say available "$kib" ;; esac
  done < /proc/meminfo
  limits
  there=$folder
  while [ ! -e "$there/" ]; do there=${there%/*}; [ -n "$there" ] || there=/; done
  [ -w "$there/" ] || say writable no
  say disk "$(df -Pk "$there" 2>/dev/null | { read -r _; read -r _ _ _ free _; echo "$free"; })"
  case "$("$folder/$build/tethys" --version 2>/dev/null)" in
    *"$build"*) say program "$folder/$build/tethys"; touch "$folder/$build" 2>/dev/null ;;
  esac
  own | { count=0; while read -r line && [ $count -lt 500 ]; do say address "$line"; count=$((count + 1)); done; }
}
# Addresses from the kernel, since a host may lack the tool ip: "|-- ADDRESS" and then "/32 host LOCAL". All or none:
# a sandbox may have the second file only.
own() {
  [ -r /proc/net/fib_trie ] || return
  while read -r word value _; do
    case $word in '|--') four=$value ;; /32) [ "$value" = host ] && echo "$four" ;; esac
  done < /proc/net/fib_trie
  while read -r six _; do echo "$six"; done < /proc/net/if_inet6
} 2>/dev/null
gpus() {
  nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | while read -r name; do say gpu "$name"; done
}
now() { say time "${EPOCHREALTIME:-$(date +%s.%N 2>/dev/null)}"; }
while read -r question; do
  case $question in facts) facts; now ;; gpus) gpus ;; *) now ;; esac
  echo "tethys-check end"
done)sh");
}

HostFacts ParseFacts(const std::vector<std::string>& lines) {
  HostFacts facts;
  size_t addresses = 0;
  for (const std::string& line : lines) {
    const std::pair<std::string, std::string> fact = absl::StrSplit(line, absl::MaxSplits(' ', 1));
    int cores = 0;
    if (fact.first == "folder" && absl::StartsWith(fact.second, "/")) facts.folder = fact.second;
    if (fact.first == "architecture") facts.architecture = fact.second;
    if (fact.first == "cores" && absl::SimpleAtoi(fact.second, &cores) && cores > 0) facts.cores = cores;
    if (fact.first == "memory") facts.memory_bytes = BytesOfKib(fact.second);
    if (fact.first == "available") facts.memory_free_bytes = BytesOfKib(fact.second);
    if (fact.first == "writable") facts.writable = fact.second != "no";
    // The script prints limits after cores and memory, so the facts to be lowered are already set.
    ApplyLimit(fact.first, fact.second, facts);
    if (fact.first == "disk") facts.disk_free_bytes = BytesOfKib(fact.second);
    if (fact.first == "gpu" && !fact.second.empty()) facts.gpus.push_back(fact.second);
    if (fact.first == "program" && absl::StartsWith(fact.second, "/")) facts.program = fact.second;
    if (fact.first == "address") {
      ++addresses;
      if (const std::string address = OwnAddress(fact.second); !address.empty())
        facts.addresses.insert(address);
    }
  }
  // The list may be incomplete, so the addresses count as unknown.
  if (addresses >= kMostAddresses) facts.addresses.clear();
  return facts;
}

absl::Status CheckFolder(const HostFacts& facts) {
  if (!facts.folder.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "the shell of this host does not know the home folder (HOME is not an absolute path there): set HOME, "
      "or name a folder for builds by folder=PATH in the host file");
}

absl::Status CheckArchitecture(const HostFacts& facts, const std::string& architecture) {
  if (facts.architecture.empty() || facts.architecture == architecture) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("the architecture of this host is ", facts.architecture,
                                                    ", and this build is for ", architecture,
                                                    ": all machines of a job must have one architecture"));
}

absl::Status CheckWritable(const HostFacts& facts, const std::string& origin) {
  if (facts.writable) return absl::OkStatus();
  return absl::PermissionDeniedError(
      absl::StrCat("this build cannot be copied to this host: ", facts.folder,
                   " cannot be written (a read-only file system or permissions): name another folder by "
                   "folder=PATH in ",
                   origin));
}

absl::Status CheckSpace(const HostFacts& facts, int64_t needed_bytes) {
  if (facts.disk_free_bytes < 0 || facts.disk_free_bytes >= needed_bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrFormat("%d MiB are free at %s, and this build needs %d MiB: remove old builds there, make "
                      "room, or name another folder by folder=PATH in the host file",
                      facts.disk_free_bytes >> 20, facts.folder, (needed_bytes + (1 << 20) - 1) >> 20));
}

std::optional<ClockOffset> FindClockOffset(const std::vector<Answer>& answers) {
  std::optional<ClockOffset> best;
  for (const Answer& answer : answers) {
    const std::optional<Stamp> stamp = answer.status.ok() ? FindStamp(answer) : std::nullopt;
    if (!stamp.has_value() || answer.heard < answer.asked) continue;
    const int64_t middle = answer.asked + (answer.heard - answer.asked) / 2;
    // The time was cut off after its last digit, so half the width of that digit is added.
    const ClockOffset offset{.seconds = ToSeconds(stamp->nanoseconds - middle) + stamp->resolution / 2,
                             .error = ToSeconds(answer.heard - answer.asked) / 2 + stamp->resolution / 2};
    if (!best.has_value() || offset.error < best->error) best = offset;
  }
  return best;
}

std::string ClockWarning(const std::optional<ClockOffset>& offset) {
  if (!offset.has_value() || std::abs(offset->seconds) - offset->error <= kClockTolerance) return "";
  return absl::StrFormat(
      "the clock of this host is %.1f s %s the launcher's clock (error at most %.1f s), so the times in the "
      "log lines of this host are wrong by this offset; set the clock of this host by NTP",
      std::abs(offset->seconds), offset->seconds > 0 ? "ahead of" : "behind", offset->error);
}

}  // namespace tethys
