// Facts that the markers of a JPEG file (ITU-T T.81, annex B) show without decoding. Pure; any thread.
#ifndef TETHYS_RUNTIME_DATA_JPEG_MARKERS_H_
#define TETHYS_RUNTIME_DATA_JPEG_MARKERS_H_

#include <cstdint>

#include "absl/types/span.h"

namespace tethys {

// True if a JPEG file has this height, width and number of colours that turbojpeg decodes, as far as the
// first segments show. False for anything unusual, which is left to turbojpeg. tjDecompress2 reads the header
// again, so asking turbojpeg for the shape first would take 8 % of the time of a picture of 32 pixels.
bool IsPlainJpegOf(absl::Span<const uint8_t> bytes, int64_t height, int64_t width);

// The number of colours of the first frame, 1 for grey. 0: `bytes`, the beginning of a file, do not contain
// it.
int JpegComponents(absl::Span<const uint8_t> bytes);

// True if the end marker is present. A decoder invents the missing part of a file that was cut off.
bool HasJpegEnd(absl::Span<const uint8_t> bytes);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_DATA_JPEG_MARKERS_H_
