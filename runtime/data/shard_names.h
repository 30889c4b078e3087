// Names of files that are one set, as TensorFlow and Beam write them: "pets-00002-of-00008.tfrecord". Pure;
// any thread.
#ifndef TETHYS_RUNTIME_DATA_SHARD_NAMES_H_
#define TETHYS_RUNTIME_DATA_SHARD_NAMES_H_

#include <string>
#include <vector>

namespace tethys {

// A sentence for each set of files that is incomplete in `paths`: how many files the set has, and which are
// missing. The paths of one set differ in the file's number only.
std::vector<std::string> MissingShardNotes(const std::vector<std::string>& paths);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_DATA_SHARD_NAMES_H_
