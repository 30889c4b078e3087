#include "deploy/hosts/host_facts.h"

#include <cmath>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace tethys {
namespace {

constexpr double kMaxKib = 1e15;
// The largest clock offset without a warning, in seconds.
constexpr double kClockTolerance = 5;

// A whole number of KiB as bytes; -1 for anything else.
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
    // Not parsed as a double, which resolves only 0.2 µs.
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

}  // namespace

std::string FactsScript(const std::string& build) {
  return absl::StrCat("build=", build, R"sh(
LC_ALL=C; export LC_ALL
say() { echo "tethys-check $1 $2"; }
facts() {
  say home "$HOME"
  say architecture "$(uname -m 2>/dev/null || echo "$HOSTTYPE")"
  cores=0
  while read -r word _; do [ "$word" = processor ] && cores=$((cores + 1)); done < /proc/cpuinfo
  say cores "$(nproc 2>/dev/null || echo $cores)"
  while read -r name kib _; do
    case $name in MemTotal:) say memory "$kib" ;; MemAvailable:) say available "$kib" ;; esac
  done < /proc/meminfo
  say disk "$(df -Pk "$HOME" 2>/dev/null | { read -r _; read -r _ _ _ free _; echo "$free"; })"
  folder="$HOME/.cache/tethys/$build"
  case "$("$folder/tethys" --version 2>/dev/null)" in
    *"$build"*) say program "$folder/tethys"; touch "$folder" 2>/dev/null ;;
  esac
}
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
  for (const std::string& line : lines) {
    const std::pair<std::string, std::string> fact = absl::StrSplit(line, absl::MaxSplits(' ', 1));
    int cores = 0;
    if (fact.first == "home" && absl::StartsWith(fact.second, "/")) facts.home = fact.second;
    if (fact.first == "architecture") facts.architecture = fact.second;
    if (fact.first == "cores" && absl::SimpleAtoi(fact.second, &cores) && cores > 0) facts.cores = cores;
    if (fact.first == "memory") facts.memory_bytes = BytesOfKib(fact.second);
    if (fact.first == "available") facts.memory_free_bytes = BytesOfKib(fact.second);
    if (fact.first == "disk") facts.disk_free_bytes = BytesOfKib(fact.second);
    if (fact.first == "gpu" && !fact.second.empty()) facts.gpus.push_back(fact.second);
    if (fact.first == "program" && absl::StartsWith(fact.second, "/")) facts.program = fact.second;
  }
  return facts;
}

absl::Status CheckHome(const HostFacts& facts) {
  if (!facts.home.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "its shell did not say where the home folder is: ssh must reach a POSIX shell");
}

absl::Status CheckArchitecture(const HostFacts& facts, const std::string& architecture) {
  if (facts.architecture.empty() || facts.architecture == architecture) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("its architecture is ", facts.architecture,
                                                    ", and this build is for ", architecture,
                                                    ": all machines of a job must be of one kind"));
}

absl::Status CheckSpace(const HostFacts& facts, int64_t needed_bytes) {
  if (facts.disk_free_bytes < 0 || facts.disk_free_bytes >= needed_bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrFormat(
      "%d MiB are free at %s, and this build needs %d MiB: remove old builds from "
      "%s/.cache/tethys or make room",
      facts.disk_free_bytes >> 20, facts.home, (needed_bytes + (1 << 20) - 1) >> 20, facts.home));
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
      "its clock is %.1f s %s (error at most %.1f s): the times of its log lines are off by that; set it by "
      "NTP",
      std::abs(offset->seconds), offset->seconds > 0 ? "ahead" : "behind", offset->error);
}

}  // namespace tethys
