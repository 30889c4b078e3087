#include "deploy/report/report.h"

#include <cstdio>

#include "deploy/command/verbs.h"
#include "deploy/command/version.h"
#include "deploy/flags/target_accuracy.h"
#include "deploy/launcher/run_directory.h"
#include "deploy/launcher/run_ending.h"
#include "deploy/report/report_data.h"
#include "deploy/report/time_to_accuracy.h"
#include "deploy/report/trace.h"
#include "deploy/sweep/sweep_report.h"
#include "runtime/base/file.h"
#include "runtime/telemetry/summary.h"

namespace tethys {
namespace {

// InvalidArgument: `path` holds several runs, but a trace shows only one.
absl::Status CheckOneRun(const proto::Report& report, const std::string& path) {
  if (FileExists(absl::StrCat(path, "/", kSummaryFile))) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("--trace is for one run, but ", path,
                                                 " contains several runs: name one of them, for example ",
                                                 path, "/", report.variant(0).run(0).name()));
}

// Writes the files of a sweep again from sweep.json.
int ReportSweep(const std::string& path) {
  const absl::StatusOr<proto::Sweep> sweep = ReadSweep(path);
  if (!sweep.ok()) return Fail("report", sweep.status(), kExitBadRequest);
  const absl::Status written = WriteSweep(*sweep, path);
  if (!written.ok()) return Fail("report", written, kExitFailed);
  std::printf("%s/report.html\n%s/report.md\n", path.c_str(), path.c_str());
  return kExitSuccess;
}

// If the error says that the summary is missing, adds that the run is still in progress, or how the run
// ended.
absl::Status WithEnding(const absl::Status& status, const std::string& path) {
  if (!absl::IsNotFound(status) || !FileExists(path + "/job.textproto")) return status;
  if (RunDirectory::InUse(path).value_or(false)) {
    return absl::NotFoundError(
        absl::StrCat(path, " has no summary yet, because the run is still going on: tethys watch ", path,
                     " shows its progress"));
  }
  const RunEnding ending = EndingOf(path, absl::nullopt);
  if (ending.text.empty()) return status;
  return absl::NotFoundError(absl::StrCat(path, " has no summary: ", ending.text, "; ", ending.go_on,
                                          "; tethys watch ", path,
                                          " shows the progress of the run until its end"));
}

int Report(const Flags& flags) {
  const std::string& path = flags.arguments()[0];
  if (FileExists(absl::StrCat(path, "/", kSweepFile))) return ReportSweep(path);
  const absl::StatusOr<absl::optional<double>> target = GivenTarget(flags);
  if (!target.ok()) return Fail("report", target.status(), kExitBadRequest);
  const absl::StatusOr<proto::Report> report = CollectReport(path, *target, ShortVersionText());
  if (!report.ok()) return Fail("report", WithEnding(report.status(), path), kExitBadRequest);
  const absl::Status traceable = flags.Has("trace") ? CheckOneRun(*report, path) : absl::OkStatus();
  if (!traceable.ok()) return Fail("report", traceable, kExitBadRequest);
  const absl::Status written = WriteReport(*report, path);
  if (!written.ok()) return Fail("report", written, kExitFailed);
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
       .summary = "Writes the report of a run, a comparison or a sweep again.",
       .description =
           "Reads the files of the run, of the comparison, or of the sweep in DIR, and writes report.html "
           "and report.md there. `tethys train`, `tethys compare` and `tethys sweep` write these two files, "
           "too. A folder of several runs of one model and data is reported as a comparison of them.",
       .argument = "DIR",
       .flags = {TargetAccuracyFlag(),
                 {.name = "trace",
                  .help = "Also writes trace.json: the chief, servers and workers on one clock, with steps, "
                          "pushes, barriers, evaluations and checkpoints. DIR must be the directory of one "
                          "run."}},
       .examples = {"tethys report runs/compare-20260101-120000"}},
      Report};
}

}  // namespace tethys
