// A TFRecord file whose records are read by number. It is a sequence of records (TensorFlow,
// core/lib/io/record_writer.h):
//
//   u64 length, u32 masked CRC-32C of the length, the payload, u32 masked CRC-32C of the payload;
//   little-endian
//
// The first opening reads the lengths of all records. The position (place) of each record is stored in an
// index in the host's cache, so that the next opening is fast, and the memory does not grow with the number
// of records beyond a bound:
//
//   u64 magic, u32 version, u32 CRC-32C of the places, u64 records, u64 size of the file, u8 key[32], u32
//   zero, u32 CRC-32C of the bytes before it, then for each record u64 place; little-endian
//
// The places of a file are held in memory if the limit `room` of Open allows it, which saves a read of the
// index for each record. The places of a small file, of a file whose ByteSource::version is unknown, and of
// every file if there is no cache, are always held in memory. A gzipped file is unpacked into the host's
// cache, and read there. Immutable and thread-safe once it is open.
#ifndef TETHYS_RUNTIME_DATA_TFRECORD_FILE_H_
#define TETHYS_RUNTIME_DATA_TFRECORD_FILE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "runtime/base/file.h"
#include "runtime/base/status.h"
#include "runtime/data/byte_source.h"

namespace tethys {

constexpr int64_t kRecordIndexHeader = 72;

struct RecordIndexContent {
  uint32_t places_crc = 0;
  int64_t records = 0;
  int64_t file_size = 0;
  std::string key;  // The text of the file's CacheKey.
};
std::string RecordIndexHeader(const RecordIndexContent& content);
// Checks the header, and that an index with this header has `size` bytes. DataLoss names the fault.
absl::StatusOr<RecordIndexContent> ParseRecordIndexHeader(absl::Span<const uint8_t> header, int64_t size);

class RecordFile {
 public:
  // Files of fewer bytes have no index in the cache.
  static constexpr int64_t kLeastIndexed = 1 << 20;

  // `cache_dir` is the `folder` that HostCache::Open gets. `room` is the number of places that may be held in
  // memory; the call subtracts the number of places that the file now holds. DataLoss and InvalidArgument
  // name the file and the record.
  static absl::StatusOr<RecordFile> Open(std::shared_ptr<const ByteSource> bytes,
                                         const std::string& cache_dir, int64_t& room);

  int64_t records() const { return records_; }
  // The record's name for errors: "train.tfrecord, record 3".
  std::string Name(int64_t record) const { return absl::StrCat(bytes_->name(), ", record ", record); }
  // The payload of a record, valid until the next call on this thread. DataLoss: the checksum of the payload
  // is wrong.
  absl::StatusOr<absl::string_view> ReadPayload(int64_t record) const;

 private:
  explicit RecordFile(std::shared_ptr<const ByteSource> bytes) : bytes_(std::move(bytes)) {}
  absl::Status FindPlaces(const std::string& cache_dir, int64_t& room);
  absl::Status OpenIndex(const std::string& cache_dir, int64_t& room, absl::Status& damage);

  std::shared_ptr<const ByteSource> bytes_;
  int64_t records_ = 0;
  std::vector<int64_t> held_;  // The place of each record. Empty: the index has the places.
  FileDescriptor index_;       // Valid if held_ is empty.
  std::string index_path_;
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_DATA_TFRECORD_FILE_H_
