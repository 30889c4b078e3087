#include "runtime/telemetry/proc_text.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"

namespace tethys {
namespace {

constexpr int64_t kKibibyte = 1024;
// The largest accepted count, about 10^15, so that sums of many counts do not overflow, even if each counts
// KiB.
constexpr int64_t kMaxCount = int64_t{1} << 50;
constexpr uint64_t kBusyMask = (uint64_t{1} << 62) - 1;

using Words = std::vector<absl::string_view>;

Words SplitWords(absl::string_view line) {
  return absl::StrSplit(line, absl::ByAnyChar(" \t"), absl::SkipEmpty());
}

absl::Status Missing(absl::string_view file, absl::string_view what) {
  return absl::DataLossError(absl::StrCat("/proc/", file, ": there is no complete line '", what, "'"));
}

// The word at position `at`, which must be a non-negative integer.
absl::StatusOr<int64_t> Count(const Words& words, size_t at, absl::string_view file, absl::string_view what) {
  int64_t value = 0;
  if (at >= words.size() || !absl::SimpleAtoi(words[at], &value) || value < 0 || value > kMaxCount) {
    return Missing(file, what);
  }
  return value;
}

// The number after `name`, in the line whose first word is `name`.
absl::StatusOr<int64_t> Field(absl::string_view text, absl::string_view file, absl::string_view name) {
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    const Words words = SplitWords(line);
    if (!words.empty() && words[0] == name) return Count(words, 1, file, name);
  }
  return Missing(file, name);
}

}  // namespace

absl::StatusOr<MachineCpu> ParseStat(absl::string_view text, int64_t ticks_per_second) {
  // Columns: cpu user nice system idle iowait irq softirq steal ...; guests are part of user and nice.
  constexpr size_t kBusyColumns[] = {1, 2, 3, 6, 7}, kStolenColumn = 8;
  MachineCpu cpu;
  uint64_t ticks = 0, stolen = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    const Words words = SplitWords(line);
    if (words.empty() || !absl::StartsWith(words[0], "cpu")) continue;
    if (words[0] != "cpu") {
      ++cpu.cores;
      continue;
    }
    for (const size_t column : kBusyColumns) {
      TETHYS_ASSIGN_OR_RETURN(const int64_t more, Count(words, column, "stat", "cpu"));
      ticks += static_cast<uint64_t>(more);
    }
    if (words.size() <= kStolenColumn) continue;
    TETHYS_ASSIGN_OR_RETURN(const int64_t more, Count(words, kStolenColumn, "stat", "cpu"));
    stolen = static_cast<uint64_t>(more);
  }
  if (cpu.cores == 0) return Missing("stat", "cpu0");
  const auto nanoseconds = [&](uint64_t count) {
    return static_cast<Nanoseconds>(count * static_cast<uint64_t>(kSecond / ticks_per_second) & kBusyMask);
  };
  cpu.busy_ns = nanoseconds(ticks);
  cpu.stolen_ns = nanoseconds(stolen);
  return cpu;
}

absl::StatusOr<int64_t> ParseUsedMemory(absl::string_view text) {
  TETHYS_ASSIGN_OR_RETURN(const int64_t total, Field(text, "meminfo", "MemTotal:"));
  TETHYS_ASSIGN_OR_RETURN(const int64_t available, Field(text, "meminfo", "MemAvailable:"));
  return (total - available) * kKibibyte;
}

absl::StatusOr<ByteCounts> ParseNetDev(absl::string_view text, bool with_loopback) {
  constexpr size_t kReceived = 0, kSent = 8;
  ByteCounts sum;
  bool any = false;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    // A line is "  eth0: 1 2 ..." or, for large numbers, "eth0:1234 ..."; the two lines of headings have no
    // colon.
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(line, absl::MaxSplits(':', 1));
    if (!absl::StrContains(line, ':')) continue;
    any = true;
    const Words name = SplitWords(parts.first);
    if (name.empty()) return Missing("net/dev", "interface:");
    const Words columns = SplitWords(parts.second);
    TETHYS_ASSIGN_OR_RETURN(const int64_t in, Count(columns, kReceived, "net/dev", name[0]));
    TETHYS_ASSIGN_OR_RETURN(const int64_t out, Count(columns, kSent, "net/dev", name[0]));
    if (name[0] == "lo" && !with_loopback) continue;
    sum.in += in;
    sum.out += out;
  }
  if (!any) return Missing("net/dev", "interface:");
  return sum;
}

absl::StatusOr<ByteCounts> ParseSelfIo(absl::string_view text) {
  TETHYS_ASSIGN_OR_RETURN(const int64_t in, Field(text, "self/io", "read_bytes:"));
  TETHYS_ASSIGN_OR_RETURN(const int64_t out, Field(text, "self/io", "write_bytes:"));
  return ByteCounts{in, out};
}

absl::StatusOr<ByteCounts> ParseVmstat(absl::string_view text) {
  TETHYS_ASSIGN_OR_RETURN(const int64_t in, Field(text, "vmstat", "pgpgin"));
  TETHYS_ASSIGN_OR_RETURN(const int64_t out, Field(text, "vmstat", "pgpgout"));
  return ByteCounts{in * kKibibyte, out * kKibibyte};
}

}  // namespace tethys
