// Training with parameter servers, as the training step sees it. Gradients are pushed to the servers that
// hold their ranges as soon as they are ready, updates happen there, and the answer to a push is the new
// parameters.
//
// Answers are held until EnqueueEnd, which waits for all of them and copies them to the parameter arena.
// If the job says so, the answer to an asynchronous push has no parameters, and each step begins with a pull
// instead. Asynchronously and stale-synchronously the first step always begins with a pull. Gradients are
// sent from the live arena, host memory, in messages of about message_bytes: runs of one server's shards,
// closed in ready order.
#ifndef TETHYS_PS_PARAMETER_SERVER_STRATEGY_H_
#define TETHYS_PS_PARAMETER_SERVER_STRATEGY_H_

#include <memory>
#include <vector>

#include "proto/plan.pb.h"
#include "ps/parameter_client.h"
#include "runtime/strategy.h"

namespace tethys {

struct ParameterServerStrategyOptions {
  proto::JobPlan plan;
  int worker = 0;
  uint32_t incarnation = 0;
  uint32_t generation = 0;
  std::vector<ServerAddress> servers;  // Indexed by server.
  JobToken token;
  absl::optional<TlsIdentity> tls = {};  // This worker's.
  // Adds checksums to payloads that do not leave the machine, for tests. Other payloads on streams without
  // TLS always have them.
  bool checksums_on_loopback = false;
  const Clock* clock = nullptr;          // Outlives the strategy.
  PeersCompute peers_compute = nullptr;  // Absent where no answer waits for another worker.
};

// Begins to connect and returns; Prepare waits. InvalidArgument: plan and servers do not fit.
absl::StatusOr<std::unique_ptr<Strategy>> CreateParameterServerStrategy(
    ParameterServerStrategyOptions options);

}  // namespace tethys

#endif  // TETHYS_PS_PARAMETER_SERVER_STRATEGY_H_
