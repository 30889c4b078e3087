// The order of a report's variants: as in the tables of `tethys compare`, so that a variant has the same
// letters in the report and in the tables. Pure; any thread.
#ifndef TETHYS_DEPLOY_REPORT_VARIANT_ORDER_H_
#define TETHYS_DEPLOY_REPORT_VARIANT_ORDER_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace tethys {

// The variant to which the directory of a run belongs: "NAME" for "NAME-r3"; `directory` itself if it has no
// such suffix.
std::string VariantOfRun(const std::string& directory);

// Sorts `variants`, named as by VariantOfRun, into the order of the tables, and returns the position of each
// in the tables, from 0 (VariantLetters). Variants that `comparison`, the text of a comparison.csv, does not
// list come last.
std::vector<int> PutInOrder(absl::string_view comparison, std::vector<std::string>& variants);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_REPORT_VARIANT_ORDER_H_
