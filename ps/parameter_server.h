// The process that holds shards of the parameters: a gRPC server around a ParameterStore. Used by the server
// role (server_process.h) in this order:
//
//   auto server = ParameterServer::Start(options);   takes strangers' calls from now on, and refuses them
//   server->Configure(plan, index, generation);      makes the store, with initial values
//   server->Restore(version, read);                  when the job resumes
//   server->Serve();                                 opens for workers
//
// One thread runs the completion queue, reads frames, changes the store and writes answers: it is the loop,
// and the only thread that touches parameters. All public methods may be called from any other thread; those
// said to block run their work on the loop and return when it is done.
#ifndef TETHYS_PS_PARAMETER_SERVER_H_
#define TETHYS_PS_PARAMETER_SERVER_H_

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/types/optional.h"
#include "proto/chief.pb.h"
#include "runtime/base/clock.h"
#include "runtime/base/status.h"
#include "runtime/cluster/certificates.h"
#include "runtime/cluster/handshake.h"

namespace tethys {

struct ParameterServerOptions {
  std::string bind_address = "127.0.0.1:0";  // host[:port]; port 0 or none: any free one.
  JobToken token;
  std::string job_id;
  absl::optional<TlsIdentity> tls = {};  // Of this server; absent: streams are bare.
  // Payloads on bare streams have checksums, but for those that do not leave the machine: also these, in
  // tests.
  bool checksums_on_loopback = false;
  const Clock* clock = nullptr;  // Outlives the server.
  // Called once, on the loop thread, when the job cannot go on: non-finite gradients, a failed update, a
  // journal that nobody takes. Must not block.
  std::function<void(const absl::Status&)> on_fatal;
  int threads = 1;  // Of the optimizer's device.
};

class ParameterServer {
 public:
  // Unavailable when the address cannot be bound.
  static absl::StatusOr<std::unique_ptr<ParameterServer>> Start(ParameterServerOptions options);
  // Ends all streams; blocks until the loop has ended.
  virtual ~ParameterServer() = default;

  // host:port, as workers reach it.
  virtual std::string address() const = 0;

  // Once. InvalidArgument when the plan contradicts itself. Blocks.
  virtual absl::Status Configure(const proto::JobPlan& plan, int server_index, uint32_t generation) = 0;
  // Workers that come earlier are told to come again.
  virtual absl::Status Serve() = 0;

  // Slot 0 is the parameters, 1, 2, ... the optimizer's slots; elements [arena_begin, ...) of each shard in
  // turn.
  using ReadShard = absl::FunctionRef<absl::Status(int slot, int64_t arena_begin, absl::Span<const float>)>;
  using WriteShard = absl::FunctionRef<absl::Status(int slot, int64_t arena_begin, absl::Span<float>)>;
  // At barriers, with no push under way. The function runs on the loop, which serves nobody meanwhile.
  // Blocks.
  virtual absl::Status Snapshot(ReadShard read) = 0;
  virtual absl::Status Restore(int64_t version, WriteShard write) = 0;

  // ParameterStore::OnFence, and the end of the stream of an earlier incarnation. What was applied of it is
  // among TakeApplied's when this returns. Blocks.
  virtual absl::Status Fence(const proto::Fence& fence) = 0;

  // Updates applied.
  virtual int64_t version() const = 0;
  // What was applied since the last call, in order. At most kMaxApplied are kept: one more is fatal.
  static constexpr int64_t kMaxApplied = 1 << 16;
  virtual proto::AppliedPushes TakeApplied() = 0;
  // Updates by staleness. Blocks.
  virtual std::map<int64_t, int64_t> StalenessHistogram() = 0;
};

}  // namespace tethys

#endif  // TETHYS_PS_PARAMETER_SERVER_H_
