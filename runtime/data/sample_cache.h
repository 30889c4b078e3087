// Decoded samples of one part of the data, kept once per host for all its ranks (data.cache): in a file of
// the host's cache, or in memory that has no name in the file system (memfd) and that other ranks open
// through the rank that made it. Formats (DataFormat) do not depend on the cache: a format opens a source,
// and kept_samples.cc has the source copied into the cache.
#ifndef TETHYS_RUNTIME_DATA_SAMPLE_CACHE_H_
#define TETHYS_RUNTIME_DATA_SAMPLE_CACHE_H_

#include <functional>
#include <memory>
#include <string>

#include "proto/job.pb.h"
#include "runtime/base/status.h"
#include "runtime/data/host_cache.h"
#include "runtime/data/label_rules.h"
#include "runtime/data/sample_cache_format.h"
#include "runtime/data/sample_source.h"

namespace tethys {

// The name of the entry on disk for samples with this key.
std::string SampleEntryName(const std::string& key);

struct SampleCacheRequest {
  proto::Data::Cache where = proto::Data::DISK;  // The place of the cache: MEMORY or DISK.
  SampleCacheContent content;
  LabelRules rules;         // Rules that every label must keep, also a label read from the cache.
  int threads = 1;          // The number of threads that fill the cache, at least 1.
  std::string description;  // For errors: "data/pets".
};

// The samples of `content` from the cache. If the cache does not hold them yet, reads them from the source
// that `open` returns, which must have the spec and number of samples of `content`; other processes of the
// host wait meanwhile. ResourceExhausted: there is no space. Has the errors of `open` and of the source's
// samples, too.
absl::StatusOr<std::shared_ptr<const SampleSource>> OpenCachedSamples(
    const HostCache& cache, const SampleCacheRequest& request,
    const std::function<absl::StatusOr<std::shared_ptr<const SampleSource>>()>& open);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_DATA_SAMPLE_CACHE_H_
