// The features of the first record of a TFRecord file, for a user who has not named them yet.
#ifndef TETHYS_RUNTIME_DATA_TFRECORD_FEATURES_H_
#define TETHYS_RUNTIME_DATA_TFRECORD_FEATURES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/status.h"

namespace tethys {

// A feature of a tf.Example.
struct RecordFeature {
  enum class Kind { kPicture, kBytes, kFloats, kIntegers };
  std::string name;
  Kind kind = Kind::kBytes;  // kPicture: one string that begins like a PNG or JPEG file.
  int64_t values = 0;        // The number of values; of kBytes, the number of bytes in all strings.
  int64_t first = 0;         // kIntegers: the first value.
};

// The features that hold values, sorted by name. Blocks on a read of the file's first record, which is
// verified by its checksums. `cache_dir` is as in RecordFile::Open. Has the errors of RecordFile::Open and
// RecordFile::ReadPayload. InvalidArgument: the record is no tf.Example.
absl::StatusOr<std::vector<RecordFeature>> ReadRecordFeatures(const std::string& path,
                                                              const std::string& cache_dir);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_DATA_TFRECORD_FEATURES_H_
