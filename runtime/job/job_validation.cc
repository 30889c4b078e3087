#include "runtime/job/job_validation.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <limits>

#include "absl/strings/str_format.h"
#include "runtime/job/job.h"
#include "runtime/job/job_fields.h"
#include "runtime/job/optimizer_validation.h"
#include "runtime/job/problems.h"
#include "runtime/nn/layers/layer_defaults.h"
#include "runtime/nn/layers/model_inputs.h"
#include "runtime/nn/zoo/zoo.h"

namespace tethys {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// ------------------------------------------------------------------------------------------ the table

struct Bounds {
  double least = 0;
  double most = 0;
  bool open_least = false;  // `least` itself is not allowed.
  bool open_most = false;

  // A value below an open end must be below it as a float, too, since devices compute in float.
  bool Contain(double value) const {
    return (open_least ? value > least : value >= least) &&
           (open_most ? static_cast<float>(value) < most : value <= most);
  }
  std::string Text() const {
    return absl::StrFormat("must be %s %.15g and %s %.15g", open_least ? "above" : "at least", least,
                           open_most ? "below" : "at most", most);
  }
};
constexpr Bounds From(double least, double most) { return {least, most}; }
constexpr Bounds Above(double least, double most) { return {least, most, true, false}; }
constexpr Bounds Between(double least, double most) { return {least, most, true, true}; }

// A number's default and range. A rule applies to every present message that can hold the field.
struct Rule {
  const char* field;
  double default_value;
  Bounds bounds;
};

constexpr double kRequired = std::numeric_limits<double>::quiet_NaN();  // No default: must be written.
constexpr double kUnset = -std::numeric_limits<double>::infinity();     // No default: may stay unwritten.

constexpr double kMaxWorkers = 4096;
constexpr double kMaxBatchPerWorker = 1 << 20;
constexpr double kMaxSamples = 4294967295.0;  // An epoch's order holds 32-bit numbers.
constexpr double kMaxSteps = 1ull << 40;
constexpr double kMaxMessageBytes = 1 << 30;
constexpr double kMaxBytes = 1ull << 40;
constexpr double kMaxRate = 1e6;
constexpr double kMaxSeconds = 7 * 24 * 3600;
constexpr Bounds kBelowOne = {0, 1, false, true};
constexpr Bounds kEpsilon = {1e-30, 1};  // The least is a normal float.

constexpr Rule kRules[] = {
    {"model.layer.dense.units", kRequired, From(1, 1 << 24)},
    {"model.layer.dense.activation", proto::ACTIVATION_NONE, From(0, proto::Activation_MAX)},
    {"model.layer.convolution.filters", kRequired, From(1, 1 << 20)},
    {"model.layer.convolution.kernel_size", kRequired, From(1, 1 << 12)},
    {"model.layer.convolution.stride", kUnset, From(1, 1 << 12)},
    {"model.layer.convolution.padding", proto::VALID, From(0, proto::Padding_MAX)},
    {"model.layer.convolution.pad", kUnset, From(0, 1 << 12)},
    {"model.layer.convolution.dilation", kUnset, From(1, 1 << 12)},
    {"model.layer.convolution.groups", kUnset, From(1, 1 << 20)},
    {"model.layer.convolution.activation", proto::ACTIVATION_NONE, From(0, proto::Activation_MAX)},
    {"model.layer.max_pooling.size", kUnset, From(1, 1 << 12)},
    {"model.layer.max_pooling.stride", kUnset, From(1, 1 << 12)},
    {"model.layer.max_pooling.padding", proto::VALID, From(0, proto::Padding_MAX)},
    {"model.layer.max_pooling.pad", kUnset, From(0, 1 << 12)},
    {"model.layer.batch_normalisation.decay", kUnset, Between(0, 1)},
    {"model.layer.batch_normalisation.epsilon", kUnset, Above(0, 1)},
    {"model.layer.batch_normalisation.activation", proto::ACTIVATION_NONE, From(0, proto::Activation_MAX)},
    {"model.layer.dropout.rate", kUnset, kBelowOne},
    {"model.layer.average_pooling.pad", kUnset, From(0, 1 << 12)},
    {"model.layer.average_pooling.size", kUnset, From(1, 1 << 12)},
    {"model.layer.average_pooling.stride", kUnset, From(1, 1 << 12)},
    {"model.layer.average_pooling.padding", proto::VALID, From(0, proto::Padding_MAX)},
    {"model.layer.average_pooling.count_padding", 0, From(0, 1)},
    {"model.layer.activate.activation", kRequired, From(1, proto::Activation_MAX)},
    {"data.validation_samples", 0, From(0, kMaxSamples)},
    {"data.limit_samples", 0, From(0, kMaxSamples)},
    {"data.classes", kRequired, From(2, 1 << 24)},
    {"data.compute_standardisation", 0, From(0, 1)},
    {"data.mean", kUnset, From(-kMaxRate, kMaxRate)},
    {"data.deviation", kUnset, Above(0, kMaxRate)},
    {"data.prefetch_batches", 0, From(0, 64)},
    {"optimizer.learning_rate", kRequired, Above(0, kMaxRate)},
    {"optimizer.scale_with_workers", 0, From(0, 1)},
    {"optimizer.weight_decay", 0, From(0, 1)},
    {"optimizer.decoupled_weight_decay", 0, From(0, 1)},
    {"optimizer.sgd.momentum", 0, kBelowOne},
    {"optimizer.sgd.nesterov", 0, From(0, 1)},
    {"optimizer.adam.beta_1", 0.9, kBelowOne},
    {"optimizer.adam.beta_2", 0.999, kBelowOne},
    {"optimizer.adam.epsilon", 1e-8, kEpsilon},
    {"optimizer.adam.epsilon_hat", 0, From(0, 1)},
    {"optimizer.rmsprop.decay", 0.99, kBelowOne},
    {"optimizer.rmsprop.epsilon", 1e-8, kEpsilon},
    {"optimizer.rmsprop.momentum", 0, kBelowOne},
    {"optimizer.rmsprop.centered", 0, From(0, 1)},
    {"optimizer.rmsprop.epsilon_inside_root", 0, From(0, 1)},
    {"optimizer.adagrad.epsilon", 1e-10, kEpsilon},
    {"optimizer.adagrad.initial_accumulator", 0, From(0, kMaxRate)},
    {"optimizer.adagrad.epsilon_inside_root", 0, From(0, 1)},
    {"optimizer.clip.global_norm", kRequired, Above(0, kMaxRate)},
    {"optimizer.schedule.warm_up.samples", kUnset, From(1, kMaxSamplesOfJob)},
    {"optimizer.schedule.warm_up.epochs", kUnset, Above(0, kMaxEpochs)},
    {"optimizer.schedule.warm_up.start_factor", 0, From(0, 1)},
    {"optimizer.schedule.linear_decay.end_learning_rate", 0, From(0, kMaxRate)},
    {"optimizer.schedule.linear_decay.samples", 0, From(0, kMaxSamplesOfJob)},
    {"optimizer.schedule.linear_decay.epochs", kUnset, Above(0, kMaxEpochs)},
    {"optimizer.schedule.step_decay.factor", 0.1, Above(0, 1)},
    {"optimizer.schedule.cosine_decay.end_learning_rate", 0, From(0, kMaxRate)},
    {"optimizer.schedule.cosine_decay.samples", 0, From(0, kMaxSamplesOfJob)},
    {"optimizer.schedule.cosine_decay.epochs", kUnset, Above(0, kMaxEpochs)},
    {"optimizer.schedule.polynomial_decay.end_learning_rate", 0, From(0, kMaxRate)},
    {"optimizer.schedule.polynomial_decay.samples", 0, From(0, kMaxSamplesOfJob)},
    {"optimizer.schedule.polynomial_decay.epochs", kUnset, Above(0, kMaxEpochs)},
    {"optimizer.schedule.polynomial_decay.power", 1, Above(0, 100)},
    {"epochs", 0, From(0, kMaxEpochs)},
    {"max_steps", 0, From(0, kMaxSteps)},
    {"drop_remainder", 0, From(0, 1)},
    {"seed", 0, From(0, std::numeric_limits<double>::max())},
    {"workers", 1, From(1, kMaxWorkers)},
    {"max_restarts", 0, From(0, 1 << 20)},
    {"global_batch_size", kUnset, From(1, kMaxWorkers* kMaxBatchPerWorker)},
    {"batch_size_per_worker", kUnset, From(1, kMaxBatchPerWorker)},
    {"evaluate_each_epoch", 1, From(0, 1)},
    {"device.kind", proto::Device::CPU, From(0, proto::Device::Kind_MAX)},
    {"device.precision", proto::Device::FP32, From(0, proto::Device::Precision_MAX)},
    {"device.tf32", 0, From(0, 1)},
    {"device.threads_per_rank", 1, From(1, 1024)},
    {"device.graph", 1, From(0, 1)},
    {"strategy.mirrored.bucket_bytes", kUnset, From(64, kMaxMessageBytes)},
    {"strategy.mirrored.transport", proto::Mirrored::AUTOMATIC, From(0, proto::Mirrored::Transport_MAX)},
    {"strategy.mirrored.gradients", proto::Device::FP32, From(0, proto::Device::Precision_MAX)},
    {"strategy.parameter_server.servers", 1, From(1, 1024)},
    {"strategy.parameter_server.message_bytes", kUnset, From(64, kMaxMessageBytes)},
    {"strategy.parameter_server.partitioner.min_size.min_shard_bytes", 256 * 1024, From(1, kMaxBytes)},
    {"strategy.parameter_server.partitioner.min_size.max_shards", kUnset, From(1, 1 << 24)},
    {"strategy.parameter_server.partitioner.fixed.shards", kRequired, From(1, 1 << 24)},
    {"strategy.parameter_server.partitioner.max_size.max_shard_bytes", kRequired, From(1, kMaxBytes)},
    {"strategy.parameter_server.partitioner.max_size.max_shards", 0, From(0, 1 << 24)},
    {"strategy.parameter_server.bulk_synchronous.summation", 0,
     From(0, proto::BulkSynchronous::Summation_MAX)},
    {"strategy.local.virtual_replicas", 1, From(1, kMaxWorkers)},
    {"strategy.parameter_server.asynchronous.gradient_scale", 0,
     From(0, proto::Asynchronous::GradientScale_MAX)},
    {"strategy.parameter_server.asynchronous.pull", 0, From(0, proto::Asynchronous::Pull_MAX)},
    {"strategy.parameter_server.stale_synchronous.bound", 3, From(0, 1 << 20)},
    {"strategy.parameter_server.stale_synchronous.gradient_scale", proto::Asynchronous::GLOBAL_MEAN,
     From(0, proto::Asynchronous::GradientScale_MAX)},
    {"checkpoint.every_steps", 0, From(0, kMaxSteps)},
    {"checkpoint.every_epochs", kUnset, From(0, kMaxEpochs)},
    {"checkpoint.min_seconds", kUnset, From(0, kMaxSeconds)},
    {"checkpoint.keep", 2, From(1, 1 << 20)},
    {"checkpoint.keep_best", 0, From(0, 1)},
    {"checkpoint.best_by", proto::VALIDATION_LOSS, From(0, proto::Monitor_MAX)},
    {"early_stopping.monitor", proto::VALIDATION_LOSS, From(0, proto::Monitor_MAX)},
    {"early_stopping.patience", 0, From(0, kMaxEpochs)},
    {"early_stopping.min_delta", 0, From(0, kMaxRate)},
    {"early_stopping.start_from_epoch", 0, From(0, kMaxEpochs)},
    {"resources.interval_seconds", 1, From(0, 3600)},
    {"price_per_hour", 0, From(0, 1e9)},
    {"timeouts.start", 60, Above(0, kMaxSeconds)},
    {"timeouts.silence", 10, From(1, kMaxSeconds)},
    {"timeouts.step", 30, Above(0, kMaxSeconds)},
    {"timeouts.shutdown", 3, Above(0, kMaxSeconds)},
};

// ------------------------------------------------------------------------------------ applying rules

void ApplyRules(proto::Job& job, Problems& problems) {
  for (const Rule& rule : kRules) {
    ForEachField(rule.field, job,
                 [&](Message& holder, const FieldDescriptor& field, const std::string& path) {
                   if (!holder.GetReflection()->HasField(holder, &field)) {
                     problems.AddIf(std::isnan(rule.default_value), path,
                                    absl::StrCat("is missing: ", rule.bounds.Text()));
                     if (std::isfinite(rule.default_value)) SetNumber(rule.default_value, field, holder);
                     return;
                   }
                   const double value = GetNumber(holder, field);
                   problems.AddIf(!rule.bounds.Contain(value), path,
                                  absl::StrFormat("is %.15g: %s", value, rule.bounds.Text()));
                 });
  }
}

// ------------------------------------------------------------------------------ fields of other kinds

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

// Whatever the last layer is, the model is checked once the shape of a sample is known.
void CheckLogits(const proto::Job& job, Problems& problems) {
  if (job.model().layer().empty()) return;
  const int last = job.model().layer_size() - 1;
  const proto::Layer& layer = job.model().layer(last);
  problems.AddIf(layer.has_dense() && layer.dense().units() != job.data().classes(),
                 absl::StrCat("model.layer[", last, "].dense.units"),
                 absl::StrCat("is ", layer.dense().units(), " in the last layer, but data.classes is ",
                              job.data().classes(), ": the two must be equal, one logit per class"));
}

void ResolveData(proto::Data& data, Problems& problems) {
  problems.AddIf(!data.has_idx(), "data", "has no source: write idx { train_images: ... train_labels: ... }");
  const proto::Idx& idx = data.idx();
  problems.AddIf(idx.train_images().empty(), "data.idx.train_images",
                 "is missing: give the path of an IDX file");
  problems.AddIf(idx.train_labels().empty(), "data.idx.train_labels",
                 "is missing: give the path of an IDX file");
  problems.AddIf(idx.test_images().empty() != idx.test_labels().empty(),
                 idx.test_images().empty() ? "data.idx.test_images" : "data.idx.test_labels",
                 "is missing: give both test files, or neither for a job without a test");
  if (data.compute_standardisation()) {
    const char* given = data.has_mean() ? "data.mean" : "data.deviation";
    problems.AddIf(data.has_mean() || data.has_deviation(), given,
                   "is given, but data.compute_standardisation is true: remove one of the two");
    return;
  }
  if (!data.has_mean()) data.set_mean(0);
  if (!data.has_deviation()) data.set_deviation(1);
}

void CheckBatch(const proto::Job& job, Problems& problems) {
  problems.AddIf(job.batch_case() == proto::Job::BATCH_NOT_SET, "batch_size_per_worker",
                 "is missing: give it, or global_batch_size");
  problems.AddIf(job.has_global_batch_size() && job.global_batch_size() < job.workers(), "global_batch_size",
                 absl::StrCat("is ", job.global_batch_size(), ", but workers is ", job.workers(),
                              ": every worker needs a sample; raise the batch or lower the workers"));
  problems.AddIf(job.epochs() == 0 && job.max_steps() == 0, "epochs",
                 "and max_steps are both missing: give at least one, or the job would not end");
}

void CheckStrategy(const proto::Job& job, Problems& problems) {
  problems.AddIf(
      job.strategy().has_local() && job.workers() != 1, "workers",
      absl::StrCat("is ", job.workers(),
                   ", but the strategy is local, which is one worker without exchange: write workers: 1, "
                   "or strategy { mirrored {} } or strategy { parameter_server {} }"));
  const int replicas = job.strategy().local().virtual_replicas();
  problems.AddIf(replicas > GlobalBatch(job), "strategy.local.virtual_replicas",
                 absl::StrCat("is ", replicas, ", but the batch is ", GlobalBatch(job),
                              ": every replica needs a sample; raise the batch or lower the replicas"));
  const auto& fixed = job.strategy().parameter_server().partitioner().fixed();
  const proto::Model model = ExpandModel(job.model(), job.data().classes());
  for (const proto::Layer& layer : model.layer()) {
    const int64_t out = SmallestVariable(layer);
    problems.AddIf(
        out > 0 && fixed.shards() > out, "strategy.parameter_server.partitioner.fixed.shards",
        absl::StrCat("is ", fixed.shards(), ", but a variable of layer '", layer.name(), "' has only ", out,
                     " rows, and no shard may be empty: use at most ", out, ", or min_size {}"));
  }
  problems.AddIf(
      job.max_restarts() > 0 && !LeasesBatches(job), "max_restarts",
      absl::StrCat("is ", job.max_restarts(),
                   ", but only asynchronous and stale-synchronous jobs survive the loss of a worker: "
                   "leave it out; a job of another strategy is resumed by --resume"));
}

void CheckDevice(const proto::Job& job, Problems& problems) {
  const proto::Device& device = job.device();
  if (device.kind() == proto::Device::CUDA) return;
  problems.AddIf(
      device.precision() != proto::Device::FP32, "device.precision",
      "is BF16, but device.kind is CPU, which computes in float32: leave it out, or write kind: CUDA");
  problems.AddIf(device.tf32(), "device.tf32",
                 "is true, but device.kind is CPU, which has no TF32: leave it out, or write kind: CUDA");
  problems.AddIf(job.strategy().mirrored().gradients() != proto::Device::FP32, "strategy.mirrored.gradients",
                 "is BF16, but device.kind is CPU, which sums in float32: leave it out, or write kind: CUDA");
}

// Resource samples are sent with the heartbeats, four times a second.
constexpr double kLeastSamplingSeconds = 0.25;

void CheckResources(const proto::Job& job, Problems& problems) {
  const double seconds = job.resources().interval_seconds();
  problems.AddIf(
      seconds > 0 && seconds < kLeastSamplingSeconds, "resources.interval_seconds",
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
                              ": timeouts.step must be longer, or the error names a process that waits "
                              "for the lost one; raise timeouts.step"));
}

