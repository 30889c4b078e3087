// A Communicator over TCP, for ranks on any hosts. Every pair of ranks holds one connection, authenticated
// both ways by the job's token. Short vectors are exchanged directly, in one hop. Long vectors are reduced
// around the ring, by reduce-scatter and all-gather. This transfers 2 (n-1)/n of the vector into and out of
// every rank, which is the minimum.
//
//   RingListener::Listen("10.0.0.3")  ->  send address() to all ranks
//       ->  CreateRingCommunicator(listener, options)
//
// Creating blocks until all ranks are connected or `connect_timeout` has passed. Meanwhile connections from
// outside the job are refused without delaying any rank.
#ifndef TETHYS_COLLECTIVES_RING_COMMUNICATOR_H_
#define TETHYS_COLLECTIVES_RING_COMMUNICATOR_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "collectives/communicator.h"
#include "proto/member.pb.h"
#include "runtime/base/clock.h"
#include "runtime/base/file.h"
#include "runtime/base/status.h"
#include "runtime/cluster/handshake.h"
#include "runtime/cluster/secure_socket.h"

namespace tethys {

// The listening socket of a rank, bound before the ranks exchange their addresses. It may serve several
// communicators, one after the other (one for each generation of the membership).
class RingListener {
 public:
  // `host` or `host:port`; without a port the system chooses one.
  static absl::StatusOr<std::unique_ptr<RingListener>> Listen(const std::string& bind_address);

  // host:port, numeric.
  const std::string& address() const { return address_; }
  int fd() const { return fd_.get(); }

 private:
  RingListener(FileDescriptor fd, std::string address) : fd_(std::move(fd)), address_(std::move(address)) {}
  const FileDescriptor fd_;
  const std::string address_;
};

struct RingOptions {
  int rank = 0;
  // host:port of every rank's listener, including this rank's; sets the world size.
  std::vector<std::string> addresses;
  std::vector<std::string> member_names;  // "worker 2 on 10.0.0.3", for errors; empty: the addresses.
  uint32_t group = 0;                     // Id of the communicator in the job; several may exist at once.
  uint32_t generation = 1;                // Membership generation; frames of another generation are refused.
  uint32_t incarnation = 1;               // 1 for a rank's first process; each replacement adds 1.
  JobToken token;
  // If set, connections use TLS, and each peer's certificate must carry the peer's certificate name. Null: no
  // TLS.
  std::shared_ptr<const TlsContext> tls;
  std::vector<std::string> certificate_names;  // Indexed by rank; with TLS only.
  // Payloads on connections without TLS have checksums, except on loopback. If true, they have checksums on
  // loopback, too (for tests).
  bool checksums_on_loopback = false;
  // Role, job id, job hash and model signature, equal on all ranks. Index, incarnation and generation are
  // filled in from the fields above.
  proto::Handshake identity;
  Nanoseconds connect_timeout = 30 * kSecond;  // Limit for connecting all ranks.
  // A collective fails after this long without progress. Time in which other ranks compute does not count.
  Nanoseconds step_timeout = 30 * kSecond;
  PeersCompute peers_compute = nullptr;
  // Limit on the unacknowledged data that the system buffers for a connection; 0: the system's limit, several
  // MiB. A small limit keeps the data in the processor's cache (30 % less processor time for 4 MiB on
  // loopback). But a connection carries at most this much per round trip, so raise the limit if round trips
  // take more than a millisecond.
  int64_t send_buffer_bytes = 256 * 1024;
  const Clock* clock = nullptr;  // Required; not owned.
};

// InvalidArgument: bad options. DeadlineExceeded names the missing ranks and the last refusal.
// Unauthenticated or FailedPrecondition: a rank refused this rank, or belongs to another build, job, model or
// generation.
absl::StatusOr<std::unique_ptr<Communicator>> CreateRingCommunicator(RingListener& listener,
                                                                     RingOptions options);

}  // namespace tethys

#endif  // TETHYS_COLLECTIVES_RING_COMMUNICATOR_H_
