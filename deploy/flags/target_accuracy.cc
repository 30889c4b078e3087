#include "deploy/flags/target_accuracy.h"

#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace tethys {

FlagSpec TargetAccuracyFlag() {
  return {.name = "target_accuracy",
          .value = "A",
          .help =
              "The validation accuracy for the time to accuracy, as a share, for example 0.85. The time to "
              "accuracy is the training time until the validation accuracy at the end of an epoch was A or "
              "more. Default: the highest whole percent that every run reached."};
}

absl::StatusOr<absl::optional<double>> GivenTarget(const Flags& flags) {
  if (!flags.Has("target_accuracy")) return absl::optional<double>();
  const std::string text = flags.Get("target_accuracy");
  double target = 0;
  if (absl::SimpleAtod(text, &target) && target > 0 && target <= 1) return absl::optional<double>(target);
  return absl::InvalidArgumentError(
      absl::StrCat("--target_accuracy=", text,
                   " must be a share of the samples, above 0 and at most 1, for example 0.85 for 85 %"));
}

}  // namespace tethys
