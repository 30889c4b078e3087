#include "runtime/data/picture.h"

#include <png.h>
#include <turbojpeg.h>

#include <algorithm>
#include <cmath>
#include <csetjmp>
#include <cstring>
#include <memory>
#include <vector>

#include "absl/types/optional.h"
#include "runtime/data/jpeg_markers.h"
#include "runtime/data/known_format.h"

namespace tethys {
namespace {

constexpr int64_t kMaxPixels = int64_t{1} << 26;
constexpr uint8_t kPngMagic[] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
constexpr uint8_t kJpegMagic[] = {0xff, 0xd8, 0xff};

template <size_t N>
bool BeginsWith(absl::Span<const uint8_t> bytes, const uint8_t (&magic)[N]) {
  return bytes.size() >= N && std::memcmp(bytes.data(), magic, N) == 0;
}

absl::Status Damaged(PictureName name, const char* kind, const char* reason) {
  return absl::DataLossError(absl::StrCat(name(), ": damaged ", kind, " (", reason, "): fetch it again"));
}

absl::Status CheckPixels(PictureName name, int64_t height, int64_t width) {
  if (height <= kMaxPixels && width <= kMaxPixels && height * width <= kMaxPixels) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat(name(), ": the header announces ", height, " x ", width, " pixels, more than ", kMaxPixels,
                   " pixels, the limit for a picture: make the picture smaller"));
}

// ------------------------------------------------------------------------------------------ PNG

// libpng reports errors by longjmp, which skips destructors. So ReadHeader and Decode, which call setjmp,
// must not construct objects with destructors.
class PngReader {
 public:
  explicit PngReader(absl::Span<const uint8_t> bytes) : left_(bytes) {
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, OnError, [](png_structp, png_const_charp) {});
    TETHYS_CHECK(png_ != nullptr, "no memory for a PNG decoder");
    info_ = png_create_info_struct(png_);
    TETHYS_CHECK(info_ != nullptr, "no memory for a PNG decoder");
    png_set_read_fn(png_, this, OnRead);
    png_set_user_limits(png_, kMaxPixels, kMaxPixels);
    png_set_chunk_malloc_max(png_, 8 << 20);
    // Values are kept as they are in the file, as in other programs for training: no colour profile changes
    // them.
    static constexpr png_byte kProfiles[] = "gAMA\0cHRM\0sRGB\0iCCP";
    png_set_keep_unknown_chunks(png_, PNG_HANDLE_CHUNK_NEVER, kProfiles, 4);
  }
  ~PngReader() { png_destroy_read_struct(&png_, &info_, nullptr); }
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;

  // Returns false on an error, which message() describes.
  bool ReadHeader() {
    if (setjmp(jump_) != 0) return false;
    png_read_info(png_, info_);
    return true;
  }
  // Writes height() rows of width() * channels bytes to `values`. Requires that ReadHeader returned true.
  bool Decode(int64_t channels, uint8_t* values) {
    if (setjmp(jump_) != 0) return false;
    png_set_expand(png_);
    png_set_strip_16(png_);
    png_set_strip_alpha(png_);
    if (channels == 3 && !coloured()) png_set_gray_to_rgb(png_);
    if (channels == 1 && coloured()) png_set_rgb_to_gray(png_, PNG_ERROR_ACTION_NONE, 0.299, 0.587);
    const int passes = png_set_interlace_handling(png_);
    png_read_update_info(png_, info_);
    if (static_cast<int64_t>(png_get_rowbytes(png_, info_)) != width() * channels) {
      png_error(png_, "rows of an unexpected length");
    }
    for (int pass = 0; pass < passes; ++pass) {
      for (int64_t y = 0; y < height(); ++y) png_read_row(png_, values + y * width() * channels, nullptr);
    }
    png_read_end(png_, nullptr);
    return true;
  }
  int64_t height() const { return png_get_image_height(png_, info_); }
  int64_t width() const { return png_get_image_width(png_, info_); }
  bool coloured() const { return (png_get_color_type(png_, info_) & PNG_COLOR_MASK_COLOR) != 0; }
  const char* message() const { return message_; }

 private:
  [[noreturn]] static void OnError(png_structp png, png_const_charp message) {
    auto* self = static_cast<PngReader*>(png_get_error_ptr(png));
    std::strncpy(self->message_, message, sizeof(self->message_) - 1);
    std::longjmp(self->jump_, 1);
  }
  static void OnRead(png_structp png, png_bytep out, size_t size) {
    auto* self = static_cast<PngReader*>(png_get_io_ptr(png));
    if (self->left_.size() < size) png_error(png, "it ends early");
    std::memcpy(out, self->left_.data(), size);
    self->left_.remove_prefix(size);
  }

