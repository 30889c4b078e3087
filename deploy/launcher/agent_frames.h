// The framing of the messages of proto/agent.proto in a stream of bytes. Used at both ends of an agent's
// connection. Pure; thread-compatible.
//
//   frame    4 bytes, little-endian: bits 0 to 30 the length of the piece, bit 31 set if the message
//            continues in the next frame; then the piece, at most 4092 bytes
//   message  the concatenated pieces of its frames
//
// A frame without a piece is a heartbeat. It may stand between any two frames, also between those of one
// message. A frame is no longer than PIPE_BUF bytes, so a write of one to a pipe is atomic. So two processes
// can write to the same pipe: the launcher writes orders, and its heart writes heartbeats
// (deploy/launcher/launcher_heart.h).
#ifndef TETHYS_DEPLOY_LAUNCHER_AGENT_FRAMES_H_
#define TETHYS_DEPLOY_LAUNCHER_AGENT_FRAMES_H_

#include <optional>
#include <string>
#include <vector>

#include "google/protobuf/message_lite.h"
#include "runtime/base/clock.h"
#include "runtime/base/status.h"

namespace tethys {

constexpr size_t kFrameHeaderBytes = 4;
constexpr size_t kMaxFramePiece = 4096 - kFrameHeaderBytes;
constexpr size_t kMaxAgentMessage = 256 << 10;
// Precedes the first frame of an agent.
constexpr char kAgentHello[] = "\ntethys-agent 1\n";
// The interval of both ends' heartbeats, and the silence after which an end gives the other up.
constexpr Nanoseconds kAgentBeat = 1 * kSecond;
constexpr Nanoseconds kAgentSilence = 20 * kSecond;

std::string HeartbeatFrame();

// InvalidArgument: the message is larger than kMaxAgentMessage.
absl::StatusOr<std::vector<std::string>> FramesOf(const google::protobuf::MessageLite& message);

// Reassembles messages from the pieces of a stream.
class FrameReader {
 public:
  // First skips everything up to the end of `hello`; if that is empty, nothing.
  explicit FrameReader(std::string hello = "") : hello_(std::move(hello)) {}

  void Append(absl::string_view bytes);

  // The next message, or nullopt if it is incomplete. InvalidArgument, from then on: a frame or a message is
  // too long.
  absl::StatusOr<std::optional<std::string>> Next();

  // Whether `hello` has been received.
  bool greeted() const { return hello_.empty(); }

 private:
  std::string hello_;  // Empty once received.
  std::string buffer_;
  size_t begin_ = 0;  // Position of the first unconsumed byte.
  std::string message_;
};

}  // namespace tethys

#endif  // TETHYS_DEPLOY_LAUNCHER_AGENT_FRAMES_H_
