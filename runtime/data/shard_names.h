// Names of files that are one set, as TensorFlow and Beam write them: "pets-00002-of-00008.tfrecord". Pure;
// any thread.
#ifndef TETHYS_RUNTIME_DATA_SHARD_NAMES_H_
#define TETHYS_RUNTIME_DATA_SHARD_NAMES_H_

#include <string>
#include <vector>

namespace tethys {

// A sentence for each set of which `paths` lack files: how many there are, and which are missing. Sets are
// told by everything in the path but the file's number.
std::vector<std::string> MissingShardNotes(const std::vector<std::string>& paths);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_DATA_SHARD_NAMES_H_
