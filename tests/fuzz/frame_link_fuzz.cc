// Input: bytes that an authenticated peer sends on a ring's connection during two collectives: frames with
// any fields, and bytes that are no frame.
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

#include "collectives/frame_link.h"
#include "tests/fuzz/frame_bytes.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/targets.h"

namespace tethys::fuzz {
namespace {

constexpr int64_t kAdded = 5, kReplaced = 300;

Frame Own(uint64_t step) {
  return {.kind = FrameKind::kReduce,
          .generation = 1,
          .rank = 1,
          .incarnation = 1,
          .step = step,
          .range_count = 305};
}

// Returns the bytes that the peer sends next: a valid frame, a frame with one changed byte, or raw bytes of
// the input.
std::string TakeBytes(ByteReader& bytes, uint64_t step, uint64_t sequence) {
  const uint64_t kind = bytes.Number();
  if (kind == 0) return std::string(bytes.Bytes(bytes.Number()));
  Frame frame = Own(step);
  frame.rank = 0;
  frame.sequence = sequence;
  const uint64_t payload = bytes.Number();
  frame.payload_bytes = payload < 0xf0 ? payload * sizeof(float) : payload;
  std::string header(kFrameBytes, '\0');
  frame.EncodeTo(header.data());
  if (kind == 2) header[6] = static_cast<char>(FrameKind::kError);
  if (kind > 2) header[kind % kFrameBytes] = static_cast<char>(bytes.Number());
  SealFrame(header.data());
  const std::string data(std::min<uint64_t>(frame.payload_bytes, 2 * (kAdded + kReplaced) * sizeof(float)),
                         '\x3f');
  return header + data;
}

}  // namespace

void FuzzFrameLink(absl::string_view input) {
  int ends[2];
  Require(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) == 0, "sockets");
  FileDescriptor sender(ends[1]);
  SecureSocket socket(FileDescriptor(ends[0]), nullptr, SecureSocket::End::kCalled);

  // The memory ends where the parts end, so a sanitizer finds writes beyond the parts.
  std::vector<float> added(kAdded), replaced(kReplaced);
  const auto piece = [](std::vector<float>& values, bool add) {
    return Piece{reinterpret_cast<char*>(values.data()), static_cast<int64_t>(values.size() * sizeof(float)),
                 add};
  };
  const Piece pieces[] = {piece(added, true), piece(replaced, false)};
  FrameReceiver receiver;
  uint64_t step = 0, sequence = 0;
  int64_t sent = 0;
  ByteReader bytes(input);
  for (bool open = true; open;) {
    if (receiver.finished() && ++step <= 2) {
      receiver.Start(Own(step), 0, 1, pieces);
      sequence = 0;
    }
    open = !bytes.empty();
    if (open) {
      const std::string data = TakeBytes(bytes, step, sequence++);
      const auto written = write(sender.get(), data.data(), data.size());
      sent += std::max<ssize_t>(written, 0);
    } else {
      sender.Close();
    }
    while (!receiver.finished()) {
      const absl::StatusOr<FrameReceiver::Received> received = receiver.Pump(socket);
      if (!received.ok()) return Require(!received.status().message().empty(), "an error has a message");
      Require(received->bytes >= 0 && received->ready <= kChunkBytes, "a turn is bounded");
      if (received->bytes == 0 && received->ready == 0) break;
    }
  }
  Require(!receiver.finished() || step > 2 || sent > 0, "a receiver without input does not finish");
}

}  // namespace tethys::fuzz
