// What the name of a file or a folder says about its samples: "x_train.npy" holds values for training. Pure;
// any thread.
#ifndef TETHYS_DEPLOY_FIRST_JOB_NAME_WORDS_H_
#define TETHYS_DEPLOY_FIRST_JOB_NAME_WORDS_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace tethys {

enum class NamedPart { kNone, kTrain, kValidation, kTest };
NamedPart PartOfName(absl::string_view name);

enum class NamedContent { kNone, kValues, kLabels };
NamedContent ContentOfName(absl::string_view name);

// A pattern (glob(7)) that matches `names` and no other name of `all`: "train-*.tfrecord". Empty: there is no
// such pattern of one star, there are fewer than three names, or a name has a character that is special in
// patterns.
std::string PatternOf(const std::vector<std::string>& names, const std::vector<std::string>& all);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_FIRST_JOB_NAME_WORDS_H_
