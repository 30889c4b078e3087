// Decides which samples of a job are kept in the host's cache, and opens samples from the cache or from their
// files. Samples that must be unpacked or parsed are kept even if the job does not ask for a cache: then one
// process of a host unpacks or parses the samples for all processes, and for the next run. If the cache
// cannot be used, or has too little space, such samples are read without the cache.
#ifndef TETHYS_RUNTIME_DATA_KEPT_SAMPLES_H_
#define TETHYS_RUNTIME_DATA_KEPT_SAMPLES_H_

#include <cstdint>
#include <memory>
#include <string>

#include "proto/job.pb.h"
#include "runtime/base/status.h"
#include "runtime/data/data_format.h"
#include "runtime/data/sample_source.h"

namespace tethys {

// The numbers of samples of a part that the job uses: the first samples for training or for the test, the
// last samples for the validation.
struct UsedSamples {
  int64_t first = 0, last = 0;
};

// Parts with fewer bytes are kept only if data.cache requests a cache, because every process can read them
// from their files as fast as from the cache.
constexpr int64_t kLeastKept = int64_t{1} << 20;

// True if the samples of a part with this spec and number of samples are kept.
bool KeepsSamples(const proto::Data& data, DataPart part, const SampleSpec& spec, int64_t samples);
// True if reading this many training samples, which the job uses, requires much unpacking or parsing. Also
// accepts data with chief:// in their paths, as the functions of dataset.h do.
bool UnpacksSamples(const proto::Data& data, const SampleSpec& spec, int64_t samples);
// True if the mean and deviation computed from this many training samples are kept in the host's cache.
bool KeepsScaling(const proto::Data& data, const SampleSpec& spec, int64_t samples);

// A hash of everything that determines the samples: the fields of the job, the files and their versions. Has
// the errors of FileVersion.
absl::StatusOr<std::string> SamplesKey(const proto::Job& job, DataPart part, const UsedSamples& used);

// Opens the used samples of a part or, if samples are not kept, all samples of the part. Has the errors of
// DataFormat::open, and of reading a sample that is to be kept.
absl::StatusOr<std::shared_ptr<const SampleSource>> OpenSamples(const proto::Job& job, DataPart part,
                                                                const DataHeader& header,
                                                                const UsedSamples& used);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_DATA_KEPT_SAMPLES_H_