// Creates the messages whose absence means their defaults, so that the rules for their fields apply.
void MakeMessages(proto::Job& job) {
  job.mutable_device();
  job.mutable_checkpoint();
  job.mutable_timeouts();
  job.mutable_resources();
  proto::Schedule& schedule = *job.mutable_optimizer()->mutable_schedule();
  if (schedule.kind_case() == proto::Schedule::KIND_NOT_SET) schedule.mutable_constant();
  proto::Strategy& strategy = *job.mutable_strategy();
  if (strategy.kind_case() == proto::Strategy::KIND_NOT_SET) strategy.mutable_local();
  if (!strategy.has_parameter_server()) return;
  proto::ParameterServer& ps = *strategy.mutable_parameter_server();
  if (ps.consistency_case() == proto::ParameterServer::CONSISTENCY_NOT_SET) ps.mutable_bulk_synchronous();
  if (ps.partitioner().kind_case() == proto::Partitioner::KIND_NOT_SET)
    ps.mutable_partitioner()->mutable_min_size();
}

// The default interval between checkpoints is short enough to lose little and long enough to cost little.
void ResolveCheckpoint(proto::Checkpoint& checkpoint) {
  constexpr double kDefaultSeconds = 60;
  const bool chosen = checkpoint.every_steps() > 0 || checkpoint.has_every_epochs();
  if (!checkpoint.has_min_seconds()) checkpoint.set_min_seconds(chosen ? 0 : kDefaultSeconds);
  if (!checkpoint.has_every_epochs()) checkpoint.set_every_epochs(chosen ? 0 : 1);
}

