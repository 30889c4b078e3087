// Which samples of a job are kept in the host's cache, and opening them from there or from their files.
// Samples that have to be unpacked or parsed to be read are kept though the job does not say so: one process
// of a host then does it for all, and for the next run. Without a cache that can be used, or with too little
// room in it, such samples are read as if they were not kept.
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

// The samples of a part that the job uses: the first, for training or the test, and the last, for the
// validation.
struct UsedSamples {
  int64_t first = 0, last = 0;
};

// Parts of fewer bytes are not kept unless data.cache says so: every process reads them as fast.
constexpr int64_t kLeastKept = int64_t{1} << 20;

// Whether the samples of a part, which are of this format and number, are kept.
bool KeepsSamples(const proto::Data& data, DataPart part, const SampleSpec& spec, int64_t samples);
// Whether reading that many training samples, which the job uses, means unpacking or parsing much. Also takes
// data with chief:// in their paths, as functions of dataset.h do.
bool UnpacksSamples(const proto::Data& data, const SampleSpec& spec, int64_t samples);
// Whether the mean and deviation of that many training samples are kept, if they are computed.
bool KeepsScaling(const proto::Data& data, const SampleSpec& spec, int64_t samples);

// A hash of everything that determines the samples: the fields of the job, the files and their versions. Has
// the errors of FileVersion.
absl::StatusOr<std::string> SamplesKey(const proto::Job& job, DataPart part, const UsedSamples& used);

// The used samples of a part, or, where they are not kept, all. Has the errors of DataFormat::open and those
// of reading a sample that is to be kept.
absl::StatusOr<std::shared_ptr<const SampleSource>> OpenSamples(const proto::Job& job, DataPart part,
                                                                const DataHeader& header,
                                                                const UsedSamples& used);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_DATA_KEPT_SAMPLES_H_
