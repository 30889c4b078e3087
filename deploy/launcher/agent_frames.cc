#include "deploy/launcher/agent_frames.h"

#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"

namespace tethys {
namespace {

constexpr uint32_t kMore = uint32_t{1} << 31;
// The buffer is compacted above this number of consumed bytes.
constexpr size_t kCompactBytes = 64 << 10;

std::string Frame(absl::string_view piece, bool more) {
  const uint32_t header = static_cast<uint32_t>(piece.size()) | (more ? kMore : 0);
  std::string frame;
  for (int shift = 0; shift < 32; shift += 8) frame += static_cast<char>(header >> shift);
  frame.append(piece.data(), piece.size());
  return frame;
}

uint32_t Header(const char* bytes) {
  uint32_t header = 0;
  for (int i = 0; i < 4; ++i) header |= uint32_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
  return header;
}

}  // namespace

std::string HeartbeatFrame() { return Frame("", false); }

absl::StatusOr<std::vector<std::string>> FramesOf(const google::protobuf::MessageLite& message) {
  const std::string bytes = message.SerializeAsString();
  if (bytes.size() > kMaxAgentMessage) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a message of ", bytes.size(), " bytes to or from an agent, which is more than ", kMaxAgentMessage));
  }
  std::vector<std::string> frames;
  absl::string_view rest = bytes;
  while (!rest.empty()) {
    const absl::string_view piece = rest.substr(0, kMaxFramePiece);
    rest.remove_prefix(piece.size());
    frames.push_back(Frame(piece, !rest.empty()));
  }
  return frames;
}

void FrameReader::Append(absl::string_view bytes) {
  if (begin_ > kCompactBytes) buffer_.erase(0, std::exchange(begin_, 0));
  absl::StrAppend(&buffer_, hello_.Skip(bytes));
}

absl::StatusOr<std::optional<std::string>> FrameReader::Next() {
  while (greeted() && buffer_.size() - begin_ >= kFrameHeaderBytes) {
    const uint32_t header = Header(buffer_.data() + begin_);
    const size_t length = header & ~kMore;
    if (length > kMaxFramePiece) {
      return absl::InvalidArgumentError(
          absl::StrCat("a frame of ", length, " bytes, which is more than ", kMaxFramePiece));
    }
    if (message_.size() + length > kMaxAgentMessage) {
      return absl::InvalidArgumentError(absl::StrCat("a message of more than ", kMaxAgentMessage, " bytes"));
    }
    if (buffer_.size() - begin_ < kFrameHeaderBytes + length) break;
    message_.append(buffer_, begin_ + kFrameHeaderBytes, length);
    begin_ += kFrameHeaderBytes + length;
    if (length > 0 && (header & kMore) == 0) return std::optional<std::string>(std::exchange(message_, {}));
  }
  return std::optional<std::string>();
}

}  // namespace tethys
