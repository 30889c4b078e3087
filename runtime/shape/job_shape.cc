#include "runtime/shape/job_shape.h"

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
    // The whole name is compared below, because a number can be written in several ways: "ps_stale_03" is no
    // name.
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

namespace {

bool FormsNewGroups(const JobStrategy& strategy, const proto::Job& job) {
  return TraitsOf(strategy).forms_groups && job.device().kind() == proto::Device::CPU &&
         job.elastic().on_loss() != proto::Elastic::END;
}

}  // namespace

bool FormsNewGroups(const proto::Job& job) {
  return FormsNewGroups(JobStrategy(FamilyOf(job.strategy())), job);
}

bool SurvivesWorkerLoss(const JobStrategy& strategy, const proto::Job& job) {
  return TraitsOf(strategy).leases() || FormsNewGroups(strategy, job);
}

bool SurvivesWorkerLoss(const proto::Job& job) {
  return SurvivesWorkerLoss(JobStrategy(FamilyOf(job.strategy())), job);
}

GroupRules GroupRulesOf(const proto::Job& job) {
  const proto::Elastic& elastic = job.elastic();
  // Within an epoch, the order of a sharded job belongs to its number of workers.
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
