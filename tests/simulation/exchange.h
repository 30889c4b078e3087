// The exchange of gradients of a simulated worker, in place of a Strategy (runtime/strategy.h). Each call
// ends by calling `then`, at once or later.
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
  int64_t number = 0;  // The number that SegmentCourse gives the step.
  int64_t epoch = 0;
  int64_t sample_begin = 0, samples = 0, global_samples = 0;
  int64_t schedule_position = 0;
};

class Exchange {
 public:
  using Then = std::function<void(const absl::Status&)>;
  virtual ~Exchange() = default;

  // Connects to the other workers or to the servers.
  virtual void Prepare(Then then) = 0;
  // Fetches the parameters of the step, if the strategy pulls before this step.
  virtual void BeginStep(const Step&, Then then) { then(absl::OkStatus()); }
  // Exchanges the step's gradient and updates parameters.
  virtual void EndStep(const Step& step, const std::vector<float>& gradient, Then then) = 0;
  // Called when the group is halted. A pending call soon ends with an error, and no update is applied any
  // more.
  virtual void Interrupt() {}
  // Called when a server was replaced. The exchange goes on with the new server.
  virtual void Redirect() {}
  // Called at a barrier. Fetches parameters that include all updates of all workers.
  virtual void Refresh(Then then) { then(absl::OkStatus()); }
};

// Creates the exchange for the kind of the worker's job. `worker`, and `values` with the worker's parameters
// and slots, must outlive the exchange.
std::unique_ptr<Exchange> CreateExchange(SimulatedWorker& worker, Values& values);
// Creates the exchange of jobs with servers (server_exchange.cc).
std::unique_ptr<Exchange> CreateServerExchange(SimulatedWorker& worker, Values& values);

}  // namespace tethys::simulation

#endif  // TETHYS_TESTS_SIMULATION_EXCHANGE_H_
