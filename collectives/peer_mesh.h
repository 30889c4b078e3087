// The connections of one rank to all others, and what every collective needs from them: streams that move
// together, deadlines, and one error for all. Collectives say which pieces go where; see
// ring_communicator.cc.
//
//   Begin(kReduce, kFloat32, 1000, 0);  Receive(left, ...);  Send(right, ...);  Move()
//
// Used by one thread at a time, but for Abort. Move blocks until all streams have ended, or one failed.
#ifndef TETHYS_COLLECTIVES_PEER_MESH_H_
#define TETHYS_COLLECTIVES_PEER_MESH_H_

#include <poll.h>

#include <atomic>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "collectives/frame_link.h"
#include "collectives/ring_communicator.h"
#include "collectives/ring_formation.h"
#include "runtime/base/mutex.h"
#include "runtime/base/socket.h"

namespace tethys {

// Invariants:
// 1. The first failure is final: every later call returns it.
// 2. Whoever fails tells all others (an error frame), in the words it was told itself. So one error travels,
// with the code and the names that its discoverer gave it, and reaches all who wait for somebody.
// 3. A rank fails only for a peer from which it still needs something. A peer that leaves after it gave
// everything (the end of a job) is no error.
// 4. Who is blamed for silence is silent: a rank that waits for others says so before anybody's patience
// ends.
class PeerMesh {
 public:
  PeerMesh(RingOptions options, std::vector<RingConnection> connections, WakeUp abort);

  int rank() const { return options_.rank; }
  int world_size() const { return static_cast<int>(peers_.size()); }
  TrafficCount traffic() const { return traffic_; }

  // Starts a collective: what it is, for the headers of its frames. `flags`: the root, where there is one.
  absl::Status Begin(FrameKind kind, FrameDType dtype, int64_t count, int flags);
  // Sends `pieces` to `peer`, the first `available` elements at once, the rest as they are passed on.
  void Send(int peer, absl::Span<const Piece> pieces, int64_t available);
  void Receive(int peer, absl::Span<const Piece> pieces);
  // Moves all streams to their ends. What comes from `from` becomes available to `to`, chunk by chunk.
  absl::Status Move(int from, int to);
  absl::Status Move() { return Move(-1, -1); }

  // Any thread.
  void Abort(const absl::Status& reason);

 private:
  struct Peer {
    SecureSocket socket;
    uint32_t incarnation = 0;
    FrameSender sender;
    FrameReceiver receiver;
    bool finished() const { return sender.finished() && receiver.finished(); }
  };

  // One turn over all peers.
  struct Turn {
    bool moved = false;
    bool finished = true;
  };
  absl::StatusOr<Turn> Pump(int from, int to);
  // Blocks until a socket is ready. An error when the deadline has passed, a peer has left or Abort was
  // called.
  absl::Status Wait();
  absl::Status PollUntil(Nanoseconds until);
  // When the next thing happens to a stream that stands still: saying so, blaming, giving up.
  absl::StatusOr<Nanoseconds> CheckPatience();
  absl::Status SilenceError(int peer) const;

  // Why `peer`'s stream broke: what it reported, or that it is gone.
  absl::Status Explain(int peer, const absl::Status& error);
  // The same after a failed send: the reason may lie in what it sent before it went.
  absl::Status ExplainSend(int peer, const absl::Status& error);
  // Makes `error` final and tells everybody.
  absl::Status Fail(const absl::Status& error);
  absl::Status AbortReason();

  const RingOptions options_;
  const Clock& clock_;
  const WakeUp abort_;

  std::atomic<bool> aborted_{false};
  Mutex mu_;
  absl::Status abort_reason_ ABSL_GUARDED_BY(mu_);

  // Owned by the calling thread.
  std::vector<Peer> peers_;  // The own rank's is unused, and always finished.
  std::vector<pollfd> polled_;
  std::vector<int> polled_ranks_;
  Frame header_;
  uint64_t step_ = 0;  // Collectives begun.
  TrafficCount traffic_;
  Nanoseconds last_progress_ = 0;
  bool said_waiting_ = false;
  absl::Status broken_;
};

}  // namespace tethys

#endif  // TETHYS_COLLECTIVES_PEER_MESH_H_
