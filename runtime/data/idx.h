// Reads IDX files, the format of MNIST and similar data sets. Blocking; every function may be called from any
// thread.
//
//   u8 0, u8 0, u8 type (8: bytes, 13: float32, big-endian), u8 axes, then axes x u32 big-endian, then the
//   values, last axis fastest
//
// A file is plain or gzipped, which is recognised by its content. Nothing in a file is trusted before it is
// checked: a header that announces more than the file can contain is refused before memory is allocated, and
// memory grows only with the bytes that were read. Errors name the file, what is wrong with it and what to
// do.
#ifndef TETHYS_RUNTIME_DATA_IDX_H_
#define TETHYS_RUNTIME_DATA_IDX_H_

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>

#include "runtime/base/status.h"
#include "runtime/tensor/batch.h"
#include "runtime/tensor/variable.h"

namespace tethys {

enum class IdxKind {
  kImages,   // Bytes or float32; 3 axes or more: [count, height, width, ...]
  kLabels,   // Bytes; [count], or maps [count, height, width]
  kTargets,  // float32; [count, ...]
};

// A byte array. If the system can remap pages, the array grows in place, without a copy and a second buffer.
// Move-only.
class ByteBuffer {
 public:
  uint8_t* data() { return data_.get(); }
  const uint8_t* data() const { return data_.get(); }
  int64_t size() const { return size_; }
  // Changes the size; new bytes are undefined. ResourceExhausted: the system has no memory; the contents are
  // kept.
  absl::Status Resize(int64_t size);

 private:
  struct Free {
    void operator()(uint8_t* data) const { std::free(data); }
  };
  std::unique_ptr<uint8_t[], Free> data_;
  int64_t size_ = 0;
};

struct IdxHeader {
  Shape shape;  // The first axis counts samples.
  ValueType type = ValueType::kByte;
};

struct IdxArray {
  IdxHeader header;
  ByteBuffer values;  // As many values as the shape says; float32 in the byte order of the host.
};

// Reads the header only. NotFound: no such file. InvalidArgument: an empty file, a wrong magic or type, a
// zero axis, or more values than any such file can hold. DataLoss: the file is truncated or damaged, as far
// as header and size show it.
absl::StatusOr<IdxHeader> ReadIdxHeader(const std::string& path, IdxKind kind);

// Reads the whole file. Has the errors of ReadIdxHeader. DataLoss also means missing values, surplus bytes or
// a damaged gzip stream.
absl::StatusOr<IdxArray> ReadIdx(const std::string& path, IdxKind kind);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_DATA_IDX_H_
