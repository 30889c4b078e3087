// A gRPC server around a ParameterStore, which holds shards of the parameters. The process of the server role
// (server_process.h) calls it in this order:
//
//   auto server = ParameterServer::Start(options);   listens; refuses workers for now
//   server->Configure(plan, index, generation);      creates the store with initial values
//   server->Restore(version, write);                 only if the job resumes
//   server->ExchangeCopies(form, patience);          only if servers keep copies (CopiesShards)
//   server->Serve();                                 accepts workers
//
// If the job forms new groups (runtime/chief/group_membership.h), these calls follow, any number of times:
//
//   server->Halt();                                  ends all streams; makes no update from now on
//   server->JoinGroup(group, version);               steps back to the version, for the new group
//   server->ExchangeCopies(form, patience);          only if servers keep copies
//   server->Serve();
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
#include "absl/types/span.h"
#include "proto/chief.pb.h"
#include "proto/plan.pb.h"
#include "runtime/base/clock.h"
#include "runtime/base/status.h"
#include "runtime/cluster/certificates.h"
#include "runtime/cluster/handshake.h"

namespace tethys {

struct ParameterServerOptions {
  // An address in the form of ParseListenAddress; port 0 is any free port.
  std::string bind_address = "127.0.0.1:0";
  JobToken token;
  std::string job_id;
  absl::optional<TlsIdentity> tls = {};  // The TLS identity of this server; absent: no TLS.
  // Without TLS, payloads have checksums, except over loopback. True: payloads have checksums over loopback,
  // too (for tests).
  bool checksums_on_loopback = false;
  const Clock* clock = nullptr;  // Must outlive the server.
  // Called once, on the loop thread, when the job cannot continue: non-finite gradients, a failed update, or
  // more than kMaxApplied pushes that TakeApplied has not taken. Must not block.
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
  // Accepts workers from now on; earlier callers were told to retry. Blocks.
  virtual absl::Status Serve() = 0;

  // A function called once per slot and shard with the shard's values; `arena_begin` is the position of the
  // first value in the parameter arena. Slot 0 holds the parameters; slots 1, 2, ... belong to the optimizer.
  using ReadShard = absl::FunctionRef<absl::Status(int slot, int64_t arena_begin, absl::Span<const float>)>;
  using WriteShard = absl::FunctionRef<absl::Status(int slot, int64_t arena_begin, absl::Span<float>)>;
  // Snapshot passes all values to `read`; Restore lets `write` fill in all values. Call them at barriers,
  // when no push is incomplete. The function runs on the loop, which serves no worker meanwhile. Both block.
  virtual absl::Status Snapshot(ReadShard read) = 0;
  virtual absl::Status Restore(int64_t version, WriteShard write) = 0;

  // Ends the stream of an earlier incarnation (process) of the fence's worker, and refuses frames of that
  // incarnation from now on (ParameterStore::OnFence). When Fence returns, TakeApplied has all applied pushes
  // of that incarnation. Aborted: the chief halted the group of servers first. Blocks.
  virtual absl::Status Fence(const proto::Fence& fence) = 0;

  // Ends the streams of all workers and servers and refuses workers until JoinGroup, so that version() stays
  // the same. Blocks.
  virtual absl::Status Halt() = 0;
  // Gets ready for `group`. In lock step also for its workers, with the parameters of `version`: has the
  // errors of ParameterStore::StepBack. Blocks.
  virtual absl::Status JoinGroup(const proto::Group& group, int64_t version) = 0;
  // Exchanges copies of shards with the other servers of the group (ShardCopies::Join). If form.restored
  // contains this server, it then has the values of its shards after form.step() steps or, if workers train
  // on leases, the newest ones; TakeApplied then has the records of the pushes that they contain. Blocks.
  // Returns the errors of ShardCopies::Join, and ResourceExhausted: this host has too little memory.
  virtual absl::Status ExchangeCopies(const proto::Form& form, Nanoseconds patience) = 0;
  // Ends ExchangeCopies for the group of this generation and for earlier groups. Requires Configure. Does not
  // block.
  virtual void Interrupt(uint32_t generation) = 0;
  // The version of this server's copy of another server's shards; nullopt: it has no copy. Blocks.
  virtual absl::optional<int64_t> CopyVersion() = 0;
  // True if the server holds a shard. Requires Configure.
  virtual bool has_shards() const = 0;

  // The number of updates applied.
  virtual int64_t version() const = 0;
  // Returns the pushes applied since the last call, in order. At most kMaxApplied pushes are kept; one more
  // push makes the server call on_fatal.
  static constexpr int64_t kMaxApplied = 1 << 16;
  virtual proto::AppliedPushes TakeApplied() = 0;
  // The number of updates by staleness. Blocks.
  virtual std::map<int64_t, int64_t> StalenessHistogram() = 0;
};

}  // namespace tethys

#endif  // TETHYS_PS_PARAMETER_SERVER_H_
