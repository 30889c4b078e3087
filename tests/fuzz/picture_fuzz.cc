#include <vector>

#include "runtime/data/jpeg_markers.h"
#include "runtime/data/picture.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/targets.h"

namespace tethys::fuzz {

void FuzzPicture(absl::string_view input) {
  const absl::Span<const uint8_t> bytes(reinterpret_cast<const uint8_t*>(input.data()), input.size());
  const auto name = [] { return std::string("a picture"); };
  const absl::StatusOr<Shape> shape = ReadPictureShape(bytes, name);
  const PictureKind kind = KindOfPicture(bytes);
  Require(!shape.ok() || kind.channels == 0 || kind.channels == (*shape)[2],
          "its beginning tells its colours");
  Require(!shape.ok() || kind.height == 0 || (kind.height == (*shape)[0] && kind.width == (*shape)[1]),
          "its beginning tells its size");
  std::vector<uint8_t> values(5 * 4 * 3);
  if (!shape.ok()) {
    RequireRefusal(shape.status(), "a picture");
    Require(!DecodePicture(bytes, name, {5, 4, 3}, true, values.data()).ok(), "it is not decoded either");
    return;
  }
  // Larger images are not decoded, because decoding one takes as long as testing many other inputs.
  constexpr int64_t kMuch = 1 << 20;
  if ((*shape)[0] * (*shape)[1] > kMuch) return;
  for (const int64_t channels : {1, 3}) {
    const absl::Status status = DecodePicture(bytes, name, {5, 4, channels}, true, values.data());
    if (!status.ok()) RequireRefusal(status, "a picture");
    const bool jpeg = bytes[0] == 0xff;
    Require(!status.ok() || !jpeg || HasJpegEnd(bytes), "no picture that was cut off is decoded");
  }
}

}  // namespace tethys::fuzz
