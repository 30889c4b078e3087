// Makes valid frames of arbitrary fields: corrects the magic number, the version and the checksum, which
// mutations would never find.
#ifndef TETHYS_TESTS_FUZZ_FRAME_BYTES_H_
#define TETHYS_TESTS_FUZZ_FRAME_BYTES_H_

#include <zlib.h>

#include <cstring>

#include "runtime/tensor/frame.h"

namespace tethys::fuzz {

// Corrects the frame in `bytes`, which has kFrameBytes bytes.
inline void SealFrame(char* bytes) {
  constexpr int kFenceBytes = 6, kCrcOffset = 28;
  char fence[kFrameBytes];
  Frame().EncodeTo(fence);
  std::memcpy(bytes, fence, kFenceBytes);
  std::memset(bytes + kCrcOffset, 0, sizeof(uint32_t));
  const auto crc = static_cast<uint32_t>(crc32(0, reinterpret_cast<const Bytef*>(bytes), kFrameBytes));
  std::memcpy(bytes + kCrcOffset, &crc, sizeof(crc));
}

}  // namespace tethys::fuzz

#endif  // TETHYS_TESTS_FUZZ_FRAME_BYTES_H_
