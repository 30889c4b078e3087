// Trains a TestReplica by calls of its Strategy (runtime/strategy.h), without loader and pipeline.
#ifndef TETHYS_TESTS_WORKERS_STEPS_BY_HAND_H_
#define TETHYS_TESTS_WORKERS_STEPS_BY_HAND_H_

#include <memory>
#include <utility>

#include "tests/runtime/nn/network_fixture.h"
#include "tests/workers/replica.h"

namespace tethys {

constexpr int kSteps = 6;

inline absl::Status StepByHand(TestReplica& replica, int64_t step, const HostBatch& batch, Event& done) {
  Strategy& strategy = *replica.replica().strategy();
  const StepInfo info{.step = step, .sample_count = kRows, .global_sample_count = kRows * replica.world()};
  TETHYS_RETURN_IF_ERROR(strategy.BeginStep(info));
  TETHYS_RETURN_IF_ERROR(replica.plan().Forward(batch));
  TETHYS_RETURN_IF_ERROR(replica.plan().Backward(
      [&](int64_t index, const Event& event) { return strategy.GradientReady(index, event); }));
  TETHYS_RETURN_IF_ERROR(strategy.EnqueueEnd(info.parity));
  TETHYS_RETURN_IF_ERROR(done.Record(replica.stream()));
  return strategy.AwaitEnd(info, done).status();
}

// Makes kSteps steps on random batches; each step ends before the next begins.
inline absl::Status TrainByHand(TestReplica& replica, std::unique_ptr<Strategy> strategy) {
  const Model& model = replica.model();
  BatchBuffer samples(kRows, model.sample_elements());
  TETHYS_ASSIGN_OR_RETURN(const std::unique_ptr<Event> done, replica.device().CreateEvent());
  TETHYS_RETURN_IF_ERROR(replica.replica().Attach(std::move(strategy)));
  absl::Status trained;
  for (int64_t step = 0; step < kSteps && trained.ok(); ++step) {
    const HostBatch batch = samples.batch();
    FillRandom(batch, model.sample_elements(), model.classes(), step * replica.world() + replica.rank());
    trained = StepByHand(replica, step, batch, *done);
  }
  replica.replica().Detach();
  return trained;
}

}  // namespace tethys

#endif  // TETHYS_TESTS_WORKERS_STEPS_BY_HAND_H_
