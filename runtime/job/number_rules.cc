#include "runtime/job/number_rules.h"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "runtime/base/number_rule.h"
#include "runtime/job/field_numbers.h"
#include "runtime/nn/layers/layer_defaults.h"

namespace tethys {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

constexpr double kMaxWorkers = 4096;
constexpr double kMaxBatchPerWorker = 1 << 20;
constexpr double kMaxSamples = 1ull << 40;
constexpr double kMaxSteps = 1ull << 40;
constexpr double kMaxMessageBytes = 1 << 30;
constexpr double kMaxBytes = 1ull << 40;
constexpr double kMaxRate = 1e6;
constexpr double kMaxSeconds = 7 * 24 * 3600;
// The bounds of an optimizer's epsilon. The lower bound is a normal (not a denormal) float.
constexpr NumberBounds kEpsilon = {1e-30, 1};

// A rule applies to every message that is present in the job and whose type has the field.
constexpr NumberRule kRules[] = {
    {"model.loss.softmax_cross_entropy.label_smoothing", 0, kBelowOne},
    {"model.loss.softmax_cross_entropy.ignore_label", kUnset, From(0, 255)},
    {"data.validation_samples", 0, From(0, kMaxSamples)},
    {"data.limit_samples", 0, From(0, kMaxSamples)},
    {"data.synthetic.train_samples", kRequired, From(1, kMaxSamples)},
    {"data.synthetic.test_samples", 0, From(0, kMaxSamples)},
    {"data.synthetic.seed", 0, From(0, 4294967295.0)},
    {"data.synthetic.sections.height", kRequired, From(1, 1 << 14)},
    {"data.synthetic.sections.width", kRequired, From(1, 1 << 14)},
    {"data.classes", kUnset, From(2, 1 << 24)},
    {"data.resize.height", kRequired, From(1, 1 << 13)},
    {"data.resize.width", kRequired, From(1, 1 << 13)},
    {"data.compute_standardisation", 0, From(0, 1)},
    {"data.per_channel", 0, From(0, 1)},
    {"data.sharding", proto::Data::GLOBAL, From(0, proto::Data::Sharding_MAX)},
    {"data.shuffle.blocks.samples", 1024, From(1, kMaxSamples)},
    {"data.shuffle.blocks.window", 8, From(1, 1 << 20)},
    {"data.loader_threads", kUnset, From(0, 64)},
    {"data.image_folder.channels", kUnset, From(1, 3)},
    {"data.csv.label_column", -1, From(-(1 << 24), 1 << 24)},
    {"data.csv.targets", kUnset, From(1, 1 << 20)},
    {"data.csv.bytes", 0, From(0, 1)},
    {"data.csv.header_lines", kUnset, From(0, 1000)},
    {"data.augment.random_crop.pad", kRequired, From(1, 1 << 12)},
    {"data.augment.flip_horizontal", 0, From(0, 1)},
    {"data.augment.cutout.size", kRequired, From(1, 1 << 12)},
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
    {"optimizer.lars.momentum", 0.9, kBelowOne},
    {"optimizer.lars.nesterov", 0, From(0, 1)},
    {"optimizer.lars.trust", 0.001, Above(0, kMaxRate)},
    {"optimizer.lars.epsilon", 1e-8, kEpsilon},
    {"optimizer.lamb.beta_1", 0.9, kBelowOne},
    {"optimizer.lamb.beta_2", 0.999, kBelowOne},
    {"optimizer.lamb.epsilon", 1e-6, kEpsilon},
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
    {"elastic.min_workers", kUnset, From(1, kMaxWorkers)},
    {"elastic.on_loss", kUnset, From(0, proto::Elastic::OnLoss_MAX)},
    {"elastic.wait_seconds", 60, Above(0, kMaxSeconds)},
    {"global_batch_size", kUnset, From(1, kMaxWorkers* kMaxBatchPerWorker)},
    {"batch_size_per_worker", kUnset, From(1, kMaxBatchPerWorker)},
    {"micro_batches", 1, From(1, kMaxBatchPerWorker)},
    {"evaluate_each_epoch", 1, From(0, 1)},
    {"device.kind", proto::Device::CPU, From(0, proto::Device::Kind_MAX)},
    {"device.precision", proto::Device::FP32, From(0, proto::Device::Precision_MAX)},
    {"device.tf32", 0, From(0, 1)},
    {"device.threads_per_rank", 1, From(1, 1024)},
    {"device.recompute", 0, From(0, 1)},
    {"strategy.mirrored.gradients", proto::Device::FP32, From(0, proto::Device::Precision_MAX)},
    {"strategy.mirrored.synchronised_batch_normalisation", 0, From(0, 1)},
    {"strategy.parameter_server.servers", 1, From(1, 1024)},
    {"strategy.parameter_server.replicas", 1, From(1, 2)},
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
    {"price_per_hour", 0, From(0, 1e9)},
    {"timeouts.start", 60, Above(0, kMaxSeconds)},
    {"timeouts.silence", 10, From(1, kMaxSeconds)},
    {"timeouts.worker_silence", kUnset, From(1, kMaxSeconds)},
    {"timeouts.step", 30, Above(0, kMaxSeconds)},
    {"timeouts.shutdown", 3, Above(0, kMaxSeconds)},
    {"tuning.prefetch_batches", kUnset, From(0, 64)},
    {"tuning.bucket_bytes", kUnset, From(64, kMaxMessageBytes)},
    {"tuning.transport", proto::Tuning::AUTOMATIC, From(0, proto::Tuning::Transport_MAX)},
    {"tuning.message_bytes", kUnset, From(64, kMaxMessageBytes)},
    {"tuning.partitioner.min_size.min_shard_bytes", 256 * 1024, From(1, kMaxBytes)},
    {"tuning.partitioner.min_size.max_shards", kUnset, From(1, 1 << 24)},
    {"tuning.partitioner.fixed.shards", kRequired, From(1, 1 << 24)},
    {"tuning.partitioner.max_size.max_shard_bytes", kRequired, From(1, kMaxBytes)},
    {"tuning.partitioner.max_size.max_shards", 0, From(0, 1 << 24)},
    {"tuning.graph", 1, From(0, 1)},
    {"tuning.resources.interval_seconds", 1, From(0, 3600)},
};

// The part of an error message that says which values the field may have: the bounds, or the names of an
// enumeration.
std::string DemandOf(const NumberRule& rule, const FieldDescriptor& field) {
  if (field.enum_type() == nullptr) return rule.bounds.Text();
  std::vector<std::string> names;
  for (int i = 0; i < field.enum_type()->value_count(); ++i) {
    const google::protobuf::EnumValueDescriptor& value = *field.enum_type()->value(i);
    if (rule.bounds.Contain(value.number())) names.emplace_back(value.name());
  }
  return absl::StrCat("must be one of ", absl::StrJoin(names, ", "));
}

void Apply(absl::string_view path, const NumberRule& rule, proto::Job& job, Problems& problems) {
  ForEachField(path, job, [&](Message& holder, const FieldDescriptor& field, const std::string& at) {
    if (!holder.GetReflection()->HasField(holder, &field)) {
      problems.AddIf(std::isnan(rule.default_value), at, absl::StrCat("is missing: ", DemandOf(rule, field)));
      if (std::isfinite(rule.default_value)) SetNumber(rule.default_value, field, holder);
      return;
    }
    const double value = GetNumber(holder, field);
    problems.AddIf(!rule.bounds.Contain(value), at,
                   absl::StrFormat("is %.15g: %s", value, rule.bounds.Text()));
  });
}

}  // namespace

void ApplyNumberRules(proto::Job& job, Problems& problems) {
  ForEachLayerNumber([&](const std::string& path, const NumberRule& rule) {
    Apply(absl::StrCat("model.layer.", path), rule, job, problems);
  });
  for (const NumberRule& rule : kRules) Apply(rule.field, rule, job, problems);
}

}  // namespace tethys
