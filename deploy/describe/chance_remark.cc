#include "deploy/describe/chance_remark.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "deploy/report/findings.h"
#include "deploy/text.h"

namespace tethys {
namespace {

constexpr int64_t kFewSteps = 1000;
// After this number of steps, the loss has fallen if the learning rate is suitable.
constexpr int64_t kStepsToMove = 100;
// A loss counts as above the loss of guessing if it is more than this multiple of the loss of guessing.
constexpr double kClearlyAbove = 1.1;
// A loss that differs from the loss of guessing by less than this share counts as equal to it.
constexpr double kNear = 0.05;

constexpr char kLookAtData[] = "look at labels and data (tethys data show JOB)";

std::string WhatToDo(const proto::RunSummary& summary, double chance) {
  const proto::Quality& train = summary.train();
  if (train.has_accuracy() && !IsAtChance(train.accuracy(), chance)) {
    return absl::StrFormat(
        "On training samples the accuracy of the model is %.4f, so the samples of the other split differ "
        "from the training samples, or there are too few training samples: %s, and at how the samples were "
        "split.",
        train.accuracy(), kLookAtData);
  }
  const double guess = -std::log(chance);
  const bool diverges =
      train.samples() > 0 &&
      (!std::isfinite(train.loss()) || (summary.epochs() > 1 && train.loss() > kClearlyAbove * guess));
  if (diverges) {
    return absl::StrFormat(
        "First %s. If data and labels are right, lower optimizer.learning_rate: the training loss, %.4g, is "
        "above the loss of a guess, %.4g, as if steps were too large.",
        kLookAtData, train.loss(), guess);
  }
  const bool stands = train.samples() > 0 && summary.epochs() > 1 && summary.steps() >= kStepsToMove &&
                      summary.steps() < kFewSteps && std::abs(train.loss() - guess) < kNear * guess;
  if (stands) {
    return absl::StrFormat(
        "First %s. If data and labels are right, try a fifth of optimizer.learning_rate, and train longer: "
        "the training loss, %.4g, is still the loss of a guess, %.4g.",
        kLookAtData, train.loss(), guess);
  }
  if (summary.steps() < kFewSteps) {
    return absl::StrCat("First ", kLookAtData,
                        ". If data and labels are right, train longer: the run made "
                        "only ",
                        PluralText(summary.steps(), "update"), ".");
  }
  return absl::StrCat("First ", kLookAtData,
                      ". If data and labels are right, try another optimizer.learning_rate, standardised "
                      "inputs, or longer training.");
}

}  // namespace

std::string ChanceRemark(const proto::RunSummary& summary, int64_t classes) {
  const proto::Quality& quality = summary.has_test() ? summary.test() : summary.validation();
  if (classes < 2 || !quality.has_accuracy()) return "";
  const double chance = 1.0 / static_cast<double>(classes);
  if (!IsAtChance(quality.accuracy(), chance)) return "";
  return absl::StrCat("That is hardly better than a guess among ", classes, " classes. ",
                      WhatToDo(summary, chance));
}

}  // namespace tethys
