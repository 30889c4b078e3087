#include "deploy/model_files/shown_predictions.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "deploy/text.h"

namespace tethys {
namespace {

constexpr int64_t kMostClasses = 3;
constexpr double kLeastProbability = 0.0005;  // The least probability that is shown; its text is "0.1 %".
constexpr size_t kMostOutputs = 8;

}  // namespace

std::string ShownPredictions::ClassText(int64_t index) const {
  const bool named = index >= 0 && index < static_cast<int64_t>(shape_.class_names.size());
  return named ? shape_.class_names[index] : absl::StrCat("class ", index);
}

std::string ShownPredictions::AnswerText(absl::Span<const float> outputs) const {
  if (!shape_.classifies) {
    const absl::Span<const float> first = outputs.subspan(0, kMostOutputs);
    return absl::StrCat(absl::StrJoin(first, ", "), first.size() < outputs.size() ? ", ..." : "");
  }
  const std::vector<double> probabilities = Probabilities(outputs);
  std::vector<int64_t> order(probabilities.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return probabilities[a] > probabilities[b]; });
  std::vector<std::string> parts;
  for (const int64_t index : order) {
    const bool shown =
        static_cast<int64_t>(parts.size()) < kMostClasses && probabilities[index] >= kLeastProbability;
    if (!parts.empty() && !shown) break;
    parts.push_back(absl::StrFormat("%s %.1f %%", ClassText(index), 100 * probabilities[index]));
  }
  return absl::StrJoin(parts, ", ");
}

void ShownPredictions::Add(int32_t label, absl::Span<const float> outputs) {
  const int64_t sample = added_++;
  if (sample >= kMost) return;
  const std::string name = shape_.files.empty() ? absl::StrCat("sample ", sample) : shape_.files[sample];
  absl::StrAppend(&text_, name, ": ", AnswerText(outputs));
  if (shape_.classifies && shape_.labelled) absl::StrAppend(&text_, " (labelled ", ClassText(label), ")");
  text_ += "\n";
}

std::string ShownPredictions::Text() const {
  if (added_ <= kMost) return text_;
  return absl::StrCat(text_, "... and ", CountText(added_ - kMost), " more\n");
}

}  // namespace tethys
