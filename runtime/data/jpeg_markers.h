// Facts that the markers of a JPEG file (ITU-T T.81, annex B) show without decoding. Pure; any thread.
#ifndef TETHYS_RUNTIME_DATA_JPEG_MARKERS_H_
#define TETHYS_RUNTIME_DATA_JPEG_MARKERS_H_

#include <cstdint>

#include "absl/types/span.h"

namespace tethys {

// True if the first segments of a JPEG file show that it has this height and width, and a number of colours
// that turbojpeg decodes. False for an unusual file, which turbojpeg must judge. tjDecompress2 reads the
// header again, so asking turbojpeg for the shape first would take 8 % of the time for a picture of 32 x 32
// pixels.
bool IsPlainJpegOf(absl::Span<const uint8_t> bytes, int64_t height, int64_t width);

// The header of the first frame. All numbers are 0 if `bytes`, the beginning of a file, do not contain it.
struct JpegFrame {
  int64_t height = 0, width = 0;
  int components = 0;  // The number of colours; 1 for grey.
};
JpegFrame FirstFrameOfJpeg(absl::Span<const uint8_t> bytes);

// True if the end marker is present. A decoder invents the missing part of a file that was cut off.
bool HasJpegEnd(absl::Span<const uint8_t> bytes);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_DATA_JPEG_MARKERS_H_
