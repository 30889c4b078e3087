// Unpacks gzipped files into the host's cache, for formats that read at any position of a file.
#ifndef TETHYS_RUNTIME_DATA_UNPACKED_FILE_H_
#define TETHYS_RUNTIME_DATA_UNPACKED_FILE_H_

#include <memory>
#include <string>

#include "runtime/base/status.h"
#include "runtime/data/byte_source.h"

namespace tethys {

// True if the file begins like a gzip file.
absl::StatusOr<bool> LooksGzipped(const ByteSource& packed);

// The contents of the gzip stream, unpacked once per host. `cache_dir` is the `folder` that HostCache::Open
// gets. DataLoss: the stream is damaged, truncated, or followed by other bytes. FailedPrecondition: the
// file's version is unknown, so a cached copy could be outdated. ResourceExhausted: the cache is full.
absl::StatusOr<std::shared_ptr<const ByteSource>> Unpacked(const ByteSource& packed,
                                                           const std::string& cache_dir);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_DATA_UNPACKED_FILE_H_
