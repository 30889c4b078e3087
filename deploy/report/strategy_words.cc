#include "deploy/report/strategy_words.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/types/optional.h"
#include "deploy/text.h"

namespace tethys {
namespace {

// "at most 3 steps apart" of "ps_stale_3"; nullopt for other names.
absl::optional<std::string> BoundWords(absl::string_view strategy) {
  int bound = 0;
  if (!absl::ConsumePrefix(&strategy, "ps_stale_") || !absl::SimpleAtoi(strategy, &bound))
    return absl::nullopt;
  return absl::StrCat("at most ", PluralText(bound, "step"), " apart");
}

}  // namespace

bool IsLeased(absl::string_view strategy) {
  return strategy == "ps_async" || BoundWords(strategy).has_value();
}

std::string ShapeWords(absl::string_view strategy, int workers, int servers) {
  if (strategy == "local") return "one worker alone";
  if (strategy == "mirrored") return PluralText(workers, "mirrored worker");
  const std::string with = absl::StrCat(" with ", PluralText(servers, "parameter server"));
  if (strategy == "ps_sync") return absl::StrCat(PluralText(workers, "worker"), " in lock step", with);
  if (strategy == "ps_async") return absl::StrCat(PluralText(workers, "asynchronous worker"), with);
  const absl::optional<std::string> bound = BoundWords(strategy);
  if (bound.has_value()) return absl::StrCat(PluralText(workers, "worker"), " ", *bound, with);
  return absl::StrCat(strategy, ", ", PluralText(workers, "worker"));
}

}  // namespace tethys
