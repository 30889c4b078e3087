// The framing of the messages of proto/agent.proto in a stream of bytes. Used at both ends of an agent's
// connection. Pure; thread-compatible.
//
//   frame    4 bytes, little-endian: bits 0 to 30 the length of the piece, bit 31 set if the message
//            continues in the next frame; then the piece, at most 4092 bytes
//   message  the concatenated pieces of its frames
//
// A frame with an empty piece is a heartbeat. It may occur between any two frames, even between two frames of
// one message. A frame is at most PIPE_BUF bytes long, so writing it to a pipe is atomic. This allows two
// processes to write to the same pipe: the launcher writes orders, and a child of the launcher writes
// heartbeats (deploy/launcher/launcher_heart.h).
#ifndef TETHYS_DEPLOY_LAUNCHER_AGENT_FRAMES_H_
#define TETHYS_DEPLOY_LAUNCHER_AGENT_FRAMES_H_

#include <optional>
#include <string>
#include <vector>

#include "deploy/process/remote_shell.h"
#include "google/protobuf/message_lite.h"
#include "runtime/base/clock.h"
#include "runtime/base/status.h"

namespace tethys {

constexpr size_t kFrameHeaderBytes = 4;
constexpr size_t kMaxFramePiece = 4096 - kFrameHeaderBytes;
constexpr size_t kMaxAgentMessage = 256 << 10;
// An agent sends this text before its first frame, because a shell's start-up files may write other text
// first.
constexpr char kAgentHello[] = "\ntethys-agent 1\n";
// Both ends send a heartbeat every kAgentBeat. An end that receives no byte for kAgentSilence closes the
// connection.
constexpr Nanoseconds kAgentBeat = 1 * kSecond;
constexpr Nanoseconds kAgentSilence = 20 * kSecond;

std::string HeartbeatFrame();

// InvalidArgument: the message is larger than kMaxAgentMessage.
absl::StatusOr<std::vector<std::string>> FramesOf(const google::protobuf::MessageLite& message);

// Reassembles messages from the pieces of a stream.
class FrameReader {
 public:
  // Skips all bytes up to and including `hello` before the first frame; skips nothing if `hello` is empty.
  explicit FrameReader(const std::string& hello = "") : hello_(hello) {}

  void Append(absl::string_view bytes);

  // The next message, or nullopt if it is incomplete. InvalidArgument: a frame or a message is too long; all
  // later calls then return this error, too.
  absl::StatusOr<std::optional<std::string>> Next();

  // True once `hello` has been received.
  bool greeted() const { return hello_.found(); }

 private:
  MarkSkipper hello_;
  std::string buffer_;
  size_t begin_ = 0;  // Position of the first unconsumed byte.
  std::string message_;
};

}  // namespace tethys

#endif  // TETHYS_DEPLOY_LAUNCHER_AGENT_FRAMES_H_
