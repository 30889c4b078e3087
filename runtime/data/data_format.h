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

// The files that a job names; the validation split is the end of those for training.
enum class DataPart { kTrain, kTest };

// What a part holds, as far as headers and sizes of its files show it.
struct DataHeader {
  int64_t samples = 0;
  SampleSpec spec;
  // The samples of each of the part's files, in their order. Empty: the format does not spread samples over
  // files that workers could share out.
  std::vector<int64_t> file_samples = {};
  // For errors: where the values and the labels are, which may be one file.
  std::string values_name;
  std::string labels_name;
  // Sentences for the person who trains, each naming its file: what is left out, and what looks like a
  // mistake.
  std::vector<std::string> notes = {};
  // Opens the part for reads of single labels, which cost little, at any place. Null: the format cannot.
  std::function<absl::StatusOr<std::shared_ptr<const SampleSource>>()> open_labels = nullptr;
};

struct DataFormat {
  proto::Data::SourceCase kind = proto::Data::SOURCE_NOT_SET;
  // Whether the job has this part. It always has kTrain.
  bool (*has)(const proto::Data& data, DataPart part) = nullptr;
  // The paths of a part's files, or of some in every folder where there may be very many: a host that has
  // them has the part. NotFound: no file matches a pattern, or no such folder.
  absl::StatusOr<std::vector<std::string>> (*files)(const proto::Data& data, DataPart part) = nullptr;
  // Every file of a part, if that is not what `files` returns; otherwise null.
  absl::StatusOr<std::vector<std::string>> (*every_file)(const proto::Data& data, DataPart part) = nullptr;
  // Where the data is, for reports: "data/fashion-mnist".
  std::string (*place)(const proto::Data& data) = nullptr;
  // The names of the classes by their numbers; null if the format has no names.
  absl::StatusOr<std::vector<std::string>> (*class_names)(const proto::Data& data) = nullptr;
  // What a reader holds in memory for each sample, which many formats leave in its file.
  int64_t (*bytes_held)(const proto::Data& data, const SampleSpec& spec) = nullptr;
  // Whether a part has to be unpacked or parsed to be read, so that one process of a host does it for all
  // (kept_samples.h); null: its samples are read from their files as they are, or decoded one by one.
  bool (*unpacks)(const proto::Data& data, DataPart part) = nullptr;
  // Checks the labels of a part that is unpacked, without its samples, unless they are many. Null: nothing
  // can be checked apart from the samples.
  absl::Status (*check_labels)(const proto::Data& data, DataPart part, const LabelRules& rules) = nullptr;
  // Reads little of the files. Errors name file and remedy. Requires that the job has the part.
  absl::StatusOr<DataHeader> (*read_header)(const proto::Data& data, DataPart part,
                                            const LabelRules& rules) = nullptr;
  // Opens the part; has the errors of read_header, too. A format that holds its samples in memory checks them
  // here, others where samples are read: labels that `rules` do not accept and targets that are not finite
  // are InvalidArgument.
  absl::StatusOr<std::shared_ptr<const SampleSource>> (*open)(const proto::Data& data, DataPart part,
                                                              const LabelRules& rules) = nullptr;
};

// The most bytes of labels that check_labels reads.
constexpr int64_t kMostLabelsChecked = int64_t{16} << 20;

// Requires that the data have a source.
const DataFormat& FormatOf(const proto::Data& data);

// Every file of a part of the data.
absl::StatusOr<std::vector<std::string>> EveryFileOf(const proto::Data& data, DataPart part);

// "a/b" for "a/b/c.gz"; a path without a folder, such as "chief://a.npy", as it is.
std::string FolderOf(const std::string& path);

// InvalidArgument: two files, one with samples and one with their labels, hold different numbers of them.
absl::Status CheckSameCount(const std::string& samples_path, int64_t samples, const std::string& labels_path,
                            int64_t labels);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_DATA_DATA_FORMAT_H_