  absl::Span<const uint8_t> left_;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  std::jmp_buf jump_ = {};
  char message_[80] = {};
};

// Reads the header. Has the errors of ReadPictureShape.
absl::StatusOr<Shape> ReadPngShape(PngReader& reader, PictureName name) {
  if (!reader.ReadHeader()) return Damaged(name, "PNG", reader.message());
  TETHYS_RETURN_IF_ERROR(CheckPixels(name, reader.height(), reader.width()));
  return Shape{reader.height(), reader.width(), reader.coloured() ? 3 : 1};
}

// ------------------------------------------------------------------------------------------ JPEG

// The decoder of the calling thread. It keeps its memory from picture to picture.
tjhandle JpegDecoder() {
  struct Destroy {
    void operator()(void* decoder) const { tjDestroy(decoder); }
  };
  thread_local const std::unique_ptr<void, Destroy> decoder(tjInitDecompress());
  TETHYS_CHECK(decoder != nullptr, "no memory for a JPEG decoder");
  return decoder.get();
}

absl::StatusOr<Shape> ReadJpegShape(absl::Span<const uint8_t> bytes, PictureName name) {
  int width = -1, height = -1, subsampling = -1, colours = -1;
  // A warning about the header is accepted if all four values were set nevertheless, because the pixels may
  // still be intact.
  if (tjDecompressHeader3(JpegDecoder(), bytes.data(), bytes.size(), &width, &height, &subsampling,
                          &colours) != 0 &&
      (tjGetErrorCode(JpegDecoder()) != TJERR_WARNING || width < 1 || height < 1 || subsampling < 0 ||
       colours < 0)) {
    return Damaged(name, "JPEG", tjGetErrorStr2(JpegDecoder()));
  }
  if (colours == TJCS_CMYK || colours == TJCS_YCCK) {
    return absl::InvalidArgumentError(absl::StrCat(name(), ": a JPEG in CMYK: convert it to RGB"));
  }
  TETHYS_RETURN_IF_ERROR(CheckPixels(name, height, width));
  return Shape{height, width, colours == TJCS_GRAY ? 1 : 3};
}

// Decodes files that cause warnings of libjpeg-turbo, such as superfluous bytes before the end marker, as
// TensorFlow and Pillow do. A file that was cut off is refused, because libjpeg-turbo would invent the rest.
bool DecodeInSpiteOfWarnings(absl::Span<const uint8_t> bytes, const Shape& shape, uint8_t* out) {
  if (tjGetErrorCode(JpegDecoder()) != TJERR_WARNING || !HasJpegEnd(bytes)) return false;
  return tjDecompress2(JpegDecoder(), bytes.data(), bytes.size(), out, static_cast<int>(shape[1]), 0,
                       static_cast<int>(shape[0]), shape[2] == 1 ? TJPF_GRAY : TJPF_RGB, 0) == 0 ||
         tjGetErrorCode(JpegDecoder()) == TJERR_WARNING;
}

// Decodes a JPEG file whose picture has the size of `shape`.
absl::Status DecodeJpeg(absl::Span<const uint8_t> bytes, PictureName name, const Shape& shape,
                        uint8_t* values) {
  const int width = static_cast<int>(shape[1]), height = static_cast<int>(shape[0]);
  const int64_t row = shape[1] * shape[2], size = shape[0] * row;
  // libjpeg-turbo bypasses the processor's caches when it writes rows in colour that begin at multiples of 32
  // bytes, as the rows of a batch do. It is faster to decode to other addresses and to copy the picture: this
  // takes 0.8 of the time for 32 x 32 pixels and 0.96 for 224 x 224. The gain ends when a picture no longer
  // fits into the second-level cache.
  constexpr int64_t kAlignment = 32, kBeside = 8, kMostCopied = 1 << 18;
  thread_local std::vector<uint8_t> beside;
  uint8_t* out = values;
  if (shape[2] == 3 && size <= kMostCopied && row % kAlignment == 0 &&
      reinterpret_cast<uintptr_t>(values) % kAlignment == 0) {
    beside.resize(std::max<size_t>(beside.size(), kBeside + size));
    out = beside.data() + kBeside;  // No multiple of 32: a vector's memory begins at a multiple of 16.
  }
  if (tjDecompress2(JpegDecoder(), bytes.data(), bytes.size(), out, width, 0, height,
                    shape[2] == 1 ? TJPF_GRAY : TJPF_RGB, TJFLAG_STOPONWARNING) != 0 &&
      !DecodeInSpiteOfWarnings(bytes, shape, out)) {
    return Damaged(name, "JPEG",
                   HasJpegEnd(bytes) ? tjGetErrorStr2(JpegDecoder()) : "it ends before its end marker");
  }
  if (out != values) std::memcpy(values, out, size);
  return absl::OkStatus();
}

