// The files of many small pictures, one after another in one file of the host's cache. Opening, reading and
// closing a file takes six times as long as reading a few kilobytes of an open file, and on a network file
// system each of these calls takes a round trip to the server. Blocks on the disk. The file holds
//
//   the pictures' files, one after another, u32 CRC-32C of each file, u32 CRC-32C of these checksums;
//   little-endian
#ifndef TETHYS_RUNTIME_DATA_PACKED_PICTURES_H_
#define TETHYS_RUNTIME_DATA_PACKED_PICTURES_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "runtime/base/clock.h"
#include "runtime/base/file.h"
#include "runtime/base/status.h"

namespace tethys {

// Immutable; thread-safe.
class PackedPictures {
 public:
  // Pictures are packed only if there are at least kLeastPictures of them, with at most kMostAverage bytes on
  // average and kMostBytes in all. Decoding a large picture takes far longer than opening its file, and the
  // copy of a large picture takes more disk space.
  static constexpr int64_t kLeastPictures = 1000;
  static constexpr int64_t kMostAverage = 16 << 10;
  static constexpr int64_t kMostBytes = int64_t{512} << 20;
  // The longest time by which packing may delay the start of a job.
  static constexpr Nanoseconds kPatience = 10 * kSecond;

  // Opens the pack of `count` pictures in the cache. Packs the pictures if the cache has no such pack, or if
  // the size or modification time of a file has changed since. `cache_dir` is the `folder` that
  // HostCache::Open gets. Returns null if the pictures are not packed, because they are not small, because
  // the time `patience` has passed, or because the cache cannot be used or is full. The caller then reads
  // each picture from its own file. Has the errors of StateOfLocalFile and ReadPictureFile; DataLoss: a file
  // changed while it was packed.
  static absl::StatusOr<std::shared_ptr<const PackedPictures>> Open(
      const std::string& cache_dir, int64_t count, absl::FunctionRef<std::string(int64_t)> path_of,
      Nanoseconds patience = kPatience);

  // All bytes of a picture's file. They are valid until the next call on this thread. Requires 0 <= index <
  // count. DataLoss: the pack was truncated or is damaged, and has been removed.
  absl::StatusOr<absl::Span<const uint8_t>> Read(int64_t index) const;

 private:
  PackedPictures(FileDescriptor file, std::string path, std::vector<int64_t> ends, std::vector<uint32_t> sums)
      : file_(std::move(file)), path_(std::move(path)), ends_(std::move(ends)), sums_(std::move(sums)) {}
  absl::Status Damaged(int64_t index, absl::string_view why) const;

  const FileDescriptor file_;
  const std::string path_;
  const std::vector<int64_t> ends_;   // A 0, then the end of each picture in the file, in bytes.
  const std::vector<uint32_t> sums_;  // The checksum of each picture.
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_DATA_PACKED_PICTURES_H_
