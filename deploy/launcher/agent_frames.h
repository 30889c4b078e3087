// How the messages of proto/agent.proto lie in a stream of bytes. Used at both ends of an agent's connection.
// Pure; thread-compatible.
//
//   frame    4 bytes, little-endian: bits 0 to 30 the length of the piece, bit 31 set: the message goes on in
//   the next
//            frame; then the piece, at most 4092 bytes
//   message  the pieces of its frames, one after another
//
// A frame without a piece is a heartbeat. It may stand anywhere between two frames, also between those of one
// message. A frame is no longer than PIPE_BUF bytes, so a write of one to a pipe is whole or not at all, and
// two processes can write to the same pipe: the launcher its orders, and its heart the beats
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
// Stands before the first frame of an agent.
constexpr char kAgentHello[] = "\ntethys-agent 1\n";
// Both ends beat so often, and give the other up after this silence.
constexpr Nanoseconds kAgentBeat = 1 * kSecond;
constexpr Nanoseconds kAgentSilence = 20 * kSecond;

std::string HeartbeatFrame();

// InvalidArgument: the message is larger than kMaxAgentMessage.
absl::StatusOr<std::vector<std::string>> FramesOf(const google::protobuf::MessageLite& message);

// Puts frames together again, from pieces of a stream as they come.
class FrameReader {
 public:
  // Skips everything up to the end of `hello` first; empty: nothing.
  explicit FrameReader(std::string hello = "") : hello_(std::move(hello)) {}

  void Append(absl::string_view bytes);

  // The next message; nothing: it is not whole yet. InvalidArgument, from then on: a frame or a message is
  // too long.
  absl::StatusOr<std::optional<std::string>> Next();

  // The other end has spoken: `hello` was seen.
  bool greeted() const { return hello_.empty(); }

 private:
  std::string hello_;  // Empty once it was seen.
  std::string buffer_;
  size_t begin_ = 0;  // Of what is left in the buffer.
  std::string message_;
};

}  // namespace tethys

#endif  // TETHYS_DEPLOY_LAUNCHER_AGENT_FRAMES_H_
