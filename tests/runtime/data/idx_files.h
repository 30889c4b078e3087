// Makes small files in IDX, the format of MNIST, for tests.
#ifndef TETHYS_TESTS_RUNTIME_DATA_IDX_FILES_H_
#define TETHYS_TESTS_RUNTIME_DATA_IDX_FILES_H_

#include <zlib.h>

#include <cstdint>
#include <string>

#include "proto/job.pb.h"
#include "runtime/tensor/variable.h"
#include "tests/testing/temp_directory.h"

namespace tethys::testing {

inline std::string IdxHeader(const Shape& shape, uint8_t type = 0x08) {
  std::string bytes{0, 0, static_cast<char>(type), static_cast<char>(shape.size())};
  for (const int64_t axis : shape) {
    for (const int shift : {24, 16, 8, 0}) bytes.push_back(static_cast<char>(axis >> shift));
  }
  return bytes;
}

// `count` bytes. Byte i is i mod 251, so that neighbouring bytes and neighbouring rows of 4 bytes differ.
inline std::string Counting(int64_t count) {
  std::string values;
  for (int64_t i = 0; i < count; ++i) values.push_back(static_cast<char>(i % 251));
  return values;
}

inline std::string Idx(const Shape& shape) { return IdxHeader(shape) + Counting(*ElementCount(shape)); }

inline std::string Gzip(const std::string& bytes) {
  constexpr int kGzipFormat = 16 + MAX_WBITS;
  z_stream stream{};
  TETHYS_CHECK(deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, kGzipFormat, 8, Z_DEFAULT_STRATEGY) ==
               Z_OK);
  std::string out(deflateBound(&stream, bytes.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  TETHYS_CHECK(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

// Labels 0, 1, ..., classes - 1, 0, 1, ...
inline std::string IdxLabels(int64_t count, int64_t classes) {
  std::string bytes = IdxHeader({count});
  for (int64_t i = 0; i < count; ++i) bytes.push_back(static_cast<char>(i % classes));
  return bytes;
}

// Writes `train` and `test` samples of 2 x 2 pixels in 5 classes into `directory`.
inline proto::Data WriteIdxData(const TempDirectory& directory, int64_t train, int64_t test) {
  proto::Data data;
  data.set_classes(5);
  proto::Idx& idx = *data.mutable_idx();
  idx.set_train_images(directory.Write("train-images", Idx({train, 2, 2})));
  idx.set_train_labels(directory.Write("train-labels", IdxLabels(train, 5)));
  if (test == 0) return data;
  idx.set_test_images(directory.Write("test-images.gz", Gzip(Idx({test, 2, 2}))));
  idx.set_test_labels(directory.Write("test-labels.gz", Gzip(IdxLabels(test, 5))));
  return data;
}

}  // namespace tethys::testing

#endif  // TETHYS_TESTS_RUNTIME_DATA_IDX_FILES_H_
