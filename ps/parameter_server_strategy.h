// Training with parameter servers, as the training step sees it. Gradients are pushed to the servers that
// hold their ranges as soon as the gradients are ready. The servers update the parameters and answer each
// push with the new values.
//
// Only EnqueueEnd reads the answers: it waits for all of them and copies them to the parameter arena. If the
// job pulls before each step (Asynchronous.pull is BEFORE_STEP), the answer to a push has no parameters. The
// first step of asynchronous and stale-synchronous training always begins with a pull. Gradients are sent
// from the gradient arena in host memory, without a copy, in messages of about message_bytes
// (message_plan.h).
//
// If the update of bulk-synchronous servers depends on norms (clipping, LARS, LAMB), EnqueueEnd exchanges the
// norms before it waits for parameters (parameter_store_norms.cc). This takes one more round trip a step, or
// two if the update depends on both clipping and trust ratios.
#ifndef TETHYS_PS_PARAMETER_SERVER_STRATEGY_H_
#define TETHYS_PS_PARAMETER_SERVER_STRATEGY_H_

#include <memory>
#include <vector>

#include "proto/plan.pb.h"
#include "ps/parameter_client.h"
#include "ps/server_moves.h"
#include "runtime/base/interruption.h"
#include "runtime/strategy.h"

namespace tethys {

struct ParameterServerStrategyOptions {
  proto::JobPlan plan;
  int worker = 0;   // Index of the worker that uses the strategy.
  int rank = 0;     // In lock step, the worker's rank in its group; otherwise its index.
  int workers = 1;  // Number of workers in the group.
  uint32_t incarnation = 0;
  uint32_t generation = 0;
  std::vector<ServerAddress> servers;  // Indexed by server.
  JobToken token;
  absl::optional<TlsIdentity> tls = {};  // This worker's identity; absent: no TLS.
  // For tests: adds checksums to payloads over loopback. Without TLS, all other payloads always have
  // checksums.
  bool checksums_on_loopback = false;
  const Clock* clock = nullptr;  // Must outlive the strategy.
  // The time until which Prepare waits for servers; 0: Prepare waits as long as a step does (timeouts.step).
  Nanoseconds start_deadline = 0;
  PeersCompute peers_compute = nullptr;  // Null if servers answer without waiting for other workers.
  // Interrupts the strategy from its creation on. Must outlive the strategy. Null: only the method
  // Strategy::Interrupt interrupts the strategy.
  Interruption* interruption = nullptr;
  // Redirects the strategy to servers that have replaced lost ones. Must outlive the strategy. Null: no
  // server is replaced while this strategy lives.
  ServerMoves* moves = nullptr;
};

// Starts connecting and returns; Prepare waits for the connections. InvalidArgument: plan and options name
// different numbers of servers.
absl::StatusOr<std::unique_ptr<Strategy>> CreateParameterServerStrategy(
    ParameterServerStrategyOptions options);

}  // namespace tethys

#endif  // TETHYS_PS_PARAMETER_SERVER_STRATEGY_H_
