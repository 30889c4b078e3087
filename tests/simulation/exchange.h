// How a simulated worker exchanges gradients: the part of a Strategy (runtime/strategy.h). Each call ends by
// calling `then`, at once or later.
#ifndef TETHYS_TESTS_SIMULATION_EXCHANGE_H_
#define TETHYS_TESTS_SIMULATION_EXCHANGE_H_

#include <functional>
#include <memory>
#include <vector>

#include "runtime/base/status.h"
#include "tests/simulation/simulated_job.h"

namespace tethys::simulation {

class SimulatedWorker;

struct Step {
  int64_t number = 0;  // As the segment course numbers it.
  int64_t epoch = 0;
  int64_t sample_begin = 0, samples = 0, global_samples = 0;
  int64_t schedule_position = 0;
};

class Exchange {
 public:
  using Then = std::function<void(const absl::Status&)>;
  virtual ~Exchange() = default;

  // Connects to the others.
  virtual void Prepare(Then then) = 0;
  // Brings the parameters of the step, where the strategy says so.
  virtual void BeginStep(const Step&, Then then) { then(absl::OkStatus()); }
  // Exchanges the step's gradient and updates parameters.
  virtual void EndStep(const Step& step, const std::vector<float>& gradient, Then then) = 0;
  // At a barrier: brings all updates of all workers.
  virtual void Refresh(Then then) { then(absl::OkStatus()); }
};

// The exchange of the job's kind. `worker` and `values`, its parameters and slots, outlive it.
std::unique_ptr<Exchange> CreateExchange(SimulatedWorker& worker, Values& values);
// For kinds with servers (server_exchange.cc).
std::unique_ptr<Exchange> CreateServerExchange(SimulatedWorker& worker, Values& values);

}  // namespace tethys::simulation

#endif  // TETHYS_TESTS_SIMULATION_EXCHANGE_H_
