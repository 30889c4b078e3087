// The two directions of a connection between ranks: during a collective, each is a stream of pieces of
// vectors, cut into frames. Sockets do not block: Pump transfers as much as the socket accepts or holds. Used
// by the communicator's thread alone; nothing allocates once the largest collective has run.
//
// All frames of a stream carry the same header except for sequence number and length, and each header is
// checked. The first frame opens the stream; it may be empty, and tells the peer which collective this rank
// is in. A later empty frame says that this rank is alive and waits for another one. A frame may carry a
// checksum of its payload, which is checked before the payload is added or counted as received.
#ifndef TETHYS_COLLECTIVES_FRAME_LINK_H_
#define TETHYS_COLLECTIVES_FRAME_LINK_H_

#include <sys/uio.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "runtime/base/status.h"
#include "runtime/cluster/secure_socket.h"
#include "runtime/tensor/frame.h"

namespace tethys {

// The most elements of a frame (256 KiB). A receiver buffers a whole frame before it adds it and passes it
// on. On loopback, half this size costs a few per cent more processor time, an eighth of it a third more.
constexpr int64_t kChunkElements = 64 * 1024;
constexpr uint64_t kMaxErrorBytes = 4096;

// A part of a stream: its elements in memory.
struct Piece {
  float* data = nullptr;
  int64_t count = 0;
  bool add = false;  // The receiver adds to the elements instead of replacing them.
};

// The Status that an error frame reports. Never OK, even if the peer sent an invalid code.
absl::Status ErrorOf(const Frame& frame, absl::string_view message);

class FrameSender {
 public:
  // Turns checksums of payloads on or off; they are off at first.
  void SetChecksums(bool checksums) { checksums_ = checksums; }
  // Starts to send `pieces`, of which the first `available` elements may be sent at once. Frames have the
  // fields of `header`.
  void Start(const Frame& header, absl::Span<const Piece> pieces, int64_t available);
  void MakeAvailable(int64_t elements) { available_ += elements; }
  // Sends an empty frame, unless the peer has all it needs.
  void SayWaiting() { say_waiting_ = !finished(); }
  // Ends the stream with an error frame, right after the frame being sent.
  void StartError(const Frame& header, const absl::Status& error);

  // Returns the bytes sent. Unavailable: the peer is gone.
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
  int64_t offset_ = 0;     // Offset in that piece of the first element that is in no frame yet.
  int64_t available_ = 0;  // Elements from there on that may be sent.
  bool opened_ = true;     // True before the first Start, since no frame is due.
  bool say_waiting_ = false;
  std::string error_;  // Payload of the error frame.
  std::array<char, kFrameBytes> encoded_;
  std::array<iovec, 2> parts_ = {};  // Unsent rest of the current frame: header, payload.
};

class FrameReceiver {
 public:
  struct Received {
    int64_t bytes = 0;     // Bytes read from the socket.
    int64_t elements = 0;  // Elements of complete chunks in place; these may be passed on.
  };

  // Starts to fill `pieces` from frames with the fields of `own`, this rank's header, except for the sender.
  void Start(const Frame& own, int peer_rank, uint32_t peer_incarnation, absl::Span<const Piece> pieces);

  // Returns after a chunk, or when there is nothing to read. InvalidArgument: the peer is in another
  // collective. Unavailable: the peer is gone. DataLoss: a frame was damaged in transit. Any other error is
  // the one that the peer's error frame reports.
  absl::StatusOr<Received> Pump(SecureSocket& socket);
  bool finished() const { return next_piece_ == pieces_.size() && opened_; }
  // True if the peer has announced since its last payload that it is waiting, too.
  bool peer_waits() const { return peer_waits_; }
  // True if the peer has sent an error frame or its beginning.
  bool peer_failed() const { return frame_.kind == FrameKind::kError; }

 private:
  static constexpr int64_t kInboxBytes = 16 * 1024;

  // Consumes the inbox up to the end of a chunk. Returns the elements completed.
  absl::StatusOr<int64_t> ReadInbox();
  absl::Status ReadHeader();
  // Called when a payload is complete: checks and adds it, advances. Returns the elements of the chunk.
  absl::StatusOr<int64_t> FinishPayload();

  Frame own_;
  Frame expected_;
  std::vector<Piece> pieces_;
  size_t next_piece_ = 0;
  int64_t offset_ = 0;
  bool opened_ = true;  // True before the first Start, since no frame is due.
  bool peer_waits_ = false;

  // State of the current frame.
  Frame frame_;
  char* payload_ = nullptr;  // Destination of the missing bytes.
  int64_t missing_bytes_ = 0;
  std::vector<float> addend_;  // A chunk to be added.
  std::string error_;

  // Read-ahead buffer, so that one call reads a whole short frame. May hold the beginning of the next
  // collective.
  std::array<char, kInboxBytes> inbox_;
  int64_t inbox_begin_ = 0;
  int64_t inbox_end_ = 0;
};

}  // namespace tethys

#endif  // TETHYS_COLLECTIVES_FRAME_LINK_H_
