// A segment is u8 0xff, u8 kind, u16 bytes (counted from this number on) and its contents. The contents of
// the header of a frame are u8 bits of a sample, u16 height, u16 width, u8 components and, for each
// component, u8 name, u8 sampling factors (4 bits across, 4 down) and u8 table. Numbers are big-endian. The
// header of a scan is followed by coded bits, in which every 0xff is followed by 0.
#include "runtime/data/jpeg_markers.h"

#include <cstddef>

namespace tethys {
namespace {

constexpr size_t kFrameBytes = 10, kComponentBytes = 3;
constexpr uint8_t kEnd = 0xd9, kStart = 0xd8, kFirstRestart = 0xd0, kTemporary = 0x01;

int64_t NumberAt(absl::Span<const uint8_t> bytes, size_t at) { return bytes[at] << 8 | bytes[at + 1]; }

// The position of the first frame's header, if only tables and metadata come before the header; otherwise 0.
size_t FindFrame(absl::Span<const uint8_t> bytes) {
  for (size_t at = 2; at + kFrameBytes <= bytes.size(); at += 2 + NumberAt(bytes, at + 2)) {
    const uint8_t kind = bytes[at + 1];
    const bool tables = kind == 0xc4 || kind == 0xdb || kind == 0xdd;
    const bool remarks = (kind >= 0xe0 && kind <= 0xef) || kind == 0xfe;
    if (bytes[at] == 0xff && (tables || remarks)) continue;
    return bytes[at] == 0xff && kind >= 0xc0 && kind <= 0xc2 ? at : 0;
  }
  return 0;
}

}  // namespace

bool IsPlainJpegOf(absl::Span<const uint8_t> bytes, int64_t height, int64_t width) {
  const size_t at = FindFrame(bytes);
  if (at == 0 || at + kFrameBytes + 3 * kComponentBytes > bytes.size()) return false;
  const uint8_t* const frame = bytes.data() + at;
  if (frame[4] != 8 || NumberAt(bytes, at + 5) != height || NumberAt(bytes, at + 7) != width) return false;
  const uint8_t* const factors = frame + kFrameBytes + 1;
  const bool usual = factors[0] == 0x11 || factors[0] == 0x21 || factors[0] == 0x22;
  return frame[9] == 1 || (frame[9] == 3 && usual && factors[3] == 0x11 && factors[6] == 0x11);
}

JpegFrame FirstFrameOfJpeg(absl::Span<const uint8_t> bytes) {
  const size_t at = FindFrame(bytes);
  if (at == 0) return {};
  return {.height = NumberAt(bytes, at + 5),
          .width = NumberAt(bytes, at + 7),
          .components = bytes[at + kFrameBytes - 1]};
}

bool HasJpegEnd(absl::Span<const uint8_t> bytes) {
  size_t at = 2;
  while (at + 1 < bytes.size()) {
    const uint8_t kind = bytes[at + 1];
    if (bytes[at] != 0xff || kind == 0 || kind == 0xff) {
      ++at;
      continue;
    }
    if (kind == kEnd) return true;
    at += 2;
    if ((kind >= kFirstRestart && kind <= kStart) || kind == kTemporary) continue;
    if (at + 1 >= bytes.size()) return false;
    at += NumberAt(bytes, at);
  }
  return false;
}

}  // namespace tethys
