#include "deploy/shape_words.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "deploy/text.h"
#include "runtime/shape/job_shape.h"

namespace tethys {
namespace {

// The strategy's name; if the strategy exchanges gradients, also `link` and the number of workers.
std::string WithWorkers(const JobShape& shape, const char* link) {
  const std::string name = StrategyName(shape.strategy);
  if (!TraitsOf(shape.strategy).exchanges) return name;
  return absl::StrCat(name, link, PluralText(shape.workers, "worker"));
}

std::string WithServers(std::string text, const JobShape& shape, const char* link) {
  if (shape.servers > 0) absl::StrAppend(&text, link, PluralText(shape.servers, "server"));
  return text;
}

}  // namespace

std::string ShapeList(const JobShape& shape) {
  return WithServers(absl::StrCat(StrategyName(shape.strategy), ", ", PluralText(shape.workers, "worker")),
                     shape, ", ");
}

std::string ProcessesText(const JobShape& shape) {
  return WithServers(PluralText(shape.workers, "worker"), shape, " and ");
}

std::string ShapeText(const JobShape& shape) { return WithServers(WithWorkers(shape, ", "), shape, " and "); }

std::string ShapePhrase(const JobShape& shape) {
  return WithServers(WithWorkers(shape, " with "), shape, " and ");
}

std::string ShapeWords(const JobShape& shape) {
  const ShapeTraits& traits = TraitsOf(shape.strategy);
  if (!traits.exchanges) return "one worker alone";
  std::string text = PluralText(shape.workers, traits.worker);
  if (!traits.servers()) return text;
  if (shape.strategy.bound.has_value()) {
    absl::StrAppend(&text, " at most ", PluralText(*shape.strategy.bound, "step"), " apart");
  } else if (*traits.together != '\0') {
    absl::StrAppend(&text, " ", traits.together);
  }
  return absl::StrCat(text, " with ", PluralText(shape.servers, "parameter server"));
}

std::vector<std::string> StrategyNotes(absl::Span<const JobStrategy> strategies) {
  std::vector<std::string> notes, manners;
  for (const ShapeTraits& traits : KnownTraits()) {
    const bool used = std::any_of(strategies.begin(), strategies.end(), [&](const JobStrategy& strategy) {
      return strategy.family == traits.family;
    });
    if (!used || !traits.exchanges) continue;
    if (traits.servers()) {
      manners.emplace_back(traits.manner);
    } else {
      notes.push_back(traits.manner);
    }
  }
  if (manners.empty()) return notes;
  const std::string last = std::move(manners.back());
  manners.pop_back();
  notes.push_back(
      absl::StrCat("Parameter servers keep the model; workers send them gradients and fetch parameters, ",
                   manners.empty() ? "" : absl::StrCat(absl::StrJoin(manners, ", "), " or "), last, "."));
  return notes;
}

}  // namespace tethys
