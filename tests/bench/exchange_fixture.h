// A job that only exchanges: one variable of given size, no model, no data, no chief. For benchmarks of
// parameter servers: a process starts a server from it, another exchanges with the servers as a worker does.
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
  int shards = 0;             // Equal shards of the variable; 0: as many as servers.
  int64_t bytes = 1 << 20;    // Bytes of parameters; a multiple of 2 KiB.
  int64_t message_bytes = 0;  // 0: the default.
  bool asynchronous = false;
  bool pull_before_step = false;  // Implies asynchronous.
  bool checksums = false;
  JobToken token;
  const JobAuthority* authority = nullptr;  // Null: without TLS.
};

class ExchangeFixture {
 public:
  explicit ExchangeFixture(const ExchangeOptions& options);

  // Serves until it is destroyed. `clock` outlives it.
  std::unique_ptr<ParameterServer> StartServer(const std::string& bind_address, int index,
                                               const Clock& clock) const;

  // Absent without an authority.
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
  // Blocks until the parameters are back.
  void Exchange();

 private:
  Arena parameters_;
  Arena gradients_;
  std::unique_ptr<Strategy> strategy_;
  int64_t step_ = 0;
};

}  // namespace tethys

#endif  // TETHYS_TESTS_BENCH_EXCHANGE_FIXTURE_H_
