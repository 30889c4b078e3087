// The rows of the table of formats that can be written. Included by the formats' files and sample_writer.cc.
#ifndef TETHYS_DEPLOY_DATA_FILES_WRITER_FORMATS_H_
#define TETHYS_DEPLOY_DATA_FILES_WRITER_FORMATS_H_

#include "absl/strings/string_view.h"
#include "deploy/data_files/sample_writer.h"

namespace tethys {

extern const WriterFormat kCifarWriter;
extern const WriterFormat kCsvWriter;
extern const WriterFormat kIdxWriter;
extern const WriterFormat kImageFolderWriter;
extern const WriterFormat kNpyWriter;
extern const WriterFormat kTfrecordWriter;

// The error for a part whose samples the format cannot represent. The error names the formats that can
// represent them.
absl::Status CannotHold(const WriterFormat& format, const PartToWrite& part, absl::string_view why);

// Checks that a label is below `limit`, the limit of the format. (A label that the loss ignores may be larger
// than the job's classes.)
absl::Status CheckLabel(const WriterFormat& format, const PartToWrite& part, int32_t label, int64_t limit);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_DATA_FILES_WRITER_FORMATS_H_
