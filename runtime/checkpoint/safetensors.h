// A strict implementation of the safetensors file format, https://github.com/huggingface/safetensors.
//
//   0      u64   header bytes n, little-endian
//   8      n     JSON object {"NAME": {"dtype": "F32", "shape": [784, 128],
//                "data_offsets": [begin, end]}, ..., "__metadata__": {string: string}},
//                then spaces so that the data start at a multiple of 64
//   8 + n        the tensors' bytes, row-major, little-endian; offsets count from here
//
// Pure functions on bytes. Any input may be given; nothing is trusted before it is checked. Thread-safe.
#ifndef TETHYS_RUNTIME_CHECKPOINT_SAFETENSORS_H_
#define TETHYS_RUNTIME_CHECKPOINT_SAFETENSORS_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/tensor/variable.h"

namespace tethys {

// The largest header that is read or written, in bytes. The format allows headers of 100 MB; ours need about
// 150 bytes per tensor.
constexpr int64_t kMaxSafetensorsHeaderBytes = int64_t{16} << 20;
constexpr int64_t kMaxSafetensorsEntries = 16384;
constexpr int64_t kSafetensorsLengthBytes = 8;

inline constexpr char kFloat32Dtype[] = "F32";

struct SafetensorsEntry {
  std::string name;
  Shape shape = {};
  // The range of the tensor's bytes, counted from the end of the header. Its length is the product of the
  // shape times the size of an element.
  int64_t begin = 0;
  int64_t end = 0;
  std::string dtype = kFloat32Dtype;
  bool operator==(const SafetensorsEntry&) const = default;
};

// Sets begin and end of each entry so that the tensors follow one another from byte 0, in the given order.
// InvalidArgument: a bad shape or too many entries.
absl::Status LayOut(std::vector<SafetensorsEntry>& entries);

// Encodes the length field and the padded header; the data of the first entry must follow. Requires float32
// entries from LayOut, and metadata of distinct keys in UTF-8.
absl::StatusOr<std::string> EncodeSafetensorsHeader(
    const std::vector<SafetensorsEntry>& entries,
    const std::vector<std::pair<std::string, std::string>>& metadata = {});

// Returns the header's size, which a file's first 8 bytes hold. DataLoss: a file of `file_bytes` bytes cannot
// hold such a header.
absl::StatusOr<int64_t> DecodeSafetensorsHeaderBytes(const char* first8, int64_t file_bytes);

enum class SafetensorsTypes {
  kFloat32,  // Only float32; other dtypes are refused.
  kAll,      // All dtypes of the format.
};

// `json` is the header without the length field; `data_bytes` is the number of bytes that follow it in the
// file. Entries are returned in the order of their data. DataLoss names the tensor and the fault: invalid
// JSON, a missing or unknown field, a dtype that is refused, end - begin that is not the size of the shape,
// or ranges that overlap, leave a gap or do not end at the end of the file.
absl::StatusOr<std::vector<SafetensorsEntry>> DecodeSafetensorsHeader(
    absl::string_view json, int64_t data_bytes, SafetensorsTypes types = SafetensorsTypes::kFloat32);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_CHECKPOINT_SAFETENSORS_H_
