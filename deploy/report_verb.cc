#include <cstdio>

#include "deploy/command.h"
#include "deploy/report.h"
#include "deploy/time_to_accuracy.h"
#include "deploy/trace.h"

namespace tethys {
namespace {

int Report(const Flags& flags) {
  const std::string& path = flags.arguments()[0];
  const absl::StatusOr<absl::optional<double>> target = GivenTarget(flags);
  if (!target.ok()) return Fail("report", target.status(), kExitBadRequest);
  const absl::Status written = WriteReport(path, *target);
  if (!written.ok()) return Fail("report", written, kExitBadRequest);
  std::printf("%s/report.html\n%s/report.md\n", path.c_str(), path.c_str());
  if (!flags.Has("trace")) return kExitSuccess;
  const absl::Status traced = WriteTrace(path);
  if (!traced.ok()) return Fail("report", traced, kExitBadRequest);
  std::printf("%s/trace.json: for chrome://tracing or ui.perfetto.dev\n", path.c_str());
  return kExitSuccess;
}

}  // namespace

Command ReportCommand() {
  return {
      {.verb = "report",
       .summary = "Writes the report of a run or a comparison again.",
       .description =
           "Reads what the run, or the runs of the comparison, left in DIR, and writes report.html "
           "and report.md there. `tethys train` and `tethys compare` end with the same.",
       .argument = "DIR",
       .flags =
           {TargetAccuracyFlag(),
            {.name = "trace",
             .help =
                 "Writes trace.json, too: every worker's steps and phases on one clock. DIR is one run's."}},
       .examples = {"tethys report runs/compare-20260101-120000"}},
      Report};
}

}  // namespace tethys
