#include "runtime/shape/job_shape.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace tethys {

std::string StrategyName(const JobStrategy& strategy) {
  const char* const name = TraitsOf(strategy.family).name;
  return strategy.bound.has_value() ? absl::StrCat(name, "_", *strategy.bound) : name;
}

std::string StrategyName(const proto::Job& job) { return StrategyName(StrategyOf(job.strategy())); }

JobStrategy ParseStrategy(absl::string_view name) {
  for (const ShapeTraits& traits : KnownTraits()) {
    absl::string_view rest = name;
    if (!absl::ConsumePrefix(&rest, traits.name)) continue;
    if (rest.empty()) return {traits.family, absl::nullopt};
    int bound = 0;
    // The comparison with StrategyName below refuses other spellings of the number, such as "ps_stale_03".
    if (traits.bound == nullptr || !absl::ConsumePrefix(&rest, "_") || !absl::SimpleAtoi(rest, &bound))
      continue;
    const JobStrategy strategy = {traits.family, bound};
    if (bound >= 0 && StrategyName(strategy) == name) return strategy;
  }
  return {StrategyFamily::kUnknown, absl::nullopt};
}

StrategyFamily FamilyOf(const proto::Strategy& strategy) {
  if (strategy.kind_case() == proto::Strategy::KIND_NOT_SET) return StrategyFamily::kLocal;
  if (strategy.kind_case() == proto::Strategy::kParameterServer) return FamilyOf(strategy.parameter_server());
  for (const ShapeTraits& traits : KnownTraits()) {
    if (traits.kind == strategy.kind_case()) return traits.family;
  }
  return StrategyFamily::kUnknown;
}

bool FormsNewGroups(const proto::Job& job) {
  return FormsNewGroups(job, job.device().kind() == proto::Device::CUDA);
}

bool FormsNewGroups(const proto::Job& job, bool all_on_gpus) {
  if (!TraitsOf(job).forms_groups || job.elastic().on_loss() == proto::Elastic::END) return false;
  return TraitsOf(job).servers() || !all_on_gpus || job.elastic().has_on_loss();
}

bool SurvivesWorkerLoss(const proto::Job& job) { return TraitsOf(job).leases() || FormsNewGroups(job); }

void EndAtFirstLoss(proto::Job& job) {
  job.clear_max_restarts();
  if (job.strategy().has_parameter_server()) {
    job.mutable_strategy()->mutable_parameter_server()->clear_replicas();
  }
}

double WorkerSilence(const proto::Job& job) {
  const proto::Timeouts& timeouts = job.timeouts();
  if (timeouts.has_worker_silence()) return std::min(timeouts.worker_silence(), timeouts.silence());
  return job.max_restarts() > 0 ? std::min(1.0, timeouts.silence()) : timeouts.silence();
}

GroupRules GroupRulesOf(const proto::Job& job) {
  const proto::Elastic& elastic = job.elastic();
  // In a sharded job, the order of the samples within an epoch depends on the number of workers, so by
  // default such a job waits until it has all its workers again.
  const bool sharded = job.data().sharding() != proto::Data::GLOBAL;
  const bool waits = elastic.has_on_loss() ? elastic.on_loss() == proto::Elastic::WAIT : sharded;
  GroupRules rules;
  rules.least_workers = waits ? job.workers() : elastic.has_min_workers() ? elastic.min_workers() : 1;
  if (elastic.has_wait_seconds()) rules.wait_seconds = elastic.wait_seconds();
  return rules;
}

StrategyFamily FamilyOf(const proto::ParameterServer& servers) {
  for (const ShapeTraits& traits : KnownTraits()) {
    if (traits.servers() && traits.consistency == servers.consistency_case()) return traits.family;
  }
  return StrategyFamily::kBulkSynchronous;
}

std::string KindName(const ShapeTraits& traits) {
  return std::string(proto::Strategy::descriptor()->FindFieldByNumber(traits.kind)->name());
}

std::string ConsistencyName(const ShapeTraits& traits) {
  return std::string(proto::ParameterServer::descriptor()->FindFieldByNumber(traits.consistency)->name());
}

JobStrategy StrategyOf(const proto::Strategy& strategy) {
  const StrategyFamily family = FamilyOf(strategy);
  const auto bound = TraitsOf(family).bound;
  if (bound == nullptr) return family;
  return {family, bound(strategy.parameter_server())};
}

JobShape ShapeOf(const proto::Job& job) {
  return {StrategyOf(job.strategy()), job.workers(), job.strategy().parameter_server().servers()};
}

absl::optional<proto::Asynchronous::GradientScale> GradientScale(const proto::ParameterServer& servers) {
  const auto scale = TraitsOf(servers).scale;
  if (scale == nullptr) return absl::nullopt;
  return scale(servers);
}

bool UsesPushMean(const proto::ParameterServer& servers) {
  return GradientScale(servers) == proto::Asynchronous::PUSH_MEAN;
}

bool PullsBeforeStep(const proto::ParameterServer& servers) {
  return servers.asynchronous().pull() == proto::Asynchronous::BEFORE_STEP;
}

}  // namespace tethys
