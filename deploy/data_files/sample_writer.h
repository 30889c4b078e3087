// Writes samples to files in the formats of data { } that can hold them. A format is one file of this folder,
// which defines its row of the table in sample_writer.cc. Blocks on the disk; thread-compatible.
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

// The training samples, or those of the test.
struct PartToWrite {
  std::string folder = {};  // It exists.
  std::string name = {};    // "train" or "test"; names of files begin with it.
  SampleSpec spec = {};
  int64_t samples = 0;
  int64_t classes = 0;  // 0: labels are targets.
  int64_t beyond = -1;  // A label that is not below `classes` but that samples have, one to ignore; -1: none.
  std::vector<std::string> class_names = {};  // By the class's number; empty: they have none.
  int files = 1;                              // Number of TFRecord files.
  bool raw = false;                           // TFRecord: values as they are, not as PNG.

  bool trains() const { return name == "train"; }
  // Labels are below it.
  int64_t label_limit() const { return std::max(classes, beyond + 1); }
  std::string Path(const std::string& rest) const { return folder + "/" + name + rest; }
};

class SampleWriter {
 public:
  // Removes all that was not committed.
  virtual ~SampleWriter() = default;
  // As SampleSource::Read gives them. Called for every sample of the part, in order. InvalidArgument: the
  // format cannot hold such a label.
  virtual absl::Status Add(const uint8_t* values, const int32_t* labels) = 0;
  // Gives the files their names.
  virtual absl::Status Commit() = 0;
};

struct WriterFormat {
  const char* name = nullptr;  // The name of the format's message in data { }.
  bool several_files = false;  // Knows PartToWrite's files and raw.
  // Why the format cannot hold such samples; empty if it can.
  std::string (*misfit)(const PartToWrite& part) = nullptr;
  absl::StatusOr<std::unique_ptr<SampleWriter>> (*create)(const PartToWrite& part) = nullptr;
  // Sets the fields by which a job names the part.
  void (*describe)(const PartToWrite& part, proto::Data& data) = nullptr;
};

// InvalidArgument: no such format, or none that can be written.
absl::StatusOr<const WriterFormat*> FindWriterFormat(const std::string& name);
// InvalidArgument: the format cannot hold such samples, or they cannot be split into so many files; the
// error names the formats that can hold them.
absl::Status CheckFormat(const WriterFormat& format, const PartToWrite& part);
// "cifar, idx or npy".
std::string WriterFormatNames();

}  // namespace tethys

#endif  // TETHYS_DEPLOY_DATA_FILES_SAMPLE_WRITER_H_
