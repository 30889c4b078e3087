// What a parameter store is told about its job, and what it asks for: plain data, and the interface that the
// server around it (parameter_server.cc) implements on its loop thread.
#ifndef TETHYS_PS_STORE_ACTIONS_H_
#define TETHYS_PS_STORE_ACTIONS_H_

#include <cstdint>

#include "proto/chief.pb.h"
#include "runtime/base/status.h"
#include "runtime/tensor/variable.h"

namespace tethys {

// What a server is told about the job, beside its layout.
struct StoreConfig {
  int server = 0;
  int workers = 1;
  uint32_t generation = 0;
  proto::Optimizer optimizer;
  proto::ParameterServer parameter_server;  // Its consistency.
  int64_t global_batch = 0;                 // Samples; divisor of GLOBAL_MEAN, asynchronously.
  int64_t total_samples = 0;                // Of the whole job: what a linear decay without length spans.
};

// "Send worker these parameters as they are now", or, without values, that the push is applied.
struct ParameterReply {
  int worker = 0;
  uint64_t sequence = 0;  // Of the push or pull it answers.
  uint64_t step = 0;
  Range arena;
  Range local;
  int64_t version = 0;
  int64_t staleness = 0;  // Of the push it answers.
  bool with_values = true;
};

// What the store asks for, at once and in this order: while a large update is still under way, its first
// parts are on the network.
class StoreActions {
 public:
  virtual ~StoreActions() = default;
  // Comes before any reply that shows the push: what a worker knows to be applied is in the journal's hands.
  virtual void Record(const proto::AppliedPush& push) = 0;
  virtual void Reply(const ParameterReply& reply) = 0;
  // The job cannot go on: gradients that are not finite, a failed update.
  virtual void Fail(const absl::Status& status) = 0;
};

}  // namespace tethys

#endif  // TETHYS_PS_STORE_ACTIONS_H_
