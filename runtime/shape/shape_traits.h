// The table of strategies: one row for each family. A row says how batches reach the workers, from which
// gradients an update is made, for which other workers a worker waits, and with which words messages describe
// the strategy. Code that depends on a strategy reads a trait, not the family, so that a new strategy is a
// new row. Pure; any thread.
#ifndef TETHYS_RUNTIME_SHAPE_SHAPE_TRAITS_H_
#define TETHYS_RUNTIME_SHAPE_SHAPE_TRAITS_H_

#include <cstddef>

#include "absl/types/span.h"
#include "proto/job.pb.h"

namespace tethys {

// A family is a set of strategies that differ only in their parameters. `tethys compare` runs the families in
// this order.
enum class StrategyFamily {
  kLocal,
  kMirrored,
  kBulkSynchronous,
  kStaleSynchronous,
  kAsynchronous,
  kUnknown,  // A family whose name this version does not know, such as one in a file of a later version.
};

// How workers get their batches.
enum class Batches {
  kInStep,  // Every worker computes its part of each global batch by itself.
  // The chief leases batches in rounds; a round has one batch for every worker, and the batches of a round
  // form a global batch.
  kInRounds,
  kOnDemand,  // The chief leases the next batch to the next worker that requests one.
};

// The gradients from which an update of the parameters is made.
enum class UpdateUnit {
  kStep,  // All gradients of one step, divided by the samples of its global batch.
  // The update takes all pushes of a step that are pending at the same time, or one push alone, depending on
  // GradientScale (job_shape.h).
  kPushes,
  kPush,  // Each push makes an update of its own.
};

// The other workers for whose gradients a worker waits at the end of a step.
enum class WaitsFor {
  kNone,
  kSlow,  // The workers that are more than `bound` steps behind.
  kAll,
};

struct ShapeTraits {
  StrategyFamily family = StrategyFamily::kUnknown;
  // ---- in a job file
  proto::Strategy::KindCase kind = proto::Strategy::KIND_NOT_SET;
  // Not set: the family has no servers.
  proto::ParameterServer::ConsistencyCase consistency = proto::ParameterServer::CONSISTENCY_NOT_SET;
  // Steps that a worker may be ahead of the slowest worker. Null: the family has no bound.
  int (*bound)(const proto::ParameterServer& servers) = nullptr;
  // How servers scale a pushed gradient. Null: an update is divided by the samples of its step.
  proto::Asynchronous::GradientScale (*scale)(const proto::ParameterServer& servers) = nullptr;
  // ---- behaviour
  bool exchanges = false;  // Workers exchange gradients.
  Batches batches = Batches::kInStep;
  UpdateUnit update = UpdateUnit::kStep;
  WaitsFor waits_for = WaitsFor::kNone;
  // Workers can form a new group when one of them is lost or replaced (FormsNewGroups in job_shape.h).
  bool forms_groups = false;
  // True if updates equal the updates of the local job, except for rounding. All strategies with this
  // property should need the same number of epochs to reach an accuracy, so these numbers may be compared.
  bool lock_step = false;
  // ---- words
  const char* name = "";    // Name in flags and files; see StrategyName.
  const char* worker = "";  // The noun after a count: "mirrored worker" in "3 mirrored workers".
  // How workers train with servers: "in lock step" in "3 workers in lock step with 1 server".
  const char* together = "";
  // Explains the strategy to readers who do not know its name: a sentence or, for a strategy with servers,
  // the end of a sentence (deploy/shape_words.h).
  const char* manner = "";

  // True if servers keep the parameters and slots.
  bool servers() const { return consistency != proto::ParameterServer::CONSISTENCY_NOT_SET; }
  // True: the chief leases batches, and leases the batches of a lost worker again. False: after the loss of a
  // worker the remaining workers form a new group (FormsNewGroups), or the job ends.
  bool leases() const { return batches != Batches::kInStep; }
  // True if all servers make an update from the same pushes, so that a norm over all servers is the norm of
  // the update.
  bool servers_agree() const { return servers() && update == UpdateUnit::kStep; }
  // True if a server answers each part of a push once all workers have sent that part. False: a server
  // answers once it has received the whole push. The size and number of in-flight messages depend on this
  // (ps/message_plan.h).
  bool answers_parts() const { return servers_agree(); }
};

inline constexpr ShapeTraits kShapeTraits[] = {
    {.family = StrategyFamily::kLocal,
     .kind = proto::Strategy::kLocal,
     .lock_step = true,
     .name = "local",
     .worker = "worker"},
    {.family = StrategyFamily::kMirrored,
     .kind = proto::Strategy::kMirrored,
     .exchanges = true,
     .waits_for = WaitsFor::kAll,
     .forms_groups = true,
     .lock_step = true,
     .name = "mirrored",
     .worker = "mirrored worker",
     .manner = "Mirrored workers exchange gradients directly, in every step."},
    {.family = StrategyFamily::kBulkSynchronous,
     .kind = proto::Strategy::kParameterServer,
     .consistency = proto::ParameterServer::kBulkSynchronous,
     .exchanges = true,
     .waits_for = WaitsFor::kAll,
     .forms_groups = true,
     .lock_step = true,
     .name = "ps_sync",
     .worker = "worker",
     .together = "in lock step",
     .manner = "in lock step (synchronous)"},
    {.family = StrategyFamily::kStaleSynchronous,
     .kind = proto::Strategy::kParameterServer,
     .consistency = proto::ParameterServer::kStaleSynchronous,
     .bound = [](const proto::ParameterServer& servers) { return servers.stale_synchronous().bound(); },
     .scale =
         [](const proto::ParameterServer& servers) { return servers.stale_synchronous().gradient_scale(); },
     .exchanges = true,
     .batches = Batches::kInRounds,
     .update = UpdateUnit::kPushes,
     .waits_for = WaitsFor::kSlow,
     .name = "ps_stale",
     .worker = "worker",
     .manner = "a few steps apart at most (stale-synchronous)"},
    {.family = StrategyFamily::kAsynchronous,
     .kind = proto::Strategy::kParameterServer,
     .consistency = proto::ParameterServer::kAsynchronous,
     .scale = [](const proto::ParameterServer& servers) { return servers.asynchronous().gradient_scale(); },
     .exchanges = true,
     .batches = Batches::kOnDemand,
     .update = UpdateUnit::kPush,
     .name = "ps_async",
     .worker = "asynchronous worker",
     .manner = "without waiting for one another (asynchronous)"},
    {.family = StrategyFamily::kUnknown, .exchanges = true, .name = "unknown", .worker = "worker"},
};

constexpr bool IsByFamily(absl::Span<const ShapeTraits> table) {
  for (size_t i = 0; i < table.size(); ++i) {
    if (static_cast<size_t>(table[i].family) != i) return false;
  }
  return table.back().family == StrategyFamily::kUnknown;
}
static_assert(IsByFamily(kShapeTraits), "every family needs its row, in the order of the families");

inline const ShapeTraits& TraitsOf(StrategyFamily family) {
  return kShapeTraits[static_cast<size_t>(family)];
}

// All rows except the row of unknown strategies.
inline absl::Span<const ShapeTraits> KnownTraits() {
  return absl::MakeConstSpan(kShapeTraits).first(static_cast<size_t>(StrategyFamily::kUnknown));
}

}  // namespace tethys

#endif  // TETHYS_RUNTIME_SHAPE_SHAPE_TRAITS_H_
