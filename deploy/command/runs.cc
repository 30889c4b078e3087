#include <algorithm>
#include <cstdio>
#include <ctime>
#include <vector>

#include "absl/strings/str_cat.h"
#include "deploy/command/verbs.h"
#include "deploy/launcher/run_list.h"
#include "deploy/launcher/run_pruning.h"
#include "deploy/run/run_actions.h"
#include "deploy/text.h"
#include "runtime/base/clock.h"
#include "runtime/base/file.h"
#include "runtime/base/nearest_name.h"

namespace tethys {
namespace {

absl::StatusOr<std::vector<ListedRun>> ReadFolder(const std::string& folder) {
  absl::StatusOr<std::vector<ListedRun>> runs = ListRuns(folder);
  if (!runs.ok()) return Annotate(runs.status(), "name the folder of your runs by --runs=DIR");
  return runs;
}

int List(const Flags& flags, const std::string& folder) {
  const absl::StatusOr<std::vector<ListedRun>> runs = ReadFolder(folder);
  if (!runs.ok()) return Fail("runs", runs.status(), kExitBadRequest);
  if (runs->empty()) {
    std::printf("%s contains no runs.\n", folder.c_str());
  } else {
    std::vector<ListedRun> shown = flags.Has("all") ? *runs : Overview(*runs);
    std::stable_sort(shown.begin(), shown.end(),
                     [](const ListedRun& a, const ListedRun& b) { return a.started < b.started; });
    if (!shown.empty()) std::fputs(RunListText(shown).c_str(), stdout);
    if (!flags.Has("all")) std::fputs(LeftOutText(*runs).c_str(), stdout);
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

int Prune(const Flags& flags, const std::string& folder) {
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

// The directory of the run that the user names by its path or by its name in `list`.
absl::StatusOr<std::string> RunPath(const std::string& folder, const std::string& run) {
  if (FileExists(run)) return run;
  const std::string inside = absl::StrCat(folder, "/", run);
  if (FileExists(inside)) return inside;
  const absl::StatusOr<std::vector<std::string>> names = ListDirectory(folder);
  const std::string nearest = names.ok() ? NearestName(run, *names) : "";
  return absl::NotFoundError(absl::StrCat("there is no directory ", run, ", nor ", inside,
                                          nearest.empty() ? "; `tethys runs list` shows the runs"
                                                          : absl::StrCat("; did you mean ", nearest, "?")));
}

int Show(const Flags&, const std::string& path) { return ShowRun(path); }

int Stop(const Flags& flags, const std::string& path) {
  const absl::StatusOr<int64_t> limit = ParseDuration(flags.Get("limit", "5m"), "smh");
  if (!limit.ok()) return Fail("runs", Annotate(limit.status(), "--limit"), kExitBadRequest);
  return StopRun(path, *limit * kSecond);
}

int Logs(const Flags& flags, const std::string& path) { return ShowRunLogs(path, flags.Has("follow")); }

// An action of the verb `runs`, such as "list". It acts on a folder or, if it takes a RUN, on the directory
// of that run.
struct Action {
  const char* name;
  bool takes_run;
  std::vector<std::string> flags;  // Flags that only this action has.
  int (*run)(const Flags& flags, const std::string& path);
};

const std::vector<Action>& Actions() {
  static const std::vector<Action>& actions =
      *new std::vector<Action>{{"list", false, {"all"}, List},
                               {"show", true, {}, Show},
                               {"logs", true, {"follow"}, Logs},
                               {"stop", true, {"limit"}, Stop},
                               {"prune", false, {"keep", "older_than", "yes"}, Prune}};
  return actions;
}

// InvalidArgument: a flag belongs to another action, or a RUN is missing or superfluous.
absl::Status CheckCall(const Action& action, const Flags& flags) {
  for (const Action& other : Actions()) {
    if (&other == &action) continue;
    for (const std::string& flag : other.flags) {
      if (!flags.Has(flag)) continue;
      return absl::InvalidArgumentError(absl::StrCat("--", flag, " is for `tethys runs ", other.name, "`"));
    }
  }
  const size_t expected = action.takes_run ? 2 : 1;
  if (flags.arguments().size() == expected) return absl::OkStatus();
  return absl::InvalidArgumentError(
      action.takes_run
          ? absl::StrCat("write `tethys runs ", action.name, " RUN` with the directory of one run")
          : absl::StrCat("`tethys runs ", action.name, "` takes no RUN: name a folder by --runs=DIR"));
}

int Runs(const Flags& flags) {
  const std::string& name = flags.arguments()[0];
  const auto action = std::find_if(Actions().begin(), Actions().end(),
                                   [&](const Action& candidate) { return candidate.name == name; });
  if (action == Actions().end()) {
    return Fail("runs",
                absl::InvalidArgumentError(
                    absl::StrCat("there is no action '", name, "': write list, show, logs, stop or prune")),
                kExitBadRequest);
  }
  if (const absl::Status sound = CheckCall(*action, flags); !sound.ok()) {
    return Fail("runs", sound, kExitBadRequest);
  }
  const std::string folder = flags.Get("runs", "runs");
  if (!action->takes_run) return action->run(flags, folder);
  const absl::StatusOr<std::string> path = RunPath(folder, flags.arguments()[1]);
  if (!path.ok()) return Fail("runs", path.status(), kExitBadRequest);
  return action->run(flags, *path);
}

}  // namespace

Command RunsCommand() {
  return {
      {.verb = "runs",
       .summary = "Lists runs, shows a run or its logs, stops a run, and removes old runs.",
       .description =
           "`list` shows the runs in a folder, the newest last; a comparison or study has one line. A line "
           "says whether the run is running, finished, failed, unfinished (`tethys train --resume` goes on "
           "with an unfinished run) or damaged; then follow strategy, start, length, accuracies on the test "
           "and the validation split, and the size of the files. With --all it also lists every run of "
           "comparisons and studies, jobs that were not started (`tethys advise` writes some), symbolic "
           "links, and other directories, which are marked as no run. A run whose launcher is on another "
           "machine is shown as running only if the file system shares locks.\n"
           "`show` prints the details of one run: strategy, numbers of processes, times, throughput, "
           "quality, cost, hosts. RUN is the path of the run's directory, or the run's name as `list` shows "
           "it.\n"
           "`logs` prints the logs of all processes of a run, merged in the order of their times, each line "
           "with the name of its process; with --follow, it also prints new lines until the run ends.\n"
           "`stop` asks the launcher of a running run to end it, as Ctrl-C does: a run that trains saves a "
           "checkpoint first. It waits until the run has ended and says how the run ended. A second `stop` "
           "ends the run at once. Stopping a run of a comparison also ends the comparison. Use `stop` on "
           "the machine where the launcher of the run is.\n"
           "`prune` says which runs it would remove, and removes them with --yes. Running and damaged runs, "
           "directories that are no runs, and runs of comparisons and studies stay.",
       .argument = "list|show|logs|stop|prune [RUN]",
       .count = ArgumentCount::kWords,
       .flags = {{.name = "runs", .value = "DIR", .help = "The folder of the runs. Default: runs."},
                 {.name = "all", .help = "list: shows everything in the folder."},
                 {.name = "follow", .help = "logs: also prints new lines until the run ends."},
                 {.name = "limit",
                  .value = "TIME",
                  .help = "stop: how long to wait for the end, such as 30s or 1h. Default: 5m."},
                 {.name = "keep", .value = "N", .help = "prune: keeps the newest N runs."},
                 {.name = "older_than",
                  .value = "AGE",
                  .help = "prune: removes only runs that started longer ago, such as 30d or 12h."},
                 {.name = "yes", .help = "prune: removes the runs."}},
       .examples = {"tethys runs list", "tethys runs list --runs=/data/runs",
                    "tethys runs show fashion_mnist_ps_sync-20261121-123456",
                    "tethys runs logs runs/fashion_mnist_ps_sync-20261121-123456 --follow",
                    "tethys runs stop runs/fashion_mnist_ps_sync-20261121-123456",
                    "tethys runs prune --keep=20 --older_than=30d --yes"}},
      Runs};
}

}  // namespace tethys
