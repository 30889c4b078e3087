// Notes on the classes of a job's splits, made before the job trains. The notes concern classes that training
// never sees, and files that are sorted by class although the job uses only a part of these files or keeps
// their order. Pure; any thread.
#ifndef TETHYS_RUNTIME_DATA_CLASS_NOTES_H_
#define TETHYS_RUNTIME_DATA_CLASS_NOTES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "proto/job.pb.h"

namespace tethys {

// Labels of samples that are evenly spread over a split, in the order of the files.
struct SplitLabels {
  std::vector<int32_t> labels;
  bool all = false;  // True if the labels of all samples are included.
};

struct LabelsOfSplits {
  SplitLabels train;
  SplitLabels left_out;  // Samples that data.limit_samples leaves out.
  SplitLabels validation, test;
};

// A sentence for each mistake that the labels show. `classes` is the number of classes of the job.
std::vector<std::string> ClassNotes(const proto::Data& data, int64_t workers, int64_t classes,
                                    const LabelsOfSplits& splits);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_DATA_CLASS_NOTES_H_
