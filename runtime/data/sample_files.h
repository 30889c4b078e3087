// The samples of one part of the data, which may lie in several files, in the order of the files. Used by
// formats whose message in job.proto names the files as `repeated bytes train` and `test`, and whose files
// hold both values and labels.
#ifndef TETHYS_RUNTIME_DATA_SAMPLE_FILES_H_
#define TETHYS_RUNTIME_DATA_SAMPLE_FILES_H_

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_join.h"
#include "runtime/base/empty_file.h"
#include "runtime/data/byte_source.h"
#include "runtime/data/data_format.h"
#include "runtime/data/shard_names.h"

namespace tethys {

// The functions of DataFormat for a format with lists of files. `Fields` returns the format's message in
// proto::Data, for example &proto::Data::csv.
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

// `File` is the type of the state that the format keeps for one file. A SampleFiles that OpenAll has returned
// is immutable and thread-safe.
template <typename File>
class SampleFiles {
 public:
  // The state of one file that was opened, and the number of its samples.
  struct Opened {
    File file;
    int64_t samples = 0;
  };
  using Open = absl::FunctionRef<absl::StatusOr<Opened>(const std::string& path,
                                                        std::shared_ptr<const ByteSource> bytes)>;
  // Opens `paths` in their order. `open` makes the state of a file from its bytes, and counts its samples. A
  // file without samples, which several writing processes may leave behind, is left out, and the notes of
  // Header name it. InvalidArgument: no file has samples.
  static absl::StatusOr<SampleFiles> OpenAll(const std::vector<std::string>& paths, Open open) {
    SampleFiles files;
    std::vector<std::string> empty;
    for (const std::string& path : paths) {
      absl::StatusOr<std::shared_ptr<const ByteSource>> bytes = OpenFile(path);
      if (!bytes.ok() && (!IsEmptyFile(bytes.status()) || paths.size() == 1)) return bytes.status();
      int64_t samples = 0;
      if (bytes.ok()) {
        absl::StatusOr<Opened> opened = open(path, *std::move(bytes));
        if (!opened.ok() && (!IsEmptyFile(opened.status()) || paths.size() == 1)) return opened.status();
        if (opened.ok()) samples = opened->samples;
        if (samples > 0) files.Add(path, std::move(opened->file), samples);
      }
      files.counts_.push_back(samples);
      if (samples == 0) empty.push_back(path);
    }
    if (files.files_.empty()) return NoSamples(paths);
    files.NoteMissing(paths, empty);
    return files;
  }

  const std::vector<File>& files() const { return files_; }  // The files that have samples.
  int64_t samples() const { return ends_.empty() ? 0 : ends_.back(); }
  DataHeader Header(SampleSpec spec) const {
    return {.samples = samples(),
            .spec = std::move(spec),
            .file_samples = counts_,
            .values_name = first_path_,
            .labels_name = first_path_,
            .notes = notes_};
  }

  struct Place {
    const File& file;
    int64_t index;  // The sample's index in the file.
  };
  // The file and the index of a sample. Requires 0 <= sample < samples().
  Place Find(int64_t sample) const {
    const size_t file = std::upper_bound(ends_.begin(), ends_.end(), sample) - ends_.begin();
    return {files_[file], sample - (file == 0 ? 0 : ends_[file - 1])};
  }

 private:
  void Add(const std::string& path, File file, int64_t samples) {
    if (files_.empty()) first_path_ = path;
    files_.push_back(std::move(file));
    ends_.push_back(this->samples() + samples);
  }
  static absl::Status NoSamples(const std::vector<std::string>& paths) {
    const std::string which = paths.size() == 1 ? absl::StrCat(paths[0], ": the file holds")
                                                : absl::StrCat("the ", paths.size(), " files from ",
                                                               paths.front(), " to ", paths.back(), " hold");
    return absl::InvalidArgumentError(
        absl::StrCat(which, " no samples: fetch or write ", paths.size() == 1 ? "it" : "them", " again"));
  }
  void NoteMissing(const std::vector<std::string>& paths, std::vector<std::string>& empty) {
    constexpr size_t kMostNamed = 3;
    notes_ = MissingShardNotes(paths);
    if (empty.empty()) return;
    const size_t count = empty.size();
    empty.resize(std::min(count, kMostNamed));
    notes_.push_back(absl::StrCat(count, " of ", paths.size(), count == 1 ? " files holds" : " files hold",
                                  " no samples: ", absl::StrJoin(empty, ", "),
                                  count > kMostNamed ? ", ..." : ""));
  }

  std::string first_path_;
  std::vector<File> files_;
  std::vector<int64_t> ends_;    // For each file, the number of samples in this file and all files before it.
  std::vector<int64_t> counts_;  // The number of samples of every path, including files without samples.
  std::vector<std::string> notes_;
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_DATA_SAMPLE_FILES_H_
