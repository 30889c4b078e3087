// The fields of a job whose paths begin with a text, for the completion of --set and --vary in shells. Pure;
// any thread.
#ifndef TETHYS_RUNTIME_JOB_FIELD_CANDIDATES_H_
#define TETHYS_RUNTIME_JOB_FIELD_CANDIDATES_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace tethys {

// `text` is the beginning of FIELD=VALUE. Returns what may stand in its place:
//   "optimizer.ad"     "optimizer.adagrad.", "optimizer.adam.": a message ends in "."
//   "optimizer.learn"  "optimizer.learning_rate=": a value ends in "="
//   "strat"            "strategy.", "strategy=": a message with a choice can be set as well
//   "model.la"         "model.layer[0].": an element of a list of messages
//   "strategy=m"       "strategy=mirrored": a member of the choice, a word of an enumeration, true or false
// Returns nothing if the text before the last "." or "=" names no field.
std::vector<std::string> FieldCandidates(absl::string_view text);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_JOB_FIELD_CANDIDATES_H_
