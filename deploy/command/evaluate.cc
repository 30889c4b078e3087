#include <algorithm>
#include <cstdio>
#include <memory>

#include "deploy/command/verbs.h"
#include "deploy/describe/class_accuracy.h"
#include "deploy/describe/quality_text.h"
#include "deploy/run/checkpoint_choice.h"
#include "deploy/run/checkpoint_use.h"
#include "deploy/text.h"
#include "runtime/checkpoint/checkpoint_reader.h"
#include "runtime/checkpoint/model_description.h"
#include "runtime/chief/quality_sums.h"
#include "runtime/data/dataset.h"
#include "runtime/job/job.h"
#include "runtime/nn/model.h"

namespace tethys {
namespace {

// The input of the evaluation. Input that is missing or unfit is reported before the evaluation starts.
struct Request {
  proto::Job job;
  std::string checkpoint;
  std::shared_ptr<const Dataset> dataset;
  InputScaling scaling;
  std::vector<float> statistics = {};  // Moving statistics; empty if the model has none.
  std::unique_ptr<Model> model;
  std::unique_ptr<CheckpointReader> reader;
  ChosenDevice device = {};
  std::vector<std::string> class_names = {};  // One name per class; may be empty.
};

absl::StatusOr<Request> PrepareRequest(const Flags& flags) {
  Request request;
  TETHYS_ASSIGN_OR_RETURN(request.device, ChooseDevice(flags));
  TETHYS_ASSIGN_OR_RETURN(request.checkpoint, FindCheckpoint(flags.Get("checkpoint")));
  TETHYS_ASSIGN_OR_RETURN(request.job, JobOf(flags, request.checkpoint));
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
          absl::StrCat("the job's samples are ", ValueTypeText(request.dataset->spec().type), ", but ",
                       request.checkpoint, " was trained on ", ValueTypeText(request.scaling.type),
                       ": convert the data with tethys data convert"));
    }
  } else {
    TETHYS_ASSIGN_OR_RETURN(request.scaling, ResolveScaling(request.job.data(), *datasets.train));
  }
  TETHYS_ASSIGN_OR_RETURN(request.class_names, ClassNamesIn(saved, &request.job));
  return request;
}

// Evaluates the checkpoint. If each sample has one class, counts the predicted classes in `classes`.
absl::StatusOr<proto::EvaluationDone> EvaluateCheckpoint(const Request& request, ClassAccuracy& classes) {
  const int64_t rows = std::min(BatchPerWorkerRows(request.job), request.dataset->size());
  TETHYS_ASSIGN_OR_RETURN(const std::unique_ptr<Replica> replica,
                          LoadReplica(*request.reader, *request.model, request.device, request.job.device(),
                                      rows, request.scaling));
  const Slice all = {0, request.dataset->size()};
  const LabelFormat& labels = request.dataset->label_format();
  if (labels.targets || !labels.shape.empty()) {
    return replica->Evaluate(request.dataset, all, request.statistics);
  }
  const int64_t each = request.model->outputs();
  const auto count = [&](int64_t first, absl::Span<const float> outputs) -> absl::Status {
    for (int64_t i = 0; i < static_cast<int64_t>(outputs.size()) / each; ++i) {
      int32_t label = 0;
      TETHYS_RETURN_IF_ERROR(request.dataset->ReadLabels(first + i, &label));
      const absl::Span<const float> own = outputs.subspan(i * each, each);
      if (label < 0 || label >= each) continue;  // The loss ignores such a label, too.
      classes.Add(label, std::max_element(own.begin(), own.end()) - own.begin());
    }
    return absl::OkStatus();
  };
  return replica->EvaluateOutputs(request.dataset, all, count, request.statistics);
}

int RunEvaluate(const Flags& flags) {
  const absl::StatusOr<Request> request = PrepareRequest(flags);
  if (!request.ok()) return Fail("evaluate", request.status(), kExitBadRequest);
  ClassAccuracy classes;
  const absl::StatusOr<proto::EvaluationDone> done = EvaluateCheckpoint(*request, classes);
  if (!done.ok()) return Fail("evaluate", done.status(), ExitStatusOf(done.status()));
  QualitySums sums;
  sums.Add(*done);
  const proto::Quality quality = sums.Quality();
  std::printf("%s of %s (step %lld): %s over %s samples\n", flags.Get("split", "test").c_str(),
              request->checkpoint.c_str(), static_cast<long long>(request->reader->manifest().state().step()),
              QualityText(quality).c_str(), CountText(quality.samples()).c_str());
  const auto known = static_cast<int32_t>(request->class_names.size());
  for (const proto::ClassIou& iou : quality.iou()) {
    const std::string name =
        iou.class_index() < known ? absl::StrCat(" (", request->class_names[iou.class_index()], ")") : "";
    std::printf("  IoU of class %d%s: %.4f\n", iou.class_index(), name.c_str(), iou.iou());
  }
  std::fputs(classes.Text(request->class_names).c_str(), stdout);
  return kExitSuccess;
}

}  // namespace

Command EvaluateCommand() {
  return {{.verb = "evaluate",
           .summary = "Shows accuracy and loss of a checkpoint, and the accuracy of each class.",
           .description = "Evaluates a checkpoint on a split of the job's data, in this process. Also shows, "
                          "for each class, the accuracy and the class for which its samples are most often "
                          "mistaken. The job is the job of the run that contains the checkpoint, unless JOB "
                          "names another job file; inputs are standardised as in training. A checkpoint of "
                          "another model is refused.",
           .argument = "JOB",
           .argument_optional = true,
           .flags = CheckpointUseFlags("test (the default), validation or train."),
           .examples = {"tethys evaluate --checkpoint=runs/a",
                        "tethys evaluate --checkpoint=runs/a/checkpoints/best --split=validation"}},
          RunEvaluate};
}

}  // namespace tethys
