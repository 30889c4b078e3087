// Helpers of the checks of a job: Problems keeps the first problem, IsName checks names, and the constants
// are limits of several fields.
#ifndef TETHYS_RUNTIME_JOB_PROBLEMS_H_
#define TETHYS_RUNTIME_JOB_PROBLEMS_H_

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "runtime/base/status.h"
#include "runtime/job/job_validation.h"

namespace tethys {

inline constexpr double kMaxSamplesOfJob = static_cast<double>(std::numeric_limits<int64_t>::max());
inline constexpr double kMaxEpochs = 1 << 20;

// Keeps the first problem only, because later problems often follow from it.
class Problems {
 public:
  explicit Problems(const FieldLocator& where) : where_(where) {}
  void Add(absl::string_view field, absl::string_view problem) {
    if (!status_.ok()) return;
    status_ = absl::InvalidArgumentError(absl::StrCat(where_(field), ": ", field, " ", problem));
  }
  void AddIf(bool wrong, absl::string_view field, absl::string_view problem) {
    if (wrong) Add(field, problem);
  }
  const absl::Status& status() const { return status_; }

 private:
  const FieldLocator& where_;
  absl::Status status_;
};

// True if `name` may be the name of a job or a layer. The rule is strict, because these names appear in names
// of files and variables, and in tables.
inline bool IsName(absl::string_view name) {
  constexpr size_t kLongestName = 100;
  return !name.empty() && name.size() <= kLongestName && std::all_of(name.begin(), name.end(), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-' || c == '.';
  });
}
inline constexpr char kNameRule[] = "is not a name: use 1 to 100 letters, digits, '_', '-' and '.'";

}  // namespace tethys

#endif  // TETHYS_RUNTIME_JOB_PROBLEMS_H_
