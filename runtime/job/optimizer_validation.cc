#include "runtime/job/optimizer_validation.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_format.h"
#include "runtime/job/job.h"
#include "runtime/shape/job_shape.h"

namespace tethys {
namespace {

constexpr char kEitherLength[] = "is given in samples and in epochs: remove one of the two";

template <class Decay>
void CheckLength(absl::string_view field, const Decay& decay, Problems& problems) {
  problems.AddIf(decay.samples() > 0 && decay.has_epochs(), field, kEitherLength);
}

template <class Values>
void CheckSteps(absl::string_view field, const Values& values, double most, Problems& problems) {
  double last = 0;
  for (int i = 0; i < values.size(); ++i) {
    const auto value = static_cast<double>(values[i]);
    problems.AddIf(!(value > last && value <= most), absl::StrCat(field, "[", i, "]"),
                   absl::StrFormat("is %.15g: must be above %.15g, because steps ascend, and at most %.15g",
                                   value, last, most));
    last = value;
  }
}

void CheckSchedule(const proto::Schedule& schedule, Problems& problems) {
  const std::string path = "optimizer.schedule.";
  const proto::WarmUp& warm_up = schedule.warm_up();
  problems.AddIf(schedule.has_warm_up() && !warm_up.has_samples() && !warm_up.has_epochs(), path + "warm_up",
                 "has no length: give samples or epochs");
  CheckLength(path + "warm_up", warm_up, problems);
  CheckLength(path + "linear_decay", schedule.linear_decay(), problems);
  CheckLength(path + "cosine_decay", schedule.cosine_decay(), problems);
  CheckLength(path + "polynomial_decay", schedule.polynomial_decay(), problems);
  const proto::StepDecay& steps = schedule.step_decay();
  problems.AddIf(schedule.has_step_decay() && steps.samples().empty() && steps.epochs().empty(),
                 path + "step_decay", "has no step: list samples or epochs");
  problems.AddIf(!steps.samples().empty() && !steps.epochs().empty(), path + "step_decay", kEitherLength);
  CheckSteps(path + "step_decay.samples", steps.samples(), kMaxSamplesOfJob, problems);
  CheckSteps(path + "step_decay.epochs", steps.epochs(), kMaxEpochs, problems);
}

// The name of the optimizer in a job file if its steps depend on the norms of whole variables; otherwise
// empty.
absl::string_view TrustRatioKind(const proto::Optimizer& optimizer) {
  return optimizer.has_lars() ? "lars" : optimizer.has_lamb() ? "lamb" : "";
}

}  // namespace

void ResolveOptimizer(proto::Optimizer& optimizer, Problems& problems) {
  problems.AddIf(optimizer.kind_case() == proto::Optimizer::KIND_NOT_SET, "optimizer",
                 "has no kind: write sgd {}, adam {}, rmsprop {}, adagrad {}, lars {} or lamb {}");
  problems.AddIf(optimizer.decoupled_weight_decay() && optimizer.weight_decay() == 0,
                 "optimizer.decoupled_weight_decay",
                 "is true, but optimizer.weight_decay is 0: give a weight decay, such as 0.01");
  problems.AddIf(optimizer.sgd().nesterov() && optimizer.sgd().momentum() == 0, "optimizer.sgd.nesterov",
                 "is true, but optimizer.sgd.momentum is 0: give a momentum, such as 0.9");
  problems.AddIf(optimizer.lars().nesterov() && optimizer.lars().momentum() == 0, "optimizer.lars.nesterov",
                 "is true, but optimizer.lars.momentum is 0: give a momentum, such as 0.9");
  problems.AddIf(
      optimizer.decoupled_weight_decay() && !TrustRatioKind(optimizer).empty(),
      "optimizer.decoupled_weight_decay",
      absl::StrCat("is true, but the trust ratio of ", TrustRatioKind(optimizer),
                   " scales the whole step, weight decay included: leave decoupled_weight_decay out"));
  CheckSchedule(optimizer.schedule(), problems);
  if (optimizer.no_weight_decay().empty()) {
    for (const char* part : {"/bias", "/scale", "/offset"}) optimizer.add_no_weight_decay(part);
  }
  for (int i = 0; i < optimizer.no_weight_decay_size(); ++i) {
    // '/' separates the name of a layer from the name of its variable.
    std::string name = optimizer.no_weight_decay(i);
    name.erase(std::remove(name.begin(), name.end(), '/'), name.end());
    problems.AddIf(!IsName(name), absl::StrCat("optimizer.no_weight_decay[", i, "]"),
                   "cannot be part of a variable's name");
  }
}

void CheckOptimizer(const proto::Job& job, Problems& problems) {
  const ShapeTraits& traits = TraitsOf(job);
  const bool some_pushes = traits.update == UpdateUnit::kPushes;
  const bool added = some_pushes && !UsesPushMean(job.strategy().parameter_server());
  problems.AddIf(job.optimizer().has_clip() && added, "optimizer.clip",
                 "needs the norm of an update's gradients, but each stale-synchronous server adds the pushes "
                 "that it has received, and these differ between servers: leave clip out, or write "
                 "stale_synchronous { gradient_scale: PUSH_MEAN }, bulk_synchronous {} or asynchronous {}");
  problems.AddIf(job.optimizer().has_adam() && some_pushes, "optimizer.adam",
                 "counts updates, but the checkpoints of stale-synchronous jobs count global batches: write "
                 "bulk_synchronous {} or asynchronous {}, or another optimizer");
  const absl::string_view trust_ratio_kind = TrustRatioKind(job.optimizer());
  problems.AddIf(!trust_ratio_kind.empty() && traits.servers() && !traits.servers_agree(),
                 absl::StrCat("optimizer.", trust_ratio_kind),
                 "needs the norms of whole variables, but each server of this strategy updates its own parts "
                 "by itself: write bulk_synchronous {} or strategy { mirrored {} }, or another optimizer");
  const double peak = job.optimizer().learning_rate() *
                      (job.optimizer().scale_with_workers() ? static_cast<double>(job.workers()) : 1);
  problems.AddIf(
      job.optimizer().decoupled_weight_decay() && peak * job.optimizer().weight_decay() >= 1,
      "optimizer.weight_decay",
      absl::StrFormat("is %g, and its product with the learning rate of %g is 1 or more: an update would "
                      "leave nothing of the parameters; lower one of the two",
                      job.optimizer().weight_decay(), peak));
}

}  // namespace tethys