// Sets defaults that depend on other fields.
void ResolveDependentDefaults(proto::Job& job) {
  ResolveCheckpoint(*job.mutable_checkpoint());
  proto::Partitioner* partitioner =
      job.strategy().has_parameter_server()
          ? job.mutable_strategy()->mutable_parameter_server()->mutable_partitioner()
          : nullptr;
  if (partitioner != nullptr && partitioner->has_min_size() && !partitioner->min_size().has_max_shards()) {
    partitioner->mutable_min_size()->set_max_shards(ServerCount(job));
  }
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
  ResolveData(*job.mutable_data(), problems);
  ResolveOptimizer(*job.mutable_optimizer(), problems);
  ApplyRules(job, problems);
  ResolveDependentDefaults(job);
  CheckLogits(job, problems);
  CheckBatch(job, problems);
  CheckStrategy(job, problems);
  CheckOptimizer(job, problems);
  CheckDevice(job, problems);
  CheckResources(job, problems);
  CheckValidationUse(job, problems);
  CheckTimeouts(job.timeouts(), problems);
  return problems.status();
}

absl::Status CheckTrainingLength(int64_t train_samples, const proto::Job& job) {
  const int64_t global_batch = GlobalBatch(job);
  if (!job.drop_remainder() || train_samples >= global_batch) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "the global batch is ", global_batch, " samples, but the training split has only ", train_samples,
      " and drop_remainder is true, so an epoch would have no step: lower the batch or set drop_remainder "
      "to false"));
}

}  // namespace tethys
