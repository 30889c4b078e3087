#include <cstdio>
#include <ctime>

#include "absl/strings/str_cat.h"
#include "deploy/command/command.h"
#include "deploy/launcher/run_list.h"
#include "deploy/launcher/run_pruning.h"
#include "deploy/text.h"

namespace tethys {
namespace {

absl::StatusOr<std::vector<ListedRun>> ReadFolder(const std::string& folder) {
  absl::StatusOr<std::vector<ListedRun>> runs = ListRuns(folder);
  if (!runs.ok()) return Annotate(runs.status(), "name the folder of your runs by --runs=DIR");
  return runs;
}

int List(const std::string& folder) {
  const absl::StatusOr<std::vector<ListedRun>> runs = ReadFolder(folder);
  if (!runs.ok()) return Fail("runs", runs.status(), kExitBadRequest);
  if (runs->empty()) {
    std::printf("%s holds no runs.\n", folder.c_str());
  } else {
    std::printf("%s", RunListText(*runs).c_str());
  }
  return kExitSuccess;
}

absl::StatusOr<PruningRules> GivenRules(const Flags& flags) {
  PruningRules rules;
  if (flags.Has("keep")) {
    TETHYS_ASSIGN_OR_RETURN(rules.keep, flags.GetInteger("keep", 0, 0, 1'000'000'000));
  }
  if (flags.Has("older_than")) {
    const absl::StatusOr<int64_t> age = ParseDuration(flags.Get("older_than"), "hd");
    if (!age.ok()) return Annotate(age.status(), "--older_than");
    rules.older_than = *age;
  }
  if (!rules.keep.has_value() && !rules.older_than.has_value()) {
    return absl::InvalidArgumentError("prune needs a rule: --keep=N, --older_than=30d, or both");
  }
  return rules;
}

int Remove(const std::string& folder, const std::vector<ListedRun>& chosen) {
  int exit_status = kExitSuccess;
  for (const ListedRun& run : chosen) {
    const absl::Status removed = RemoveRun(absl::StrCat(folder, "/", run.name));
    if (!removed.ok()) exit_status = Fail("runs", Annotate(removed, run.name), kExitFailed);
  }
  return exit_status;
}

int Prune(const std::string& folder, const Flags& flags) {
  const absl::StatusOr<PruningRules> rules = GivenRules(flags);
  if (!rules.ok()) return Fail("runs", rules.status(), kExitBadRequest);
  const absl::StatusOr<std::vector<ListedRun>> runs = ReadFolder(folder);
  if (!runs.ok()) return Fail("runs", runs.status(), kExitBadRequest);
  const std::vector<ListedRun> chosen = RunsToPrune(*runs, *rules, std::time(nullptr));
  if (chosen.empty()) {
    std::printf("There is nothing to remove.\n");
    return kExitSuccess;
  }
  int64_t bytes = 0;
  for (const ListedRun& run : chosen) bytes += run.bytes;
  std::printf("%s%s %s, %s%s\n", RunListText(chosen).c_str(), flags.Has("yes") ? "Removing" : "Would remove",
              PluralText(chosen.size(), "run").c_str(), BytesText(bytes).c_str(),
              flags.Has("yes") ? "." : "; --yes removes them.");
  return flags.Has("yes") ? Remove(folder, chosen) : kExitSuccess;
}

int Runs(const Flags& flags) {
  const std::string& action = flags.arguments()[0];
  const std::string folder = flags.Get("runs", "runs");
  if (action == "prune") return Prune(folder, flags);
  for (const char* flag : {"keep", "older_than", "yes"}) {
    if (!flags.Has(flag)) continue;
    return Fail("runs", absl::InvalidArgumentError(absl::StrCat("--", flag, " is for `tethys runs prune`")),
                kExitBadRequest);
  }
  if (action == "list") return List(folder);
  return Fail("runs",
              absl::InvalidArgumentError(absl::StrCat("there is no '", action, "': write list or prune")),
              kExitBadRequest);
}

}  // namespace

Command RunsCommand() {
  return {
      {.verb = "runs",
       .summary = "Lists runs, and removes old ones.",
       .description =
           "`list` shows the runs in a folder, and those of the comparisons and studies there: whether they "
           "are running, finished, failed, unfinished (`tethys train --resume` goes on with these) or "
           "damaged, their strategy, start, length, accuracy on the test split (or validation split), and "
           "the size of their files. Other directories are listed as no run. A run that a launcher on "
           "another machine makes is shown as running only if the file system shares locks.\n"
           "`prune` says which runs it would remove, and removes them with --yes. Running and damaged runs, "
           "directories that are no runs, and runs of comparisons and studies stay.",
       .argument = "list|prune",
       .flags = {{.name = "runs", .value = "DIR", .help = "The folder of the runs. Default: runs."},
                 {.name = "keep", .value = "N", .help = "prune: keeps the newest N runs."},
                 {.name = "older_than",
                  .value = "AGE",
                  .help = "prune: removes only runs that started longer ago, such as 30d or 12h."},
                 {.name = "yes", .help = "prune: removes the runs."}},
       .examples = {"tethys runs list", "tethys runs list --runs=/data/runs",
                    "tethys runs prune --keep=20 --older_than=30d --yes"}},
      Runs};
}

}  // namespace tethys
