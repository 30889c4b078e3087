// Writes a message as the text of a job file, with comments. Pure; any thread.
#ifndef TETHYS_RUNTIME_JOB_COMMENTED_TEXT_H_
#define TETHYS_RUNTIME_JOB_COMMENTED_TEXT_H_

#include <google/protobuf/message.h>

#include <string>
#include <vector>

#include "absl/functional/function_ref.h"

namespace tethys {

// The comments of one field: "# text", each with its number sign.
struct FieldComment {
  std::vector<std::string> above = {};  // The lines above the field; an empty line separates comments.
  std::string beside = {};              // The comment behind the field, or behind the brace that opens it.

  bool empty() const { return above.empty() && beside.empty(); }
};

// Returns the text of `message`, with the fields in the order in which the contract declares them. Calls
// `comment_of` once for each field and each element of a list that the message has, in the order of the text,
// with a path such as "model.layer[1].dense.units". A message takes one line if it is short, and has neither
// comments nor several messages inside. ParseTextFormat reads the same message from the text.
std::string CommentedText(const google::protobuf::Message& message,
                          absl::FunctionRef<FieldComment(const std::string& path)> comment_of);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_JOB_COMMENTED_TEXT_H_
