#include "runtime/base/nearest_name.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"

namespace tethys {
namespace {

// A longer name gets no suggestion: it is hardly a typing mistake, and the time to compute edit distances
// grows with the square of the length.
constexpr size_t kLongestName = 64;

// Levenshtein's distance, without regard to case: insertions, deletions and replacements of a character.
int EditDistance(absl::string_view a, absl::string_view b) {
  std::vector<int> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (size_t i = 1; i <= a.size(); ++i) {
    int diagonal = row[0];
    row[0] = static_cast<int>(i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const bool same = absl::ascii_tolower(a[i - 1]) == absl::ascii_tolower(b[j - 1]);
      const int replaced = diagonal + (same ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

}  // namespace

std::string NearestName(absl::string_view name, absl::Span<const std::string> known) {
  if (name.size() > kLongestName) return "";
  std::string nearest;
  int least = static_cast<int>(name.size()) / 3 + 2;  // A name with this many edits is no typing mistake.
  for (const std::string& candidate : known) {
    const bool abbreviated = name.size() >= 2 && absl::StartsWithIgnoreCase(candidate, name);
    const int distance = abbreviated ? 0 : EditDistance(name, candidate);
    if (distance >= least) continue;
    least = distance;
    nearest = candidate;
  }
  return nearest;
}

}  // namespace tethys
