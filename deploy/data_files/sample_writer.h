// Writes samples to files, in the formats of data { }. Each format is implemented by one file of this folder,
// which defines the row of the format in the table of sample_writer.cc. Blocks on the disk;
// thread-compatible.
#ifndef TETHYS_DEPLOY_DATA_FILES_SAMPLE_WRITER_H_
#define TETHYS_DEPLOY_DATA_FILES_SAMPLE_WRITER_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "proto/job.pb.h"
#include "runtime/base/status.h"
#include "runtime/data/sample_source.h"

namespace tethys {

// A part of the data, the training samples or the test samples, and how to write it.
struct PartToWrite {
  std::string folder = {};  // The folder for the files; it must exist.
  std::string name = {};    // "train" or "test"; file names begin with it.
  SampleSpec spec = {};
  int64_t samples = 0;
  int64_t classes = 0;  // The number of classes; 0: the labels are targets.
  // The largest label of the samples that is not below `classes`; -1: there is no such label. The loss
  // ignores such labels.
  int64_t beyond = -1;
  std::vector<std::string> class_names = {};  // One name per class; empty: classes have no names.
  int files = 1;                              // The number of TFRecord files.
  bool raw = false;                           // TFRecord: values are written as raw bytes, not as PNG.

  bool trains() const { return name == "train"; }
  // All labels are below this limit.
  int64_t label_limit() const { return std::max(classes, beyond + 1); }
  std::string Path(const std::string& rest) const { return folder + "/" + name + rest; }
};

class SampleWriter {
 public:
  // Removes all files that were not committed.
  virtual ~SampleWriter() = default;
  // Takes a sample as SampleSource::Read returns it. Called for every sample of the part, in order.
  // InvalidArgument: the format cannot represent the sample's label.
  virtual absl::Status Add(const uint8_t* values, const int32_t* labels) = 0;
  // Renames the written files to their final names.
  virtual absl::Status Commit() = 0;
};

struct WriterFormat {
  const char* name = nullptr;  // The name of the format's message in data { }.
  bool several_files = false;  // True if the format uses `files` and `raw` of PartToWrite.
  // The reason why files of the format cannot contain the samples of `part`; empty if they can.
  std::string (*misfit)(const PartToWrite& part) = nullptr;
  absl::StatusOr<std::unique_ptr<SampleWriter>> (*create)(const PartToWrite& part) = nullptr;
  // Sets the fields of `data` with which a job reads the files of the part.
  void (*describe)(const PartToWrite& part, proto::Data& data) = nullptr;
};

// InvalidArgument: there is no such format, or it cannot be written.
absl::StatusOr<const WriterFormat*> FindWriterFormat(const std::string& name);
// InvalidArgument: files of the format cannot contain the samples of `part` (the error names the formats that
// can), or part.files is out of range.
absl::Status CheckFormat(const WriterFormat& format, const PartToWrite& part);
// The names of all formats: "cifar, csv, idx, ...".
std::string WriterFormatNames();

}  // namespace tethys

#endif  // TETHYS_DEPLOY_DATA_FILES_SAMPLE_WRITER_H_
