// The samples of one part of the data that lie in several files, in the order of the files. For formats whose
// message in job.proto names the files as `repeated bytes train` and `test`.
#ifndef TETHYS_RUNTIME_DATA_SAMPLE_FILES_H_
#define TETHYS_RUNTIME_DATA_SAMPLE_FILES_H_

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "runtime/data/data_format.h"

namespace tethys {

// The paths and patterns of a part.
template <typename Fields>
std::vector<std::string> PatternsOf(const Fields& fields, DataPart part) {
  const auto& patterns = part == DataPart::kTrain ? fields.train() : fields.test();
  return {patterns.begin(), patterns.end()};
}

// DataFormat::place.
template <typename Fields>
std::string PlaceOf(const Fields& fields) {
  return fields.train().empty() ? "" : FolderOf(fields.train(0));
}

// `File` is what a format keeps of a file. Immutable once all files are added, and then thread-safe.
template <typename File>
class SampleFiles {
 public:
  // Requires samples >= 0.
  void Add(File file, int64_t samples) {
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
  std::vector<File> files_;
  std::vector<int64_t> ends_;  // By file: the number of samples in it and those before it.
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_DATA_SAMPLE_FILES_H_
