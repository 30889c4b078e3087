// The two directions of a connection between ranks. During a collective, each direction is a stream of pieces
// of memory, cut into frames. Sockets are non-blocking: Pump sends as much as the socket accepts, or receives
// all data that the socket has. Used by the communicator's thread only. After the largest collective has run
// once, no call allocates memory.
//
// All frames of a stream carry the same header except for sequence number and length, and each header is
// checked. The first frame of a stream, which may be empty, tells the peer which collective this rank is in.
// A later empty frame says that this rank is alive and is waiting for another rank. A frame may carry a
// checksum of its payload, which is checked before the payload is added or counted as received.
#ifndef TETHYS_COLLECTIVES_FRAME_LINK_H_
#define TETHYS_COLLECTIVES_FRAME_LINK_H_

#include <sys/uio.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "collectives/block_cut.h"
#include "runtime/base/status.h"
#include "runtime/cluster/secure_socket.h"
#include "runtime/tensor/frame.h"

namespace tethys {

constexpr uint64_t kMaxErrorBytes = 4096;
constexpr int64_t kChunkBytes = kChunkElements * static_cast<int64_t>(sizeof(float));

// A part of a stream, given by its bytes in memory.
struct Piece {
  char* data = nullptr;
  int64_t bytes = 0;
  // True: the bytes are floats, and the receiver adds them to the floats of its own piece.
  bool add = false;
};

// Returns the Status that an error frame reports. Never OK, even if the peer sent an invalid code.
absl::Status ErrorOf(const Frame& frame, absl::string_view message);

class FrameSender {
 public:
  // Turns checksums of payloads on or off; they are off at first.
  void SetChecksums(bool checksums) { checksums_ = checksums; }
  // Starts a stream that sends `pieces`. Their first `available` bytes may be sent at once. Frames get the
  // fields of `header`.
  void Start(const Frame& header, absl::Span<const Piece> pieces, int64_t available);
  void MakeAvailable(int64_t bytes) { available_ += bytes; }
  // Makes the next Pump send an empty frame, unless the whole stream is already sent.
  void SayWaiting() { say_waiting_ = !finished(); }
  // Ends the stream with an error frame, directly after the frame that is being sent.
  void StartError(const Frame& header, const absl::Status& error);

  // Returns the number of bytes sent. Unavailable: the connection to the peer is lost.
  absl::StatusOr<int64_t> Pump(SecureSocket& socket);
  // True if the socket is full and a frame is not yet sent completely.
  bool blocked() const { return parts_[0].iov_len + parts_[1].iov_len > 0; }
  bool finished() const { return next_piece_ == pieces_.size() && opened_ && !blocked(); }

 private:
  // Sets up the next frame that may be sent now; false if there is none.
  bool NextFrame();
  void SetFrame(Frame header, absl::string_view payload);

  bool checksums_ = false;
  Frame header_;
  std::vector<Piece> pieces_;
  size_t next_piece_ = 0;
  int64_t offset_ = 0;     // In pieces_[next_piece_]: the first byte that is in no frame yet.
  int64_t available_ = 0;  // Bytes from offset_ on that may be sent.
  bool opened_ = true;     // The first frame of the stream is sent. Also true before Start.
  bool say_waiting_ = false;
  std::string error_;  // Payload of the error frame.
  std::array<char, kFrameBytes> encoded_;
  std::array<iovec, 2> parts_ = {};  // The unsent rest of the current frame's header and payload.
};

class FrameReceiver {
 public:
  struct Received {
    int64_t bytes = 0;  // Bytes read from the socket.
    int64_t ready = 0;  // Bytes of pieces that are received or summed, and may be passed on.
  };

  // Starts to fill `pieces` from the peer's frames. The headers of these frames must equal `own`, this rank's
  // header, except for rank and incarnation, which are the peer's.
  void Start(const Frame& own, int peer_rank, uint32_t peer_incarnation, absl::Span<const Piece> pieces);

  // Reads until a chunk is complete or the socket has no more data. InvalidArgument: the peer is in another
  // collective. Unavailable: the connection to the peer is lost. DataLoss: a frame was damaged in transit.
  // Other errors come from the peer's error frame.
  absl::StatusOr<Received> Pump(SecureSocket& socket);
  bool finished() const { return next_piece_ == pieces_.size() && opened_; }
  // True if the peer has announced, since its last payload, that it is waiting for another rank.
  bool peer_waits() const { return peer_waits_; }
  // True if an error frame, or at least its header, has arrived from the peer.
  bool peer_failed() const { return frame_.kind == FrameKind::kError; }

 private:
  static constexpr int64_t kInboxBytes = 16 * 1024;

  // Consumes the inbox up to the end of a chunk. Returns the number of completed bytes of pieces.
  absl::StatusOr<int64_t> ReadInbox();
  absl::Status ReadHeader();
  // Called when a payload is complete. Verifies the payload, adds it if `add` is set in the piece, and
  // returns the number of its bytes.
  absl::StatusOr<int64_t> FinishPayload();

  Frame own_;
  Frame expected_;
  std::vector<Piece> pieces_;
  size_t next_piece_ = 0;
  int64_t offset_ = 0;
  bool opened_ = true;  // The first frame of the stream has arrived. Also true before Start.
  bool peer_waits_ = false;

  // State of the current frame.
  Frame frame_;
  char* payload_ = nullptr;  // The address at which to store the missing bytes.
  int64_t missing_bytes_ = 0;
  std::vector<float> addend_;  // The chunk that will be added to a piece.
  std::string error_;

  // Read-ahead buffer, so that one system call reads a short frame completely. May hold the beginning of the
  // next collective's stream.
  std::array<char, kInboxBytes> inbox_;
  int64_t inbox_begin_ = 0;
  int64_t inbox_end_ = 0;
};

}  // namespace tethys

#endif  // TETHYS_COLLECTIVES_FRAME_LINK_H_
