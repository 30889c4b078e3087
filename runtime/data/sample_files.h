// The samples of one part of the data that lie in several files, in the order of the files. For formats whose
// message in job.proto names the files as `repeated bytes train` and `test`, and whose files hold both values
// and labels.
#ifndef TETHYS_RUNTIME_DATA_SAMPLE_FILES_H_
#define TETHYS_RUNTIME_DATA_SAMPLE_FILES_H_

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "runtime/data/byte_source.h"
#include "runtime/data/data_format.h"

namespace tethys {

// Members of DataFormat for the format whose message `Fields` returns, for example &proto::Data::csv.
template <auto Fields>
struct FileLists {
  static bool Has(const proto::Data& data, DataPart part) { return !Patterns(data, part).empty(); }
  static absl::StatusOr<std::vector<std::string>> Paths(const proto::Data& data, DataPart part) {
    const auto& patterns = Patterns(data, part);
    return ExpandPaths({patterns.begin(), patterns.end()});
  }
  static std::string Place(const proto::Data& data) {
    const auto& patterns = Patterns(data, DataPart::kTrain);
    return patterns.empty() ? "" : FolderOf(patterns[0]);
  }

 private:
  static const auto& Patterns(const proto::Data& data, DataPart part) {
    const auto& fields = (data.*Fields)();
    return part == DataPart::kTrain ? fields.train() : fields.test();
  }
};

// `File` is what a format keeps of a file. Immutable once all files are added, and then thread-safe.
template <typename File>
class SampleFiles {
 public:
  // Requires samples >= 0. `path` is for errors.
  void Add(const std::string& path, File file, int64_t samples) {
    if (files_.empty()) first_path_ = path;
    files_.push_back(std::move(file));
    ends_.push_back(this->samples() + samples);
  }

  const std::vector<File>& files() const { return files_; }
  int64_t samples() const { return ends_.empty() ? 0 : ends_.back(); }
  // The number of samples of each file.
  std::vector<int64_t> counts() const {
    std::vector<int64_t> counts = ends_;
    for (size_t i = counts.size(); i-- > 1;) counts[i] -= counts[i - 1];
    return counts;
  }
  DataHeader Header(SampleSpec spec) const {
    return {.samples = samples(),
            .spec = std::move(spec),
            .file_samples = counts(),
            .values_name = first_path_,
            .labels_name = first_path_};
  }

  struct Place {
    const File& file;
    int64_t index;  // In the file.
  };
  // Requires 0 <= sample < samples().
  Place Find(int64_t sample) const {
    const size_t file = std::upper_bound(ends_.begin(), ends_.end(), sample) - ends_.begin();
    return {files_[file], sample - (file == 0 ? 0 : ends_[file - 1])};
  }

 private:
  std::string first_path_;
  std::vector<File> files_;
  std::vector<int64_t> ends_;  // By file: the number of samples in it and those before it.
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_DATA_SAMPLE_FILES_H_
