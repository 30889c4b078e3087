// The process that holds shards of the parameters: a gRPC server around a ParameterStore. Used by the server
// role (server_process.h) in this order:
//
//   auto server = ParameterServer::Start(options);   accepts calls from now on, and refuses all of them
//   server->Configure(plan, index, generation);      creates the store with initial values
//   server->Restore(version, read);                  if the job resumes
//   server->Serve();                                 accepts workers
//
// One thread, the loop, runs the completion queue, reads frames, changes the store and writes answers; no
// other thread touches parameters. All public methods may be called from any other thread; the blocking ones
// run their work on the loop and return when it is done.
#ifndef TETHYS_PS_PARAMETER_SERVER_H_
#define TETHYS_PS_PARAMETER_SERVER_H_

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/types/optional.h"
#include "proto/chief.pb.h"
#include "proto/plan.pb.h"
#include "runtime/base/clock.h"
#include "runtime/base/status.h"
#include "runtime/cluster/certificates.h"
#include "runtime/cluster/handshake.h"

namespace tethys {

struct ParameterServerOptions {
  std::string bind_address = "127.0.0.1:0";  // host[:port]; port 0 or none: any free one.
  JobToken token;
  std::string job_id;
  absl::optional<TlsIdentity> tls = {};  // This server's identity; absent: no TLS.
  // Payloads on streams without TLS have checksums, except on loopback. Tests set this to have them there,
  // too.
  bool checksums_on_loopback = false;
  const Clock* clock = nullptr;  // Outlives the server.
  // Called once, on the loop thread, when the job cannot continue: non-finite gradients, a failed update, too
  // many applied pushes that TakeApplied has not taken. Must not block.
  std::function<void(const absl::Status&)> on_fatal;
  int threads = 1;  // Threads of the optimizer's device.
};

class ParameterServer {
 public:
  // Unavailable: the address cannot be bound.
  static absl::StatusOr<std::unique_ptr<ParameterServer>> Start(ParameterServerOptions options);
  // Ends all streams; blocks until the loop has ended.
  virtual ~ParameterServer() = default;

  // host:port for workers to connect to.
  virtual std::string address() const = 0;

  // Creates the store; called once. InvalidArgument: the plan contradicts itself. Blocks.
  virtual absl::Status Configure(const proto::JobPlan& plan, int server_index, uint32_t generation) = 0;
  // Accepts workers from now on; earlier ones were told to retry. Blocks.
  virtual absl::Status Serve() = 0;

  // Called for each shard's elements [arena_begin, ...) in turn. Slot 0 is the parameters, 1, 2, ... the
  // optimizer's slots.
  using ReadShard = absl::FunctionRef<absl::Status(int slot, int64_t arena_begin, absl::Span<const float>)>;
  using WriteShard = absl::FunctionRef<absl::Status(int slot, int64_t arena_begin, absl::Span<float>)>;
  // Called at barriers, with no push incomplete. The function runs on the loop, which serves no worker
  // meanwhile. Blocks.
  virtual absl::Status Snapshot(ReadShard read) = 0;
  virtual absl::Status Restore(int64_t version, WriteShard write) = 0;

  // Calls ParameterStore::OnFence and ends the stream of an earlier incarnation. When this returns,
  // TakeApplied has all of its applied pushes. Blocks.
  virtual absl::Status Fence(const proto::Fence& fence) = 0;

  // The number of updates applied.
  virtual int64_t version() const = 0;
  // Returns the pushes applied since the last call, in order. At most kMaxApplied are kept: one more is
  // fatal.
  static constexpr int64_t kMaxApplied = 1 << 16;
  virtual proto::AppliedPushes TakeApplied() = 0;
  // The number of updates by staleness. Blocks.
  virtual std::map<int64_t, int64_t> StalenessHistogram() = 0;
};

}  // namespace tethys

#endif  // TETHYS_PS_PARAMETER_SERVER_H_
