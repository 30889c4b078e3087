// The job of a run, drawn from its seed, and the arithmetic of its model.
//
// All values are small integers, so float sums are exact and do not depend on their order:
//
//   in lock step   a sample's gradient depends on sample, element and parameter. An update changes a slot
//                  like momentum, so parameters depend on every step, on the order of the steps, and on the
//                  divisor of the sum.
//   with leases    (stale-synchronous and asynchronous jobs) a gradient depends on sample and element only,
//                  and an update adds it. So the final parameters are the sum over the samples used, in
//                  whatever order servers applied them.
//
// The values of the parameters after given steps or samples can therefore be computed independently.
#ifndef TETHYS_TESTS_SIMULATION_SIMULATED_JOB_H_
#define TETHYS_TESTS_SIMULATION_SIMULATED_JOB_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "proto/plan.pb.h"
#include "runtime/optim/optimizer.h"
#include "tests/simulation/event_queue.h"

namespace tethys::simulation {

// kCopied: bulk-synchronous, and servers have copies (replicas: 2); kCopiedStale and kCopiedAsync: the same
// for stale-synchronous and asynchronous jobs.
enum class Kind { kLocal, kMirrored, kBulk, kCopied, kStale, kAsync, kCopiedStale, kCopiedAsync };
inline constexpr const char* kKindNames[] = {"local", "mirrored", "bulk",         "copied",
                                             "stale", "async",    "copied_stale", "copied_async"};
inline bool IsBulk(Kind kind) { return kind == Kind::kBulk || kind == Kind::kCopied; }
inline bool IsCopied(Kind kind) {
  return kind == Kind::kCopied || kind == Kind::kCopiedStale || kind == Kind::kCopiedAsync;
}
absl::optional<Kind> ParseKind(absl::string_view name);

proto::JobPlan DrawPlan(Kind kind, Random& random);
// Draws other numbers of workers and servers for the plan, as a resumed job may have. The global batch stays
// the same.
void DrawTasks(Kind kind, Random& random, proto::JobPlan& plan);

// Parameters and the optimizer's slot, over the whole arena. Padding is 0.
struct Values {
  std::vector<float> parameters;
  std::vector<float> slot;
  bool operator==(const Values&) const = default;
};

class SmallModel {
 public:
  explicit SmallModel(const proto::JobPlan& plan);

  int64_t arena_size() const { return arena_size_; }
  // The positions of parameters in the arena, without padding.
  const std::vector<int64_t>& elements() const { return elements_; }
  Values Initial() const;
  // The sum of the gradients of samples [begin, begin + count) of the job.
  std::vector<float> Gradient(const std::vector<float>& parameters, int64_t begin, int64_t count) const;
  // Updates one element.
  void Update(float& parameter, float& slot, float sum, int64_t divisor) const;
  void Update(Values& values, const std::vector<float>& sums, int64_t divisor) const;

  // In lock step: the values after `steps` steps of the job on one worker.
  const Values& AfterSteps(int64_t steps);
  // In lock step: the number of steps before a position of an epoch.
  int64_t StepsAt(int64_t epoch, int64_t position) const;

 private:
  const bool lock_step_;
  const int64_t global_batch_, epoch_samples_, epoch_length_;
  int64_t arena_size_ = 0;
  std::vector<int64_t> elements_;
  std::vector<Values> serial_;  // The values that AfterSteps has computed, by number of steps.
};

// The optimizer of a simulated server: SmallModel::Update over the server's shards. `model` must outlive the
// optimizer.
std::unique_ptr<Optimizer> CreateExactOptimizer(const SmallModel& model, std::vector<Range> regions);

}  // namespace tethys::simulation

#endif  // TETHYS_TESTS_SIMULATION_SIMULATED_JOB_H_
