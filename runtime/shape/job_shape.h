// The shape of a job as a value: its strategy, with the consistency of its parameter servers and that
// consistency's parameters, and its numbers of workers and servers. Only this file reads a strategy from a
// job or from a name, and only this file gives strategies their names. The properties that follow from a
// strategy are a row of the table in shape_traits.h. Pure; any thread.
#ifndef TETHYS_RUNTIME_SHAPE_JOB_SHAPE_H_
#define TETHYS_RUNTIME_SHAPE_JOB_SHAPE_H_

#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "proto/job.pb.h"
#include "runtime/shape/shape_traits.h"

namespace tethys {

struct JobStrategy {
  JobStrategy() = default;
  JobStrategy(StrategyFamily family, absl::optional<int> bound = absl::nullopt)  // NOLINT: implicit.
      : family(family), bound(bound) {}

  StrategyFamily family = StrategyFamily::kLocal;
  // Steps that a worker may be ahead of the slowest worker, if the family is bounded. nullopt: take the bound
  // of the job file to which the strategy is applied.
  absl::optional<int> bound;
  friend bool operator==(const JobStrategy&, const JobStrategy&) = default;
  friend bool operator<(const JobStrategy& a, const JobStrategy& b) {
    return a.family != b.family ? a.family < b.family : a.bound < b.bound;
  }
};

struct JobShape {
  JobStrategy strategy;
  int workers = 1;
  int servers = 0;
  friend bool operator==(const JobShape&, const JobShape&) = default;
};

// ---- from and to names

// "local", "mirrored", "ps_sync", "ps_async", and "ps_stale_3" with the bound 3, or "ps_stale" without a
// bound. Files store strategies under these names. Unknown strategies have the name "unknown".
std::string StrategyName(const JobStrategy& strategy);
// The name of the job's strategy.
std::string StrategyName(const proto::Job& job);

// The strategy for which StrategyName returns `name`; kUnknown if there is none.
JobStrategy ParseStrategy(absl::string_view name);

// ---- from a job

// A job without a strategy is local, and servers without a consistency are bulk-synchronous, as in ResolveJob
// (runtime/job/job_validation.h).
StrategyFamily FamilyOf(const proto::Strategy& strategy);
StrategyFamily FamilyOf(const proto::ParameterServer& servers);

inline const ShapeTraits& TraitsOf(const JobStrategy& strategy) { return TraitsOf(strategy.family); }
inline const ShapeTraits& TraitsOf(const proto::Job& job) { return TraitsOf(FamilyOf(job.strategy())); }
inline const ShapeTraits& TraitsOf(const proto::ParameterServer& servers) {
  return TraitsOf(FamilyOf(servers));
}

// Whether the workers of the job form a new group when one of them is lost or replaced: in mirrored and
// bulk-synchronous jobs, unless elastic.on_loss is END. Mirrored workers that are all on GPUs do so only if
// the job has elastic.on_loss, because no machine with several GPUs has tried it (docs/gpu.md).
// `all_on_gpus` considers the devices that a host file gives to the workers; the first function only
// considers the job's device.
bool FormsNewGroups(const proto::Job& job);
bool FormsNewGroups(const proto::Job& job, bool all_on_gpus);
// Whether the job goes on after the loss of a worker, once training has begun.
bool SurvivesWorkerLoss(const proto::Job& job);

// Lets the job end at the first loss of a process, for brief runs whose times are measured.
void EndAtFirstLoss(proto::Job& job);

// The time in seconds after which a silent worker counts as lost, if the job survives the loss
// (proto::Timeouts.worker_silence). The same time holds for servers whose shards have copies.
double WorkerSilence(const proto::Job& job);

// The rules of proto::Elastic, with their defaults, for a job that forms new groups.
struct GroupRules {
  int least_workers = 1;     // A group has at least this many workers.
  double wait_seconds = 60;  // How long training waits for `least_workers` workers.
};
GroupRules GroupRulesOf(const proto::Job& job);

// The names of the strategy's fields in a job file: the field of Strategy.kind, and the field of
// ParameterServer.consistency.
std::string KindName(const ShapeTraits& traits);
std::string ConsistencyName(const ShapeTraits& traits);

// Returns the strategy with the bound that the job file gives, or with the bound 0 if the file gives none,
// which does not happen in a resolved job.
JobStrategy StrategyOf(const proto::Strategy& strategy);

JobShape ShapeOf(const proto::Job& job);

// How servers scale a pushed gradient; nullopt if gradients are always divided by the samples of their step.
absl::optional<proto::Asynchronous::GradientScale> GradientScale(const proto::ParameterServer& servers);

// Whether an update divides each push by the push's own samples.
bool UsesPushMean(const proto::ParameterServer& servers);

// Whether each step begins with a pull of the parameters, so that the answers to pushes contain no
// parameters.
bool PullsBeforeStep(const proto::ParameterServer& servers);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_SHAPE_JOB_SHAPE_H_
