// The contents of the splits of a job's data, as text. Reads every label. Blocks on reads of files.
#ifndef TETHYS_DEPLOY_DATA_FILES_DATA_LISTING_H_
#define TETHYS_DEPLOY_DATA_FILES_DATA_LISTING_H_

#include <string>

#include "proto/job.pb.h"
#include "runtime/base/status.h"
#include "runtime/data/dataset.h"

namespace tethys {

// Lists the shape of samples and labels, then for each split the number of samples, the number of samples of
// each class, and the first labels. Fails if a sample's label cannot be read.
absl::StatusOr<std::string> DataListing(const proto::Job& job, const Datasets& datasets);

// Reads every sample of every split. DataLoss lists the first samples that cannot be read, each with the
// reason, and says how many samples cannot be read.
absl::Status CheckSamples(const Datasets& datasets);

// Writes at most `count` samples of the beginning of each split, as FOLDER/SPLIT-INDEX-label-L.png, or
// without "-label-L" if the samples do not have one class each. Creates the folder; returns the number of
// files. InvalidArgument: the samples are no pictures.
absl::StatusOr<int64_t> WriteFirstImages(const Datasets& datasets, int64_t count, const std::string& folder);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_DATA_FILES_DATA_LISTING_H_
