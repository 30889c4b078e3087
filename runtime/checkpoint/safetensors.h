// The safetensors file format, strictly: https://github.com/huggingface/safetensors.
//
//   0      u64   header bytes n, little-endian
//   8      n     JSON object {"NAME": {"dtype": "F32", "shape": [784, 128],
//                "data_offsets": [begin, end]}, ..., "__metadata__": {string: string}},
//                then spaces so that the data start at a multiple of 64
//   8 + n        the tensors' bytes, row-major, little-endian; offsets count from here
//
// Pure functions on bytes: any input may be given, nothing is believed before it is checked. Thread-safe.
#ifndef TETHYS_RUNTIME_CHECKPOINT_SAFETENSORS_H_
#define TETHYS_RUNTIME_CHECKPOINT_SAFETENSORS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/tensor/variable.h"

namespace tethys {

// The format allows 100 MB; ours need about 150 bytes per tensor.
constexpr int64_t kMaxSafetensorsHeaderBytes = int64_t{16} << 20;
constexpr int64_t kMaxSafetensorsEntries = 16384;
constexpr int64_t kSafetensorsLengthBytes = 8;

struct SafetensorsEntry {
  std::string name;
  Shape shape = {};
  int64_t begin = 0;  // Bytes after the header; the length is 4 x the product of the shape (float32 only).
  int64_t end = 0;
  bool operator==(const SafetensorsEntry&) const = default;
};

// Lays tensors out one after the other from byte 0, in the order given, by setting begin and end.
// InvalidArgument for a bad shape or too many entries.
absl::Status LayOut(std::vector<SafetensorsEntry>& entries);

// Length field and header, padded; the first entry's bytes follow. Requires entries from LayOut.
absl::StatusOr<std::string> EncodeSafetensorsHeader(const std::vector<SafetensorsEntry>& entries);

// The header's size from a file's first 8 bytes. DataLoss when the file, of `file_bytes`, cannot hold it.
absl::StatusOr<int64_t> DecodeSafetensorsHeaderBytes(const char* first8, int64_t file_bytes);

// `json` is the header without the length field, `data_bytes` what follows it in the file. Entries come back
// in the order of their data. DataLoss naming tensor and rule for: invalid JSON, a field missing or unknown,
// a dtype other than F32, shape x 4 != end - begin, ranges that overlap, leave a gap, or do not end where the
// file ends.
absl::StatusOr<std::vector<SafetensorsEntry>> DecodeSafetensorsHeader(absl::string_view json,
                                                                      int64_t data_bytes);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_CHECKPOINT_SAFETENSORS_H_
