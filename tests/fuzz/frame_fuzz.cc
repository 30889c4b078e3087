#include <cstring>
#include <string>

#include "runtime/tensor/frame.h"
#include "tests/fuzz/frame_bytes.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/targets.h"

namespace tethys::fuzz {
namespace {

// Checks that an accepted frame is encoded to the same bytes again.
void Check(const std::string& bytes) {
  const absl::StatusOr<Frame> frame = Frame::Decode(bytes.data(), bytes.size());
  if (!frame.ok()) return RequireRefusal(frame.status(), "rame");
  std::string again(kFrameBytes, '\0');
  frame->EncodeTo(again.data());
  Require(again == bytes.substr(0, kFrameBytes), "a decoded frame is encoded to the same bytes");
  Require(frame->payload_bytes <= kMaxPayloadBytes, "a payload is bounded");
  Require(!FrameText(*frame).empty(), "a frame has a text");
}

}  // namespace

void FuzzFrame(absl::string_view input) {
  std::string bytes(input);
  Check(bytes);
  if (bytes.size() < kFrameBytes) return;
  SealFrame(bytes.data());
  Check(bytes);
}

}  // namespace tethys::fuzz
