// The bytes of a cache of decoded samples, in a file or in memory (sample_cache.h). Pure.
//
// A cache contains the samples as they are before augmentation. All numbers are little-endian:
//
//   u64 magic, u32 version, u32 type of values (1: bytes, 2: float32), u64 samples, u8 key[32],
//   u32 axes of a sample, u32 axes of its labels, u64 axes[8], u64 label axes[8],
//   u32 1 if labels are targets and else 0, u32 CRC-32C of all bytes before it
//
// This header has kSampleCacheHeader bytes. At byte kSampleCacheRecords begin the records, one for each
// sample, each padded to a multiple of 8 bytes:
//
//   its values, its labels (int32 or float32), u32 CRC-32C of the values, u32 CRC-32C of the labels
#ifndef TETHYS_RUNTIME_DATA_SAMPLE_CACHE_FORMAT_H_
#define TETHYS_RUNTIME_DATA_SAMPLE_CACHE_FORMAT_H_

#include <cstdint>
#include <string>

#include "absl/types/span.h"
#include "runtime/base/status.h"
#include "runtime/data/sample_source.h"

namespace tethys {

constexpr int64_t kSampleCacheHeader = 200;
constexpr int64_t kSampleCacheRecords = 4096;

// The positions in a cache of `samples` samples, in bytes.
struct SampleCacheLayout {
  SampleCacheLayout(const SampleSpec& spec, int64_t samples);
  int64_t RecordOf(int64_t sample) const { return kSampleCacheRecords + sample * record_bytes; }

  int64_t value_bytes, label_bytes, record_bytes;  // Bytes of one sample's values, labels and record.
  int64_t size;
};

// The checksums at the end of a record.
struct SampleSums {
  uint32_t values = 0, labels = 0;
};
SampleSums SampleSumsOf(const uint8_t* values, int64_t value_bytes, const int32_t* labels,
                        int64_t label_bytes);

// The contents of a cache. `key` has 32 characters (CacheKey).
struct SampleCacheContent {
  SampleSpec spec;
  int64_t samples = 0;
  std::string key;
};

std::string SampleCacheHeader(const SampleCacheContent& content);
// Checks the bytes of the header, and that a cache with this header has `size` bytes. DataLoss names the
// fault.
absl::StatusOr<SampleCacheContent> ParseSampleCacheHeader(absl::Span<const uint8_t> header, int64_t size);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_DATA_SAMPLE_CACHE_FORMAT_H_
