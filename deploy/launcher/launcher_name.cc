#include "deploy/launcher/launcher_name.h"

#include <unistd.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "runtime/base/process.h"

namespace tethys {
namespace {

constexpr char kWord[] = "launcher";
constexpr size_t kMostWordBytes = 256;

// True if `text` can be a boot id or a host name. Both are shown to the user, so neither may have control
// characters.
bool IsWord(absl::string_view text) {
  return !text.empty() && text.size() <= kMostWordBytes &&
         std::all_of(text.begin(), text.end(), [](char c) { return absl::ascii_isgraph(c); });
}

}  // namespace

absl::StatusOr<LauncherName> OwnLauncherName() {
  const absl::optional<int64_t> start = ProcessStart(getpid());
  LauncherName name{.process = getpid(), .boot_id = BootId(), .host = HostName()};
  if (!start.has_value() || !IsWord(name.boot_id) || !IsWord(name.host)) {
    return absl::FailedPreconditionError("/proc does not show this process, or the boot id of its kernel");
  }
  name.start = *start;
  return name;
}

std::string LauncherLine(const LauncherName& name) {
  return absl::StrCat(kWord, " ", name.process, " ", name.start, " ", name.boot_id, " ", name.host, "\n");
}

absl::StatusOr<LauncherName> ParseLauncherLine(absl::string_view line) {
  const bool whole = absl::ConsumeSuffix(&line, "\n");
  const std::vector<absl::string_view> words = absl::StrSplit(line, ' ');
  LauncherName name;
  const bool sound = whole && words.size() == 5 && words[0] == kWord &&
                     absl::SimpleAtoi(words[1], &name.process) && absl::SimpleAtoi(words[2], &name.start) &&
                     name.process > 0 && name.process <= std::numeric_limits<pid_t>::max() &&
                     name.start >= 0 && IsWord(words[3]) && IsWord(words[4]);
  if (!sound)
    return absl::DataLossError("the file names no launcher: it is damaged, or another program wrote it");
  name.boot_id = std::string(words[3]);
  name.host = std::string(words[4]);
  return name;
}

}  // namespace tethys