// ------------------------------------------------------------------------------------------ resizing

// The position of a pixel of the resized image along one axis: between the pixels `first` and `second` of the
// original image.
struct Between {
  int64_t first, second;
  float weight;  // The weight of the second pixel.
};
Between PlaceOf(int64_t at, int64_t to, int64_t from) {
  const float centre = (static_cast<float>(at) + 0.5f) * static_cast<float>(from) / static_cast<float>(to);
  const float place = std::clamp(centre - 0.5f, 0.0f, static_cast<float>(from - 1));
  const auto first = static_cast<int64_t>(place);
  return {first, std::min(first + 1, from - 1), place - static_cast<float>(first)};
}

}  // namespace

Shape WithoutGreyChannel(const Shape& picture) {
  return picture[2] == 1 ? Shape{picture[0], picture[1]} : picture;
}

Shape WithChannels(const Shape& sample) {
  return sample.size() == 2 ? Shape{sample[0], sample[1], 1} : sample;
}

bool LooksLikePicture(absl::Span<const uint8_t> bytes) {
  return BeginsWith(bytes, kPngMagic) || BeginsWith(bytes, kJpegMagic);
}

absl::StatusOr<Shape> ReadPictureShape(absl::Span<const uint8_t> bytes, PictureName name) {
  if (BeginsWith(bytes, kJpegMagic)) return ReadJpegShape(bytes, name);
  if (!BeginsWith(bytes, kPngMagic)) {
    return absl::DataLossError(
        absl::StrCat(name(), ": neither a PNG nor a JPEG file: fetch or convert it again", WhatItIs(bytes)));
  }
  PngReader reader(bytes);
  return ReadPngShape(reader, name);
}

PictureKind KindOfPicture(absl::Span<const uint8_t> begin) {
  // After its signature, a PNG file has u32 bytes and "IHDR", then u32 width, u32 height, u8 bits, u8 colour
  // type. Against the standard, PngReader also accepts a file with another chunk before "IHDR".
  constexpr size_t kName = 12, kWidth = 16, kHeight = 20, kBits = 24, kColour = 25;
  if (BeginsWith(begin, kPngMagic) && begin.size() > kColour) {
    if (std::memcmp(&begin[kName], "IHDR", 4) != 0) return {};
    const bool coloured = (begin[kColour] & PNG_COLOR_MASK_COLOR) != 0;
    const auto number = [&](size_t at) {
      return int64_t{begin[at]} << 24 | begin[at + 1] << 16 | begin[at + 2] << 8 | begin[at + 3];
    };
    return {.channels = coloured ? 3 : 1,
            .bits = begin[kBits],
            .height = number(kHeight),
            .width = number(kWidth)};
  }
  if (!BeginsWith(begin, kJpegMagic)) return {};
  const JpegFrame frame = FirstFrameOfJpeg(begin);
  return {.channels = frame.components == 1 || frame.components == 3 ? frame.components : 0,
          .bits = 8,
          .height = frame.height,
          .width = frame.width};
}

