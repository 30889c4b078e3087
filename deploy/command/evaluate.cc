#include <algorithm>
#include <cstdio>
#include <memory>

#include "deploy/command/checkpoint_choice.h"
#include "deploy/command/checkpoint_use.h"
#include "deploy/command/command.h"
#include "deploy/command/quality_text.h"
#include "deploy/text.h"
#include "runtime/checkpoint/checkpoint_reader.h"
#include "runtime/checkpoint/model_description.h"
#include "runtime/chief/quality_sums.h"
#include "runtime/data/dataset.h"
#include "runtime/job/job.h"
#include "runtime/job/job_file.h"
#include "runtime/nn/model.h"

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
  ChosenDevice device = {};
};

absl::StatusOr<Request> PrepareRequest(const Flags& flags) {
  Request request;
  TETHYS_ASSIGN_OR_RETURN(request.device, ChooseDevice(flags));
  TETHYS_ASSIGN_OR_RETURN(request.checkpoint, FindCheckpoint(flags.Get("checkpoint")));
  TETHYS_ASSIGN_OR_RETURN(const std::string job_file, JobFileOf(flags, request.checkpoint));
  TETHYS_ASSIGN_OR_RETURN(request.job, LoadJob(job_file, flags.GetAll("set")));
  TETHYS_ASSIGN_OR_RETURN(const Datasets datasets, LoadDatasetsUncached(request.job));
  TETHYS_ASSIGN_OR_RETURN(request.dataset, ChooseSplit(datasets, flags.Get("split", "test")));
  TETHYS_ASSIGN_OR_RETURN(Model model, Model::Create(request.job.model(), request.dataset->sample_shape(),
                                                     request.job.data().classes()));
  TETHYS_RETURN_IF_ERROR(model.CheckLabels(request.dataset->label_format()));
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
    request.scaling = ScalingOf(saved.scaling(), saved.float_inputs());
    if (request.dataset->spec().type != request.scaling.type) {
      return absl::InvalidArgumentError(
          absl::StrCat("the job's samples are ", ValueTypeText(request.dataset->spec().type), ", those of ",
                       request.checkpoint, " were ", ValueTypeText(request.scaling.type),
                       ": convert the data with tethys data convert"));
    }
  } else {
    TETHYS_ASSIGN_OR_RETURN(request.scaling, ResolveScaling(request.job.data(), *datasets.train));
  }
  return request;
}

absl::StatusOr<proto::EvaluationDone> EvaluateCheckpoint(const Request& request) {
  const int64_t rows = std::min(BatchPerWorkerRows(request.job), request.dataset->size());
  TETHYS_ASSIGN_OR_RETURN(const std::unique_ptr<Replica> replica,
                          LoadReplica(*request.reader, *request.model, request.device, request.job.device(),
                                      rows, request.scaling));
  return replica->Evaluate(request.dataset, {0, request.dataset->size()}, request.statistics);
}

int RunEvaluate(const Flags& flags) {
  const absl::StatusOr<Request> request = PrepareRequest(flags);
  if (!request.ok()) return Fail("evaluate", request.status(), kExitBadRequest);
  const absl::StatusOr<proto::EvaluationDone> done = EvaluateCheckpoint(*request);
  if (!done.ok()) return Fail("evaluate", done.status(), kExitFailed);
  QualitySums sums;
  sums.Add(*done);
  const proto::Quality quality = sums.Quality();
  std::printf("%s of %s (step %lld): %s over %s samples\n", flags.Get("split", "test").c_str(),
              request->checkpoint.c_str(), static_cast<long long>(request->reader->manifest().state().step()),
              QualityText(quality).c_str(), CountText(quality.samples()).c_str());
  for (const proto::ClassIou& iou : quality.iou()) {
    std::printf("  IoU of class %d: %.4f\n", iou.class_index(), iou.iou());
  }
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
       .flags = CheckpointUseFlags("test (the default), validation or train."),
       .examples = {"tethys evaluate --checkpoint=runs/a",
                    "tethys evaluate --checkpoint=runs/a/checkpoints/best --split=validation"}},
      RunEvaluate};
}

}  // namespace tethys
