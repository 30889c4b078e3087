// The connections of one rank to all other ranks, and what every collective needs: concurrent streams,
// deadlines, and one error for all ranks. A collective decides which pieces are sent to which peer; see
// ring_communicator.cc.
//
//   Begin(kReduce, kFloat32, 1000, 0);  Receive(left, ...);  Send(right, ...);  Move()
//
// Used by one thread at a time, except for Abort and Interrupt. Move blocks until all streams have ended or
// one has failed.
#ifndef TETHYS_COLLECTIVES_PEER_MESH_H_
#define TETHYS_COLLECTIVES_PEER_MESH_H_

#include <poll.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "collectives/communicator.h"
#include "collectives/frame_link.h"
#include "collectives/ring_formation.h"
#include "collectives/ring_options.h"
#include "runtime/base/mutex.h"
#include "runtime/base/socket.h"

namespace tethys {

// Invariants:
// 1. The first failure is final: every later call returns it.
// 2. A rank that fails sends the error it got, unchanged, to all other ranks (in an error frame), unless it
// is interrupted. So all waiting ranks get one error, with the code and the names given by the rank that
// found it.
// 3. A rank fails only for a peer from which it still needs data. A peer may close its connections after it
// has sent everything, as at the end of a job.
// 4. No rank blames a peer that is itself waiting for other ranks: such a peer announces that it is waiting
// before any other rank's timeout ends.
// 5. An interrupted rank sends nothing more. Each of its peers either receives a complete stream or sees the
// connection close.
class PeerMesh {
 public:
  PeerMesh(RingOptions options, std::vector<RingConnection> connections, WakeUp abort);

  const RingOptions& options() const { return options_; }
  int rank() const { return options_.rank; }
  int world_size() const { return static_cast<int>(peers_.size()); }
  TrafficCount traffic() const { return traffic_; }

  // Starts a collective. The arguments become fields of its frame headers; only kGather uses `parts_hash`.
  absl::Status Begin(FrameKind kind, FrameDType dtype, int64_t count, uint32_t parts_hash = 0);
  // Starts a message of `bytes` from one rank to another; this rank is one of the two.
  absl::Status BeginMessage(int from, int to, int64_t bytes);
  // Sends `pieces` to `peer`: the first `available` bytes at once, the other bytes when Move makes them
  // available.
  void Send(int peer, absl::Span<const Piece> pieces, int64_t available);
  void Receive(int peer, absl::Span<const Piece> pieces);
  // Transfers all streams completely. Chunks received from peer `from` become available to send to peer `to`.
  absl::Status Move(int from, int to);
  absl::Status Move() { return Move(-1, -1); }

  // Have the contracts of Communicator::Abort and Communicator::Interrupt. Thread-safe.
  void Abort(const absl::Status& reason);
  void Interrupt(const absl::Status& reason);

 private:
  struct Peer {
    SecureSocket socket;
    uint32_t incarnation = 0;
    uint64_t messages_out = 0;  // Messages begun with this peer, by direction.
    uint64_t messages_in = 0;
    FrameSender sender;
    FrameReceiver receiver;
    bool finished() const { return sender.finished() && receiver.finished(); }
  };

  absl::Status CheckUsable();

  // The result of one pass over all peers.
  struct Turn {
    bool moved = false;
    bool finished = true;
  };
  absl::StatusOr<Turn> Pump(int from, int to);
  // Blocks until a socket is ready. Returns an error if the deadline has passed, a peer has closed its
  // connection or Abort was called.
  absl::Status Wait();
  absl::Status PollUntil(Nanoseconds until);
  // Returns the time of the next check of a stalled collective, at which this rank announces that it is
  // waiting, or fails. Returns an error if the collective has stalled too long.
  absl::StatusOr<Nanoseconds> CheckPatience();
  absl::Status SilenceError(int peer) const;
  // A text for errors that says what this rank is doing: "in collective 3 [reduce, ...]". In the text of a
  // message, the step is the number of the message, counted among the messages from its sender to its
  // receiver.
  std::string Doing() const;

  // Returns the reason why `peer`'s stream broke: the error that the peer reported, or the loss of the peer.
  absl::Status Explain(int peer, const absl::Status& error);
  // Like Explain, after a failed send. First reads what the peer sent, which may contain an error frame.
  absl::Status ExplainSend(int peer, const absl::Status& error);
  // Makes `error` final and sends it to all peers. If this rank is interrupted, makes the reason of the
  // interrupt final and sends nothing.
  absl::Status Fail(const absl::Status& error);
  absl::Status AbortReason();
  absl::Status InterruptReason();

  const RingOptions options_;
  const Clock& clock_;
  const WakeUp abort_;

  // Set by Abort and Interrupt.
  std::atomic<bool> aborted_{false};
  Mutex mu_;
  absl::Status abort_reason_ ABSL_GUARDED_BY(mu_);
  absl::Status interrupt_reason_ ABSL_GUARDED_BY(mu_);

  // The members below are not guarded by mu_. Abort does not use them. Interrupt only shuts down the sockets,
  // which stay the same from construction to destruction.
  std::vector<Peer> peers_;  // This rank's own entry is unused and always finished.
  std::vector<pollfd> polled_;
  std::vector<int> polled_ranks_;
  Frame header_;
  uint64_t step_ = 0;  // Collectives begun so far.
  TrafficCount traffic_;
  Nanoseconds last_progress_ = 0;
  bool said_waiting_ = false;
  absl::Status broken_;
};

}  // namespace tethys

#endif  // TETHYS_COLLECTIVES_PEER_MESH_H_