absl::Status DecodePicture(absl::Span<const uint8_t> bytes, PictureName name, const Shape& shape, bool resize,
                           uint8_t* values) {
  if (BeginsWith(bytes, kJpegMagic) && IsPlainJpegOf(bytes, shape[0], shape[1])) {
    return DecodeJpeg(bytes, name, shape, values);
  }
  absl::optional<PngReader> png;  // First reads the header (ReadPngShape), then decodes the pixels.
  if (BeginsWith(bytes, kPngMagic)) png.emplace(bytes);
  TETHYS_ASSIGN_OR_RETURN(Shape own, png ? ReadPngShape(*png, name) : ReadPictureShape(bytes, name));
  own[2] = shape[2];
  const auto decode = [&](uint8_t* out) {
    if (!png) return DecodeJpeg(bytes, name, own, out);
    return png->Decode(own[2], out) ? absl::OkStatus() : Damaged(name, "PNG", png->message());
  };
  if (own == shape) return decode(values);
  if (!resize) {
    return absl::InvalidArgumentError(
        absl::StrCat(name(), ": ", own[0], " x ", own[1], " pixels, but the first picture has ", shape[0],
                     " x ", shape[1], ": all pictures must have one size: give a size in data.resize"));
  }
  thread_local std::vector<uint8_t> whole;
  whole.resize(own[0] * own[1] * own[2]);
  TETHYS_RETURN_IF_ERROR(decode(whole.data()));
  ResizePixels(whole.data(), own, shape, values);
  // Memory above this size is freed, so that one huge picture costs nothing later.
  constexpr size_t kKept = 1 << 24;
  if (whole.size() > kKept) whole = {};
  return absl::OkStatus();
}

namespace {

// Resizes an image as ResizePixels does. Computes in the type `Real`; `round` converts a result to the type
// of the values.
template <typename Real, typename T, typename Round>
void Resize(const T* in, const Shape& from, const Shape& to, Round round, T* out) {
  const int64_t channels = to[2];
  std::vector<Between> columns(to[1]);
  for (int64_t x = 0; x < to[1]; ++x) columns[x] = PlaceOf(x, to[1], from[1]);
  for (int64_t y = 0; y < to[0]; ++y) {
    const Between row = PlaceOf(y, to[0], from[0]);
    const T* const above = in + row.first * from[1] * channels;
    const T* const below = in + row.second * from[1] * channels;
    for (const Between& column : columns) {
      for (int64_t c = 0; c < channels; ++c) {
        const auto mix = [&](const T* line) {
          const Real left = line[column.first * channels + c], right = line[column.second * channels + c];
          return left + (right - left) * column.weight;
        };
        const Real upper = mix(above);
        *out++ = round(upper + (mix(below) - upper) * row.weight);
      }
    }
  }
}

}  // namespace

void ResizePixels(const uint8_t* in, const Shape& from, const Shape& to, uint8_t* out) {
  Resize<float>(
      in, from, to, [](float value) { return static_cast<uint8_t>(std::lround(value)); }, out);
}

void ResizePixels(const float* in, const Shape& from, const Shape& to, float* out) {
  // The difference of two floats may exceed the range of float, so doubles are used.
  Resize<double>(
      in, from, to, [](double value) { return static_cast<float>(value); }, out);
}

void ResizeLabels(const int32_t* in, const Shape& from, const Shape& to, int32_t* out) {
  // Along one axis, the new image has `side` pixels and the original image has `size` pixels. Returns the
  // index of the original pixel that contains the centre of the new pixel `at`.
  const auto nearest = [](int64_t at, int64_t side, int64_t size) {
    return (2 * at + 1) * size / (2 * side);
  };
  for (int64_t y = 0; y < to[0]; ++y) {
    const int32_t* const row = in + nearest(y, to[0], from[0]) * from[1];
    for (int64_t x = 0; x < to[1]; ++x) *out++ = row[nearest(x, to[1], from[1])];
  }
}

bool IsPicture(const Shape& sample) {
  if (sample.size() < 2 || sample.size() > 3) return false;
  if (sample.size() == 3 && sample[2] != 1 && sample[2] != 3) return false;
  return sample[0] > 0 && sample[1] > 0 && sample[0] <= kMaxPixels / sample[1];
}

absl::StatusOr<std::string> EncodePng(const uint8_t* values, const Shape& sample) {
  TETHYS_CHECK(IsPicture(sample));
  png_image image = {};
  image.version = PNG_IMAGE_VERSION;
  image.height = static_cast<png_uint_32>(sample[0]);
  image.width = static_cast<png_uint_32>(sample[1]);
  image.format = sample.size() == 3 && sample[2] == 3 ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY;
  std::string file(PNG_IMAGE_PNG_SIZE_MAX(image), '\0');
  png_alloc_size_t size = file.size();
  if (png_image_write_to_memory(&image, file.data(), &size, 0, values, 0, nullptr) == 0) {
    return absl::InternalError(
        absl::StrCat("libpng cannot encode a picture ", ShapeText(sample), ": ", image.message));
  }
  file.resize(size);
  return file;
}

}  // namespace tethys
