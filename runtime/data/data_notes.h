// Notes for the user about a job's data before it trains, in addition to the notes of its format
// (DataHeader::notes). Reads some labels of each split, so it blocks on reads of local files; any thread.
#ifndef TETHYS_RUNTIME_DATA_DATA_NOTES_H_
#define TETHYS_RUNTIME_DATA_DATA_NOTES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "proto/job.pb.h"
#include "runtime/data/data_format.h"

namespace tethys {

// Returns sentences about channels that seem to be the first axis, and about the classes of the splits
// (class_notes.h). The first `used` samples of `train` are trained on. `test` is null without a test. A label
// that cannot be read is no error here, because training will report it.
std::vector<std::string> DataNotes(const proto::Job& job, const DataHeader& train, int64_t used,
                                   const DataHeader* test);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_DATA_DATA_NOTES_H_
