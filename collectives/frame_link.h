// The two directions of a connection between ranks: during a collective, each is a stream of pieces of
// vectors, cut into frames. Sockets do not block: Pump moves what can be moved now. Used by the
// communicator's thread alone; nothing allocates once the largest collective has run.
//
// Every frame of a stream carries the same header but for its number and length, so each one fences what
// follows it. The first opens the stream (be it empty: it tells the other side which collective this rank is
// in); an empty one later says "I am here, and wait for somebody else". Each may carry a checksum of
// its payload, which is looked at before the payload is added, or counts as received.
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

// A frame carries at most so many elements (256 KiB): what a receiver must hold before it can add, and pass
// on. On loopback, half of it costs a few per cent more processor time, an eighth a third more.
constexpr int64_t kChunkElements = 64 * 1024;
constexpr uint64_t kMaxErrorBytes = 4096;

// Elements of a stream, and where they lie.
struct Piece {
  float* data = nullptr;
  int64_t count = 0;
  bool add = false;  // A receiver adds to what is there instead of replacing it.
};

// What an error frame reports. Never OK, whatever the other side sent.
absl::Status ErrorOf(const Frame& frame, absl::string_view message);

class FrameSender {
 public:
  // Whether payloads get one. At first they do not.
  void SetChecksums(bool checksums) { checksums_ = checksums; }
  // Sends `pieces`, of which the first `available` elements may go at once. Frames look like `header`.
  void Start(const Frame& header, absl::Span<const Piece> pieces, int64_t available);
  void MakeAvailable(int64_t elements) { available_ += elements; }
  // Sends an empty frame, unless the other side has all it needs.
  void SayWaiting() { say_waiting_ = !finished(); }
  // Ends the stream with an error frame, right after the frame under way.
  void StartError(const Frame& header, const absl::Status& error);

  // Returns the bytes sent. Unavailable when the other side is gone.
  absl::StatusOr<int64_t> Pump(SecureSocket& socket);
  // Only a full socket keeps a frame from being sent.
  bool blocked() const { return parts_[0].iov_len + parts_[1].iov_len > 0; }
  bool finished() const { return next_piece_ == pieces_.size() && opened_ && !blocked(); }

 private:
  // Sets up the next frame that may be sent now; false when there is none.
  bool NextFrame();
  void SetFrame(Frame header, absl::string_view payload);

  bool checksums_ = false;
  Frame header_;
  std::vector<Piece> pieces_;
  size_t next_piece_ = 0;
  int64_t offset_ = 0;     // Into that piece, of what has not been put into a frame.
  int64_t available_ = 0;  // Elements that may be put into frames from there on.
  bool opened_ = true;     // No frame is owed before the first Start.
  bool say_waiting_ = false;
  std::string error_;  // Payload of the error frame that ends it all.
  std::array<char, kFrameBytes> encoded_;
  std::array<iovec, 2> parts_ = {};  // What is left of the frame under way: header, payload.
};

class FrameReceiver {
 public:
  struct Received {
    int64_t bytes = 0;     // Off the socket.
    int64_t elements = 0;  // Whole chunks, in place: these may be passed on.
  };

  // Fills `pieces` from frames that look like `own`, this rank's, but for the sender.
  void Start(const Frame& own, int peer_rank, uint32_t peer_incarnation, absl::Span<const Piece> pieces);

  // Returns after a chunk, or when there is nothing to read. InvalidArgument: the other side is in another
  // collective. Unavailable: it is gone. DataLoss: a frame was damaged on its way. Any other error is one it
  // reports, in its words.
  absl::StatusOr<Received> Pump(SecureSocket& socket);
  bool finished() const { return next_piece_ == pieces_.size() && opened_; }
  // Since its last payload the other side has said that it waits, too.
  bool peer_waits() const { return peer_waits_; }
  // The other side has sent an error frame, or begun to.
  bool peer_failed() const { return frame_.kind == FrameKind::kError; }

 private:
  static constexpr int64_t kInboxBytes = 16 * 1024;

  // Takes what lies in the inbox, up to the end of a chunk. Returns the elements completed.
  absl::StatusOr<int64_t> ReadInbox();
  absl::Status ReadHeader();
  // The bytes still missing have arrived: adds, steps on. Returns the elements of the chunk.
  absl::StatusOr<int64_t> FinishPayload();

  Frame own_;
  Frame expected_;
  std::vector<Piece> pieces_;
  size_t next_piece_ = 0;
  int64_t offset_ = 0;
  bool opened_ = true;  // No frame is owed before the first Start.
  bool peer_waits_ = false;

  // Of the frame under way.
  Frame frame_;
  char* payload_ = nullptr;  // Where the missing bytes go.
  int64_t missing_bytes_ = 0;
  std::vector<float> addend_;  // A chunk to be added.
  std::string error_;

  // Read ahead: short frames come whole with one call. May hold the beginning of the next collective.
  std::array<char, kInboxBytes> inbox_;
  int64_t inbox_begin_ = 0;
  int64_t inbox_end_ = 0;
};

}  // namespace tethys

#endif  // TETHYS_COLLECTIVES_FRAME_LINK_H_
