// The formats of data. A format is one file of this folder, which defines its row of the table in
// data_format.cc, and a message in job.proto.
#ifndef TETHYS_RUNTIME_DATA_DATA_FORMAT_H_
#define TETHYS_RUNTIME_DATA_DATA_FORMAT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "proto/job.pb.h"
#include "runtime/base/status.h"
#include "runtime/data/label_rules.h"
#include "runtime/data/sample_source.h"

namespace tethys {

// The parts of the data, each of which has files of its own. The validation split is the end of kTrain.
enum class DataPart { kTrain, kTest };

// The facts about a part that the headers and sizes of its files show.
struct DataHeader {
  int64_t samples = 0;
  SampleSpec spec;
  // The number of samples of each of the part's files, in the order of the files. Empty: the format does not
  // spread samples over several files that could be divided among workers.
  std::vector<int64_t> file_samples = {};
  // For errors: the names of the places that hold the values and the labels. A place is a file, an array of
  // an archive or a folder. Both places may be in one file.
  std::string values_name;
  std::string labels_name;
  // Sentences for the user, each naming its file: what is left out, and what looks like a mistake.
  std::vector<std::string> notes = {};
  // Opens the data once more, so that single labels can be read at any position without reading the values.
  // Null: the format cannot read single labels.
  std::function<absl::StatusOr<std::shared_ptr<const SampleSource>>()> open_labels = nullptr;
};

struct DataFormat {
  proto::Data::SourceCase kind = proto::Data::SOURCE_NOT_SET;
  // True if the job has this part. Every job has kTrain.
  bool (*has)(const proto::Data& data, DataPart part) = nullptr;
  // The paths of a part's files or, for folders with very many files, of some files in every folder. A host
  // that has these files is taken to have the part. NotFound: no file matches a pattern, or a folder does not
  // exist.
  absl::StatusOr<std::vector<std::string>> (*files)(const proto::Data& data, DataPart part) = nullptr;
  // Returns every file of a part. Null if `files` already returns every file.
  absl::StatusOr<std::vector<std::string>> (*every_file)(const proto::Data& data, DataPart part) = nullptr;
  // The place of the data, for reports: "data/fashion-mnist".
  std::string (*place)(const proto::Data& data) = nullptr;
  // The names of the classes by their numbers; null if the format has no names.
  absl::StatusOr<std::vector<std::string>> (*class_names)(const proto::Data& data) = nullptr;
  // The bytes that a reader holds in memory for each sample; many formats leave samples in their files.
  int64_t (*bytes_held)(const proto::Data& data, const SampleSpec& spec) = nullptr;
  // True if a part must be unpacked or parsed before it can be read. One process of a host then does this for
  // all processes (kept_samples.h). Null: samples are read directly from their files, or decoded one by one.
  bool (*unpacks)(const proto::Data& data, DataPart part) = nullptr;
  // Checks the labels of a part that must be unpacked, without reading the values. Checks nothing if there
  // are more than kMostLabelsChecked bytes of labels. Null: labels cannot be checked without the values.
  absl::Status (*check_labels)(const proto::Data& data, DataPart part, const LabelRules& rules) = nullptr;
  // Reads the facts about a part, but little of its files. Errors name file and remedy. Requires that the job
  // has the part.
  absl::StatusOr<DataHeader> (*read_header)(const proto::Data& data, DataPart part,
                                            const LabelRules& rules) = nullptr;
  // Opens the part; has the errors of read_header, too. InvalidArgument: a label that `rules` do not accept,
  // or a target that is not finite. A format that holds its samples in memory finds such a label or target
  // here. Other formats find it when the sample is read.
  absl::StatusOr<std::shared_ptr<const SampleSource>> (*open)(const proto::Data& data, DataPart part,
                                                              const LabelRules& rules) = nullptr;
};

// The most bytes of labels that check_labels reads.
constexpr int64_t kMostLabelsChecked = int64_t{16} << 20;

// Requires that the data have a source.
const DataFormat& FormatOf(const proto::Data& data);

// Every file of a part of the data.
absl::StatusOr<std::vector<std::string>> EveryFileOf(const proto::Data& data, DataPart part);

// "a/b" for "a/b/c.gz". A path without a folder, such as "chief://a.npy", is returned unchanged.
std::string FolderOf(const std::string& path);

// InvalidArgument: the number of samples in one file differs from the number of labels in the other.
absl::Status CheckSameCount(const std::string& samples_path, int64_t samples, const std::string& labels_path,
                            int64_t labels);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_DATA_DATA_FORMAT_H_
