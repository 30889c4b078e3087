#include "runtime/job/job_validation.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/match.h"
#include "runtime/job/data_validation.h"
#include "runtime/job/job.h"
#include "runtime/job/number_rules.h"
#include "runtime/job/optimizer_validation.h"
#include "runtime/job/problems.h"
#include "runtime/nn/layers/layer_defaults.h"
#include "runtime/nn/layers/model_inputs.h"
#include "runtime/nn/zoo/zoo.h"
#include "runtime/shape/job_shape.h"

namespace tethys {
namespace {

// ------------------------------------------------------------------------------ fields that are not numbers

void ResolveLayers(proto::Model& model, Problems& problems) {
  problems.AddIf(model.layer().empty(), "model",
                 "has no layer: add at least one dense layer, or name a family, such as lenet {}");
  for (int i = 0; i < model.layer_size(); ++i) {
    proto::Layer& layer = *model.mutable_layer(i);
    const std::string field = absl::StrCat("model.layer[", i, "]");
    ResolveLayer(i, layer);
    const bool has_kind = layer.kind_case() != proto::Layer::KIND_NOT_SET;
    problems.AddIf(has_kind && !IsName(layer.name()), field + ".name", kNameRule);
  }
  const ModelInputs inputs = FindInputs(model);
  if (inputs.wrong_layer < 0) return;
  problems.Add(absl::StrCat("model.layer[", inputs.wrong_layer, "]"), inputs.problem);
}

void ResolveModel(proto::Model& model, Problems& problems) {
  if (model.family_case() == proto::Model::FAMILY_NOT_SET) return ResolveLayers(model, problems);
  problems.AddIf(
      !model.layer().empty(), "model",
      "has both layers and a family: remove one of them; `tethys plan --layers` prints the layers of "
      "a family, to be copied and changed");
  CompleteFamily(model);
  const std::string problem = FamilyProblem(model);
  problems.AddIf(!problem.empty(), "model", problem);
}

// Checks the fields that depend on whether the loss has classes.
void CheckLoss(const proto::Job& job, Problems& problems) {
  if (job.model().loss().has_softmax_cross_entropy()) {
    problems.AddIf(!job.data().has_classes(), "data.classes",
                   "is missing: give the number of classes, at least 2");
    return;
  }
  problems.AddIf(job.data().has_classes(), "data.classes",
                 "is given, but model.loss is the mean squared error, which has targets and no classes: "
                 "leave data.classes out");
  problems.AddIf(job.model().family_case() != proto::Model::FAMILY_NOT_SET, "model.loss",
                 "is the mean squared error, but the model is a family, whose outputs are classes: list the "
                 "layers (`tethys plan --layers` prints the layers of a family)");
  constexpr char kNoAccuracy[] =
      "is VALIDATION_ACCURACY, but model.loss is the mean squared error, which has no accuracy: write "
      "VALIDATION_LOSS";
  problems.AddIf(job.checkpoint().best_by() == proto::VALIDATION_ACCURACY, "checkpoint.best_by", kNoAccuracy);
  problems.AddIf(job.early_stopping().monitor() == proto::VALIDATION_ACCURACY, "early_stopping.monitor",
                 kNoAccuracy);
}

// Checks the number of logits if the last layer is dense. Other last layers are checked once the shape of a
// sample is known.
void CheckLogits(const proto::Job& job, Problems& problems) {
  if (!job.model().loss().has_softmax_cross_entropy() || !job.data().has_classes()) return;
  if (job.model().layer().empty()) return;
  const int last = job.model().layer_size() - 1;
  const proto::Layer& layer = job.model().layer(last);
  problems.AddIf(layer.has_dense() && layer.dense().units() != job.data().classes(),
                 absl::StrCat("model.layer[", last, "].dense.units"),
                 absl::StrCat("is ", layer.dense().units(), " in the last layer, but data.classes is ",
                              job.data().classes(), ": the two must be equal, one logit per class"));
}

void CheckBatch(const proto::Job& job, Problems& problems) {
  problems.AddIf(job.batch_case() == proto::Job::BATCH_NOT_SET, "batch_size_per_worker",
                 "is missing: give it, or global_batch_size");
  problems.AddIf(job.has_global_batch_size() && job.global_batch_size() < job.workers(), "global_batch_size",
                 absl::StrCat("is ", job.global_batch_size(), ", but workers is ", job.workers(),
                              ": every worker needs a sample; raise global_batch_size or lower workers"));
  // `workers` may be invalid too, and BatchPerWorkerRows divides by it.
  const int64_t own = job.workers() > 0 ? BatchPerWorkerRows(job) : job.micro_batches();
  problems.AddIf(job.micro_batches() > own, "micro_batches",
                 absl::StrCat("is ", job.micro_batches(), ", but a worker's batch is ", own,
                              ": every micro-batch needs a sample; raise the batch or lower micro_batches"));
  problems.AddIf(job.micro_batches() > 1 && job.strategy().local().virtual_replicas() > 1, "micro_batches",
                 "and strategy.local.virtual_replicas are both above 1: both say in which parts a batch is "
                 "normalised; leave one of them out");
  problems.AddIf(job.epochs() == 0 && job.max_steps() == 0, "epochs",
                 "and max_steps are both missing: give at least one, or the job would not end");
}

void CheckStrategy(const proto::Job& job, Problems& problems) {
  problems.AddIf(
      !TraitsOf(job).exchanges && job.workers() != 1, "workers",
      absl::StrCat("is ", job.workers(),
                   ", but the strategy is local, which is one worker without exchange: write workers: 1, "
                   "or strategy { mirrored {} } or strategy { parameter_server {} }"));
  const int replicas = job.strategy().local().virtual_replicas();
  problems.AddIf(replicas > GlobalBatch(job), "strategy.local.virtual_replicas",
                 absl::StrCat("is ", replicas, ", but the batch is ", GlobalBatch(job),
                              ": every replica needs a sample; raise the batch or lower virtual_replicas"));
  const int shards = TraitsOf(job).servers() ? job.tuning().partitioner().fixed().shards() : 0;
  const proto::Model model = ExpandModel(job.model(), job.data().classes());
  for (const proto::Layer& layer : model.layer()) {
    const int64_t out = IsTrainable(layer) ? SmallestVariable(layer) : 0;
    problems.AddIf(
        out > 0 && shards > out, "tuning.partitioner.fixed.shards",
        absl::StrCat("is ", shards, ", but a variable of layer '", layer.name(), "' has only ", out,
                     " rows, and no shard may be empty: use at most ", out, ", or min_size {}"));
  }
}

void CheckElastic(const proto::Job& job, Problems& problems) {
  problems.AddIf(job.elastic().on_loss() == proto::Elastic::END && job.elastic().has_min_workers(),
                 "elastic.min_workers",
                 "has no effect, because elastic.on_loss is END: leave one of the two out");
  if (!job.has_elastic() || !FormsNewGroups(job)) return;
  const proto::Elastic& elastic = job.elastic();
  const bool waits = elastic.on_loss() == proto::Elastic::WAIT;
  const bool sharded = job.data().sharding() != proto::Data::GLOBAL;
  problems.AddIf(elastic.min_workers() > job.workers(), "elastic.min_workers",
                 absl::StrCat("is ", elastic.min_workers(), ", but workers is ", job.workers(),
                              ": a job never has more; lower min_workers"));
  problems.AddIf(
      waits && elastic.has_min_workers() && elastic.min_workers() != job.workers(), "elastic.min_workers",
      absl::StrCat("is ", elastic.min_workers(), ", but elastic.on_loss is WAIT, which waits for all ",
                   job.workers(), " workers: leave min_workers out, or write on_loss: CONTINUE"));
  problems.AddIf(waits && elastic.has_on_loss() && job.max_restarts() == 0, "elastic.on_loss",
                 "is WAIT, but max_restarts is 0, so no worker is replaced: give max_restarts");
  problems.AddIf(
      sharded && elastic.has_on_loss() && !waits, "elastic.on_loss",
      absl::StrCat("is CONTINUE, but data.sharding is ", proto::Data::Sharding_Name(job.data().sharding()),
                   ", so the number of workers cannot change within an epoch: write WAIT, or sharding: "
                   "GLOBAL"));
}

void CheckReplicas(const proto::Job& job, Problems& problems) {
  const proto::ParameterServer& servers = job.strategy().parameter_server();
  if (servers.replicas() < 2) return;
  const auto refuse_if = [&](bool wrong, absl::string_view why) {
    problems.AddIf(wrong, "strategy.parameter_server.replicas", absl::StrCat("is ", servers.replicas(), why));
  };
  const bool in_groups = TraitsOf(job).forms_groups;
  refuse_if(in_groups && job.elastic().on_loss() == proto::Elastic::END,
            ", but elastic.on_loss is END, so the job ends when a process is lost: leave one of the two out");
  refuse_if(servers.servers() < 2,
            ", but servers is 1, so no other server can keep the copy: give more servers");
  refuse_if(job.max_restarts() == 0,
            ", but max_restarts is 0, so no lost server is replaced: give max_restarts");
}

void CheckFrozen(const proto::Job& job, Problems& problems) {
  const proto::Model model = ExpandModel(job.model(), job.data().classes());
  for (int i = 0; i < job.model().frozen_size(); ++i) {
    const std::string& part = job.model().frozen(i);
    const bool begins =
        std::any_of(model.layer().begin(), model.layer().end(),
                    [&part](const proto::Layer& layer) { return absl::StartsWith(layer.name(), part); });
    problems.AddIf(!begins, absl::StrCat("model.frozen[", i, "]"),
                   absl::StrCat("is \"", part,
                                "\", and no layer's name begins with it (`tethys plan --layers` "
                                "lists the layers)"));
  }
}

void CheckInitial(const proto::Job& job, Problems& problems) {
  problems.AddIf(job.has_initial() && job.initial().checkpoint().empty(), "initial.checkpoint",
                 "is missing: name a checkpoint or a run directory");
}

void CheckDevice(const proto::Job& job, Problems& problems) {
  const proto::Device& device = job.device();
  if (device.kind() == proto::Device::CUDA) return;
  problems.AddIf(
      device.precision() != proto::Device::FP32, "device.precision",
      "is BF16, but device.kind is CPU, which computes in float32: leave precision out, or write kind: CUDA");
  problems.AddIf(device.tf32(), "device.tf32",
                 "is true, but device.kind is CPU, which has no TF32: leave tf32 out, or write kind: CUDA");
  problems.AddIf(
      job.strategy().mirrored().gradients() != proto::Device::FP32, "strategy.mirrored.gradients",
      "is BF16, but device.kind is CPU, which sums in float32: leave gradients out, or write kind: CUDA");
}

// The shortest interval of resource samples: samples are sent with the heartbeats, four times a second.
constexpr double kLeastSamplingSeconds = 0.25;

void CheckResources(const proto::Job& job, Problems& problems) {
  const double seconds = job.tuning().resources().interval_seconds();
  problems.AddIf(
      seconds > 0 && seconds < kLeastSamplingSeconds, "tuning.resources.interval_seconds",
      absl::StrCat("is ", seconds, ": must be 0 (sample nothing) or at least ", kLeastSamplingSeconds));
}

// Refuses fields that need validation results in a job that never validates.
void CheckValidationUse(const proto::Job& job, Problems& problems) {
  const bool validates = job.data().validation_samples() > 0 && job.evaluate_each_epoch();
  constexpr char kRemedy[] =
      ", but no epoch is validated: give data.validation_samples, and leave "
      "evaluate_each_epoch true";
  problems.AddIf(job.checkpoint().keep_best() && !validates, "checkpoint.keep_best",
                 absl::StrCat("is true", kRemedy));
  problems.AddIf(job.has_early_stopping() && !validates, "early_stopping", absl::StrCat("is given", kRemedy));
}

// An exchange with a lost process must wait longer than the chief takes to detect which process is lost.
void CheckTimeouts(const proto::Timeouts& timeouts, Problems& problems) {
  problems.AddIf(timeouts.step() <= timeouts.silence(), "timeouts.step",
                 absl::StrCat("is ", timeouts.step(), ", but timeouts.silence is ", timeouts.silence(),
                              ": raise timeouts.step above timeouts.silence; otherwise an error could name a "
                              "process that only waits for the lost process"));
}

// Creates the messages that a job may leave out, so that the rules for their fields apply.
void MakeMessages(proto::Job& job) {
  proto::Loss& loss = *job.mutable_model()->mutable_loss();
  if (loss.kind_case() == proto::Loss::KIND_NOT_SET) loss.mutable_softmax_cross_entropy();
  job.mutable_device();
  job.mutable_checkpoint();
  job.mutable_timeouts();
  job.mutable_tuning()->mutable_resources();
  proto::Schedule& schedule = *job.mutable_optimizer()->mutable_schedule();
  if (schedule.kind_case() == proto::Schedule::KIND_NOT_SET) schedule.mutable_constant();
  proto::Strategy& strategy = *job.mutable_strategy();
  if (strategy.kind_case() == proto::Strategy::KIND_NOT_SET) strategy.mutable_local();
  if (!strategy.has_parameter_server()) return;
  proto::ParameterServer& ps = *strategy.mutable_parameter_server();
  if (ps.consistency_case() == proto::ParameterServer::CONSISTENCY_NOT_SET) ps.mutable_bulk_synchronous();
}

// Sets the default interval between checkpoints: short enough that a failure loses little work, long enough
// that checkpoints cost little time.
void ResolveCheckpoint(proto::Checkpoint& checkpoint) {
  constexpr double kDefaultSeconds = 60;
  const bool chosen = checkpoint.every_steps() > 0 || checkpoint.has_every_epochs();
  if (!checkpoint.has_min_seconds()) checkpoint.set_min_seconds(chosen ? 0 : kDefaultSeconds);
  if (!checkpoint.has_every_epochs()) checkpoint.set_every_epochs(chosen ? 0 : 1);
}

}  // namespace

absl::Status ResolveJob(const FieldLocator& where, proto::Job& job) {
  Problems problems(where);
  problems.AddIf(!job.has_model(), "model", "is missing: describe the layers in model { layer { ... } }");
  problems.AddIf(!job.has_data(), "data", "is missing: name the files in data { idx { ... } }");
  problems.AddIf(!job.has_optimizer(), "optimizer",
                 "is missing: write optimizer { sgd {} learning_rate: ... }");
  TETHYS_RETURN_IF_ERROR(problems.status());

  MakeMessages(job);
  problems.AddIf(!IsName(job.name()), "name", kNameRule);
  ResolveModel(*job.mutable_model(), problems);
  ResolveData(job, problems);
  ResolveOptimizer(*job.mutable_optimizer(), problems);
  ApplyNumberRules(job, problems);
  ResolveCheckpoint(*job.mutable_checkpoint());
  CheckLoss(job, problems);
  CheckLogits(job, problems);
  CheckBatch(job, problems);
  CheckStrategy(job, problems);
  CheckElastic(job, problems);
  CheckReplicas(job, problems);
  CheckFrozen(job, problems);
  CheckInitial(job, problems);
  CheckOptimizer(job, problems);
  CheckDevice(job, problems);
  CheckResources(job, problems);
  CheckValidationUse(job, problems);
  CheckTimeouts(job.timeouts(), problems);
  return problems.status();
}

absl::Status CheckTrainingLength(int64_t epoch_length, const proto::Job& job) {
  const int64_t global_batch = GlobalBatch(job);
  if (!job.drop_remainder() || epoch_length >= global_batch) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "the global batch is ", global_batch, " samples, but an epoch has only ", epoch_length,
      " and drop_remainder is true, so the epoch would have no step: lower the batch or set drop_remainder "
      "to false"));
}

}  // namespace tethys
