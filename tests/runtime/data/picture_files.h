// Makes small PNG and JPEG files for tests.
#ifndef TETHYS_TESTS_RUNTIME_DATA_PICTURE_FILES_H_
#define TETHYS_TESTS_RUNTIME_DATA_PICTURE_FILES_H_

#include <png.h>
#include <turbojpeg.h>
#include <zlib.h>

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/status.h"

namespace tethys::testing {

// Values [height, width, channels] that change so slowly from pixel to pixel that encoding them as JPEG
// hardly alters them.
inline std::vector<uint8_t> Gradient(int64_t height, int64_t width, int64_t channels) {
  std::vector<uint8_t> values;
  for (int64_t y = 0; y < height; ++y) {
    for (int64_t x = 0; x < width; ++x) {
      for (int64_t c = 0; c < channels; ++c)
        values.push_back(static_cast<uint8_t>(40 + 4 * y + 3 * x + 10 * c));
    }
  }
  return values;
}

// Makes a PNG file. `values` are [height, width, channels]; of 4 channels, the last is transparency.
inline std::string Png(const std::vector<uint8_t>& values, int64_t height, int64_t width, int64_t channels) {
  png_image image = {};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(width);
  image.height = static_cast<png_uint_32>(height);
  image.format = channels == 1 ? PNG_FORMAT_GRAY : channels == 3 ? PNG_FORMAT_RGB : PNG_FORMAT_RGBA;
  png_alloc_size_t size = 0;
  TETHYS_CHECK(png_image_write_to_memory(&image, nullptr, &size, 0, values.data(), 0, nullptr) != 0);
  std::string file(size, '\0');
  TETHYS_CHECK(png_image_write_to_memory(&image, file.data(), &size, 0, values.data(), 0, nullptr) != 0);
  file.resize(size);
  return file;
}

// Writes another size into the header of a PNG file, with the right checksum.
inline void SetPngSize(std::string& png, uint32_t height, uint32_t width) {
  constexpr size_t kType = 12, kWidth = 16, kHeight = 20, kSum = 29;  // Offsets within the first chunk, IHDR.
  const auto put = [&](size_t at, uint32_t number) {
    for (int i = 0; i < 4; ++i) png[at + i] = static_cast<char>(number >> (24 - 8 * i));
  };
  put(kWidth, width);
  put(kHeight, height);
  put(kSum,
      static_cast<uint32_t>(crc32(0, reinterpret_cast<const Bytef*>(png.data()) + kType, kSum - kType)));
}

// Makes a JPEG file at the best quality. `channels` is 1, 3, or 4 for a picture in CMYK. `sampling` is the
// subsampling of colours (TJSAMP); `flags` are flags of tjCompress2.
inline std::string Jpeg(const std::vector<uint8_t>& values, int64_t height, int64_t width, int64_t channels,
                        int sampling = TJSAMP_444, int flags = 0) {
  const tjhandle encoder = tjInitCompress();
  unsigned char* bytes = nullptr;
  unsigned long size = 0;  // NOLINT(google-runtime-int): the library's type.
  TETHYS_CHECK(tjCompress2(encoder, values.data(), static_cast<int>(width), 0, static_cast<int>(height),
                           channels == 1   ? TJPF_GRAY
                           : channels == 3 ? TJPF_RGB
                                           : TJPF_CMYK,
                           &bytes, &size, channels == 1 ? TJSAMP_GRAY : sampling, 100, flags) == 0);
  std::string file(reinterpret_cast<const char*>(bytes), size);
  tjFree(bytes);
  tjDestroy(encoder);
  return file;
}

}  // namespace tethys::testing

#endif  // TETHYS_TESTS_RUNTIME_DATA_PICTURE_FILES_H_
