// Pictures in PNG and JPEG files, by libpng and libjpeg-turbo. Pure; any thread.
#ifndef TETHYS_RUNTIME_DATA_PICTURE_H_
#define TETHYS_RUNTIME_DATA_PICTURE_H_

#include <cstdint>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "runtime/base/status.h"
#include "runtime/tensor/variable.h"

namespace tethys {

// True if the bytes begin like a PNG or JPEG file.
bool LooksLikePicture(absl::Span<const uint8_t> bytes);

// Returns the name of a picture for errors: the path of its file, or "train.tfrecord, record 3". Called only
// for errors.
using PictureName = absl::FunctionRef<std::string()>;

// The shape [height, width, channels] of a picture, with 1 channel for grey and 3 for colour, regardless of
// the file's depth, palette or transparency. Reads the header only. DataLoss: not a picture, or a damaged
// one; the error begins with `name`. ResourceExhausted: more than 2^26 pixels.
absl::StatusOr<Shape> ReadPictureShape(absl::Span<const uint8_t> bytes, PictureName name);

// The properties that KindOfPicture finds in the first bytes of a picture's file. KindOfPicture returns no
// errors. A few thousand bytes are enough, unless a JPEG begins with long metadata, such as a thumbnail.
struct PictureKind {
  int channels = 0;               // 1 for grey, 3 for colour; 0: not known.
  int bits = 0;                   // Bits of a channel; less than 8 in a file with a palette.
  int64_t height = 0, width = 0;  // Pixels; 0: not known.
};
PictureKind KindOfPicture(absl::Span<const uint8_t> begin);

// Decodes a picture into `shape`: [height, width, channels], channels 1 or 3. Grey and colour are converted
// to each other, 16 bits a channel are cut to 8, transparency is ignored. A picture of another size is
// resized if `resize` is set, by linear interpolation between the centres of pixels; otherwise another size
// is InvalidArgument. A faulty JPEG is no error if TensorFlow and Pillow decode it despite its faults, such
// as superfluous bytes. A file that was cut off is an error. Has the errors of ReadPictureShape. Writes the
// elements of `shape` to `values`.
absl::Status DecodePicture(absl::Span<const uint8_t> bytes, PictureName name, const Shape& shape, bool resize,
                           uint8_t* values);

// Changes the size of an image by linear interpolation between the centres of pixels, without smoothing the
// image before. Shapes are [height, width, channels] with the same channels.
void ResizePixels(const uint8_t* in, const Shape& from, const Shape& to, uint8_t* out);
void ResizePixels(const float* in, const Shape& from, const Shape& to, float* out);
// Resizes a map of labels [height, width]: each pixel takes the label of the nearest pixel.
void ResizeLabels(const int32_t* in, const Shape& from, const Shape& to, int32_t* out);

// True if samples of this shape are pictures: [height, width], or [height, width, channels] with 1 or 3
// channels, of at most 2^26 pixels.
bool IsPicture(const Shape& sample);

// Returns the bytes of a PNG file that contains the picture. Requires IsPicture(sample).
absl::StatusOr<std::string> EncodePng(const uint8_t* values, const Shape& sample);

// These functions convert between the shape of a picture, [height, width, channels], and the shape of its
// sample, which for a grey picture has no axis of channels: [height, width].
Shape WithoutGreyChannel(const Shape& picture);
Shape WithChannels(const Shape& sample);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_DATA_PICTURE_H_
