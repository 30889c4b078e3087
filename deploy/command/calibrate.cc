#include <cstdio>

#include "absl/strings/str_cat.h"
#include "deploy/advise/calibration_run.h"
#include "deploy/advise/calibration_text.h"
#include "deploy/command/verbs.h"
#include "deploy/predict/calibration_file.h"
#include "deploy/run/job_places.h"
#include "deploy/run/job_prediction.h"
#include "deploy/run/role_process.h"
#include "deploy/text.h"
#include "runtime/base/clock.h"

namespace tethys {
namespace {

absl::StatusOr<std::string> PathFor(const Flags& flags, const BaseJob& base, bool tls) {
  if (flags.Has("out")) return flags.Get("out");
  TETHYS_ASSIGN_OR_RETURN(const ShapedJob local, ShapeJob(base, {StrategyFamily::kLocal, 1, 0}));
  return KeptCalibrationPath(local.plan, local.machines, tls);
}

int Calibrate(const Flags& flags) {
  absl::StatusOr<BaseJob> base = LoadBaseJob(flags);
  const absl::StatusOr<int64_t> seconds = flags.GetInteger("seconds", 40, 5, 3600);
  const absl::StatusOr<bool> tls = WantsTls(flags);
  const absl::StatusOr<double> others = flags.GetPercent("max_others_cpu", kMostOthersCpu);
  absl::Status read = base.ok() ? seconds.status() : base.status();
  read.Update(tls.status());
  read.Update(others.status());
  if (!read.ok()) return Fail("calibrate", read, kExitBadRequest);
  const absl::StatusOr<std::string> path = PathFor(flags, *base, *tls);
  if (!path.ok()) return Fail("calibrate", path.status(), kExitBadRequest);
  const MonotonicClock clock;
  const Nanoseconds begin = clock.Now();
  const CalibrationRequest request{
      .base = *base, .seconds = static_cast<double>(*seconds), .most_others_cpu = *others};
  const absl::StatusOr<proto::Calibration> measured = MeasureCalibration(flags, request);
  if (!measured.ok()) {
    return Fail("calibrate", measured.status(),
                absl::IsInvalidArgument(measured.status()) ? kExitBadRequest : kExitFailed);
  }
  std::printf("\n%s", CalibrationText(*measured).c_str());
  const absl::Status written = WriteCalibration(*path, *measured);
  if (!written.ok()) return Fail("calibrate", written, kExitFailed);
  std::printf("\nmeasured in %s; kept in %s\n", TimeText(ToSeconds(clock.Now() - begin)).c_str(),
              path->c_str());
  return kExitSuccess;
}

}  // namespace

Command CalibrateCommand() {
  return {
      {.verb = "calibrate",
       .summary = "Measures machines and links for predictions of a job's steps.",
       .description =
           "Measures the job's steps for several batches on each computer, by one rank alone and by several "
           "ranks at once. Measures the links between the machines of a host file. Makes brief runs of the "
           "job on synthetic samples under several strategies, and computes the cost of exchanging "
           "gradients from their times. Measurements that other programs disturbed are repeated. The "
           "calibration is stored for this build, model and these machines: with it, `tethys plan` predicts "
           "times, and every run stores its prediction beside its measurements.",
       .argument = "JOB",
       .flags = WithClusterFlags(
           {SetFlag(),
            {.name = "seconds",
             .value = "N",
             .help = "The approximate duration of the calibration in seconds; if a single step takes "
                     "seconds, the calibration takes longer. Default 40."},
            {.name = "out",
             .value = "FILE",
             .help = "The file for the calibration, to be named by --calibration of other commands. "
                     "Default: a file in ~/.cache/tethys/calibration, where other commands find it without "
                     "--calibration."},
            MaxOthersCpuFlag("Fails, and keeps nothing,"),
            CudaLibraryPathFlag()}),
       .examples = {"tethys calibrate examples/fashion_mnist_ps_sync.textproto",
                    "tethys calibrate examples/fashion_mnist_mirrored.textproto --hostfile=hosts"}},
      Calibrate};
}

}  // namespace tethys
