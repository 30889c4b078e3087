// Files in protobuf's text format (job files and studies), with the places of their fields for messages to
// the user. Pure; any thread.
#ifndef TETHYS_RUNTIME_JOB_TEXT_FORMAT_FILE_H_
#define TETHYS_RUNTIME_JOB_TEXT_FORMAT_FILE_H_

#include <google/protobuf/text_format.h>

#include <string>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "runtime/base/status.h"
#include "runtime/job/job_fields.h"

namespace tethys {

// Parses `text`, with or without a byte order mark, into `message`, and the places of its fields into `tree`.
// Has the errors of WithoutByteOrderMark. InvalidArgument: `text` cannot be parsed; the error message is then
// "FILE:LINE:COLUMN: " and protobuf's message about the first error, changed by `reword`. Later errors mostly
// follow from the first.
absl::Status ParseTextFormat(absl::string_view text, absl::string_view file,
                             absl::FunctionRef<std::string(const std::string&)> reword,
                             google::protobuf::Message& message,
                             google::protobuf::TextFormat::ParseInfoTree& tree);

// "FILE:LINE:COLUMN". protobuf counts lines and columns from 0; this text, like editors, from 1.
std::string PlaceText(absl::string_view file, int line, int column);

// A position in a file, with lines and columns counted from 1.
struct TextPlace {
  std::string file;
  int line = 0;  // 0: only the file is known.
  int column = 0;
};
// The place of a text "FILE:LINE:COLUMN"; any other text is taken for the name of a file.
TextPlace ParsePlace(absl::string_view text);

// The place "FILE:LINE:COLUMN" of the field that `steps` lead to from a message of `type`, or of the nearest
// message around the field that has a place; FILE if no message around the field has one.
std::string PlaceInFile(absl::string_view file, const google::protobuf::TextFormat::ParseInfoTree& tree,
                        const google::protobuf::Descriptor& type, absl::Span<const PathStep> steps);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_JOB_TEXT_FORMAT_FILE_H_
