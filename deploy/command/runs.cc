#include <cstdio>

#include "absl/strings/str_cat.h"
#include "deploy/command/command.h"
#include "deploy/launcher/run_list.h"

namespace tethys {
namespace {

int List(const std::string& folder) {
  const absl::StatusOr<std::vector<ListedRun>> runs = ListRuns(folder);
  if (!runs.ok()) {
    return Fail("runs", Annotate(runs.status(), "name the folder of your runs by --runs=DIR"),
                kExitBadRequest);
  }
  if (runs->empty()) {
    std::printf("%s holds no runs.\n", folder.c_str());
  } else {
    std::printf("%s", RunListText(*runs).c_str());
  }
  return kExitSuccess;
}

int Runs(const Flags& flags) {
  const std::string& action = flags.arguments()[0];
  if (action == "list") return List(flags.Get("runs", "runs"));
  return Fail("runs", absl::InvalidArgumentError(absl::StrCat("there is no '", action, "': write list")),
              kExitBadRequest);
}

}  // namespace

Command RunsCommand() {
  return {
      {.verb = "runs",
       .summary = "Lists runs.",
       .description =
           "`list` shows the runs in a folder, and those of the comparisons and studies there: whether they "
           "are running, finished, failed, unfinished (`tethys train --resume` goes on with these) or "
           "damaged, their strategy, start, length, accuracy on the test split (or validation split), and "
           "the size of their files. Other directories are listed as no run. A run that a launcher on "
           "another machine makes is shown as running only if the file system shares locks.",
       .argument = "list",
       .flags = {{.name = "runs", .value = "DIR", .help = "The folder of the runs. Default: runs."}},
       .examples = {"tethys runs list", "tethys runs list --runs=/data/runs"}},
      Runs};
}

}  // namespace tethys
