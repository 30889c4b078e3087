// A job for benchmarks of parameter servers, which only exchanges gradients and parameters: it has one
// variable of a given size, and no model, data or chief. One process starts a server of the job, and another
// process exchanges with the servers as a worker does.
#ifndef TETHYS_TESTS_BENCH_EXCHANGE_FIXTURE_H_
#define TETHYS_TESTS_BENCH_EXCHANGE_FIXTURE_H_

#include <memory>
#include <string>
#include <vector>

#include "ps/parameter_server.h"
#include "ps/parameter_server_strategy.h"
#include "runtime/tensor/arena.h"

namespace tethys {

struct ExchangeOptions {
  int workers = 1;
  int servers = 1;
  int shards = 0;             // Number of equal shards of the variable; 0: one per server.
  int64_t bytes = 1 << 20;    // Bytes of parameters; a multiple of 2 KiB.
  int64_t message_bytes = 0;  // The size of a message; 0: the default size.
  bool asynchronous = false;
  bool pull_before_step = false;  // The workers also pull before each step, which makes the job asynchronous.
  bool momentum = false;          // The optimizer has a slot.
  bool keeps_undo = false;        // Bulk-synchronous servers can undo a step.
  bool checksums = false;
  JobToken token;
  const JobAuthority* authority = nullptr;  // Null: the exchange does not use TLS.
};

class ExchangeFixture {
 public:
  explicit ExchangeFixture(const ExchangeOptions& options);

  // Starts a server, which serves until it is destroyed. `clock` must outlive the server.
  std::unique_ptr<ParameterServer> StartServer(const std::string& bind_address, int index,
                                               const Clock& clock) const;

  // Absent if the options have no authority.
  absl::optional<TlsIdentity> Identity(proto::Role role, int index) const;
  const ExchangeOptions& options() const { return options_; }
  const proto::JobPlan& plan() const { return plan_; }

 private:
  const ExchangeOptions options_;
  proto::JobPlan plan_;
};

// A worker whose gradients are all ready at once.
class PushPull {
 public:
  PushPull(const ExchangeFixture& fixture, int worker, std::vector<ServerAddress> servers,
           const Clock& clock);
  // Pushes all gradients and blocks until the new parameters have arrived.
  void Exchange();

 private:
  Arena parameters_;
  Arena gradients_;
  std::unique_ptr<Strategy> strategy_;
  int64_t step_ = 0;
};

}  // namespace tethys

#endif  // TETHYS_TESTS_BENCH_EXCHANGE_FIXTURE_H_
