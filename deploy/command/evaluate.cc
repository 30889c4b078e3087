#include <algorithm>
#include <cstdio>
#include <memory>

#include "deploy/command/checkpoint_choice.h"
#include "deploy/command/command.h"
#include "deploy/command/role_process.h"
#include "deploy/text.h"
#include "runtime/checkpoint/checkpoint_reader.h"
#include "runtime/checkpoint/model_description.h"
#include "runtime/cluster/host_file.h"
#include "runtime/data/dataset.h"
#include "runtime/device/device.h"
#include "runtime/job/job.h"
#include "runtime/job/job_file.h"
#include "runtime/nn/model.h"
#include "workers/device_factory.h"
#include "workers/replica.h"

namespace tethys {
namespace {

// The input of the evaluation. If any of it is missing or unfit, this is reported before the evaluation
// starts.
struct Request {
  proto::Job job;
  std::string checkpoint;
  std::shared_ptr<const Dataset> dataset;
  InputScaling scaling;
  std::vector<float> statistics = {};  // Moving statistics; empty if the model has none.
  std::unique_ptr<Model> model;
  std::unique_ptr<CheckpointReader> reader;
  proto::Device::Kind device = proto::Device::CPU;
  std::vector<std::string> cuda_library_path;
};

// The job file given by the user, or else the job file of the run that holds the checkpoint.
absl::StatusOr<std::string> JobFile(const Flags& flags, const std::string& checkpoint) {
  if (!flags.arguments().empty()) return flags.arguments()[0];
  const std::string job_file = checkpoint + "/../../job.textproto";
  if (FileExists(job_file)) return job_file;
  return absl::InvalidArgumentError(absl::StrCat(
      "JOB is missing, and ", checkpoint, " lies in no run directory with a job.textproto: name a job file"));
}

absl::StatusOr<std::shared_ptr<const Dataset>> ChooseSplit(const Datasets& datasets,
                                                           const std::string& split) {
  if (split != "test" && split != "validation") {
    return absl::InvalidArgumentError(absl::StrCat("--split=", split, " must be test or validation"));
  }
  const std::shared_ptr<const Dataset>& chosen = split == "test" ? datasets.test : datasets.validation;
  if (chosen == nullptr)
    return absl::InvalidArgumentError(absl::StrCat("the job's data have no ", split, " split"));
  return chosen;
}

absl::StatusOr<Request> PrepareRequest(const Flags& flags) {
  Request request;
  const absl::StatusOr<proto::Device::Kind> device = ParseDeviceKind(flags.Get("device", "cpu"));
  if (!device.ok()) return Annotate(device.status(), "--device");
  request.device = *device;
  request.cuda_library_path = flags.GetAll("cuda_library_path");
  TETHYS_ASSIGN_OR_RETURN(request.checkpoint, FindCheckpoint(flags.Get("checkpoint")));
  TETHYS_ASSIGN_OR_RETURN(const std::string job_file, JobFile(flags, request.checkpoint));
  TETHYS_ASSIGN_OR_RETURN(request.job, LoadJob(job_file, flags.GetAll("set")));
  TETHYS_ASSIGN_OR_RETURN(const Datasets datasets, LoadDatasets(request.job.data()));
  TETHYS_ASSIGN_OR_RETURN(request.dataset, ChooseSplit(datasets, flags.Get("split", "test")));
  TETHYS_ASSIGN_OR_RETURN(Model model, Model::Create(request.job.model(), request.dataset->sample_shape(),
                                                     request.job.data().classes()));
  request.model = std::make_unique<Model>(std::move(model));
  TETHYS_ASSIGN_OR_RETURN(request.reader,
                          CheckpointReader::Open(request.checkpoint, &request.model->variables()));
  if (!request.model->statistics().variables().empty()) {
    TETHYS_ASSIGN_OR_RETURN(const MovingStatistics statistics,
                            request.reader->ReadStatistics(request.model->statistics()));
    request.statistics = statistics.mean;
  }
  const proto::ModelDescription& saved = request.reader->manifest().description();
  TETHYS_RETURN_IF_ERROR(CheckSameModel(saved, request.job.model(), request.checkpoint));
  if (saved.has_scaling()) {
    request.scaling = {.mean = saved.scaling().mean(), .deviation = saved.scaling().deviation()};
  } else {
    TETHYS_ASSIGN_OR_RETURN(request.scaling, ResolveScaling(request.job.data(), *datasets.train));
  }
  return request;
}

absl::StatusOr<EvaluationSums> EvaluateCheckpoint(const Request& request) {
  TETHYS_ASSIGN_OR_RETURN(
      std::unique_ptr<Device> device,
      CreateDeviceOf(request.device, request.job.device(), /*gpu=*/0, request.cuda_library_path));
  const MonotonicClock clock;
  const int64_t rows = std::min(BatchPerWorkerRows(request.job), request.dataset->size());
  TETHYS_ASSIGN_OR_RETURN(const std::unique_ptr<Replica> replica,
                          Replica::Create(*request.model, std::move(device), clock,
                                          {.evaluation_rows = rows, .scaling = request.scaling}));
  TETHYS_RETURN_IF_ERROR(
      replica->FillPart(0, [&](absl::Span<float> values) { return request.reader->Read(0, 0, values); }));
  return replica->Evaluate(request.dataset, {0, request.dataset->size()}, request.statistics);
}

int RunEvaluate(const Flags& flags) {
  const absl::StatusOr<Request> request = PrepareRequest(flags);
  if (!request.ok()) return Fail("evaluate", request.status(), kExitBadRequest);
  const absl::StatusOr<EvaluationSums> sums = EvaluateCheckpoint(*request);
  if (!sums.ok()) return Fail("evaluate", sums.status(), kExitFailed);
  const double samples = static_cast<double>(sums->samples);
  std::printf("%s of %s (step %lld): accuracy %.4f, loss %.4f over %s samples\n",
              flags.Get("split", "test").c_str(), request->checkpoint.c_str(),
              static_cast<long long>(request->reader->manifest().state().step()), sums->correct / samples,
              sums->loss_sum / samples, CountText(sums->samples).c_str());
  return kExitSuccess;
}

}  // namespace

Command EvaluateCommand() {
  return {
      {.verb = "evaluate",
       .summary = "Accuracy and loss of a checkpoint.",
       .description =
           "Evaluates a checkpoint on a split of the job's data, in this process. The job is that of the run "
           "which holds the checkpoint, unless another is named; inputs are standardised as in training. A "
           "checkpoint of another model is refused.",
       .argument = "JOB",
       .argument_optional = true,
       .flags = {{.name = "checkpoint",
                  .value = "DIR",
                  .help = "A checkpoint (RUN_DIR/checkpoints/step-N), or a run directory for its newest one.",
                  .required = true},
                 {.name = "split", .value = "NAME", .help = "test (the default) or validation."},
                 {.name = "device",
                  .value = "NAME",
                  .help = "cpu (the default), or cuda: the first GPU, in the job's precision."},
                 CudaLibraryPathFlag(),
                 {.name = "set",
                  .value = "FIELD=VALUE",
                  .help = "Replaces a field of the job.",
                  .repeated = true}},
       .examples = {"tethys evaluate --checkpoint=runs/a",
                    "tethys evaluate --checkpoint=runs/a/checkpoints/best --split=validation"}},
      RunEvaluate};
}

}  // namespace tethys
