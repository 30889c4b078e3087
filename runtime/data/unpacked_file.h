// Gzipped files unpacked into the host's cache, for formats that read at any place of a file.
#ifndef TETHYS_RUNTIME_DATA_UNPACKED_FILE_H_
#define TETHYS_RUNTIME_DATA_UNPACKED_FILE_H_

#include <memory>
#include <string>

#include "runtime/base/status.h"
#include "runtime/data/byte_source.h"

namespace tethys {

// Whether the file begins as gzip does.
absl::StatusOr<bool> LooksGzipped(const ByteSource& packed);

// What the gzip stream holds, unpacked once a host. `cache_dir` as in HostCache::Open. DataLoss: the stream
// is damaged, truncated, or followed by something else. FailedPrecondition: the file's version is unknown, so
// a cached copy could be an old one. ResourceExhausted: the cache is full.
absl::StatusOr<std::shared_ptr<const ByteSource>> Unpacked(const ByteSource& packed,
                                                           const std::string& cache_dir);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_DATA_UNPACKED_FILE_H_
