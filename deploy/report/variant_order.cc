#include "deploy/report/variant_order.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/types/optional.h"
#include "deploy/report/variant_name.h"
#include "runtime/telemetry/csv_reader.h"

namespace tethys {
namespace {

// The position of each variant, by the variant's name: 0 for the variant to which `comparison`, the text of a
// comparison.csv, gives the letter A, 1 for B, and so on. Empty if an old build wrote the file without
// letters.
std::map<std::string, int> PositionsIn(absl::string_view comparison) {
  std::map<std::string, int> positions;
  for (CsvReader csv(comparison); csv.Next();) {
    const std::string run(csv.Text("run_dir"));
    const absl::optional<int> position = VariantIndex(csv.Text("variant"));
    if (position.has_value() && !run.empty())
      positions[VariantOfRun(run.substr(run.rfind('/') + 1))] = *position;
  }
  return positions;
}

}  // namespace

std::string VariantOfRun(const std::string& directory) {
  const size_t dash = directory.rfind("-r");
  uint32_t repeat = 0;
  const bool numbered = dash != std::string::npos && absl::SimpleAtoi(directory.substr(dash + 2), &repeat);
  return numbered ? directory.substr(0, dash) : directory;
}

std::vector<int> PutInOrder(absl::string_view comparison, std::vector<std::string>& variants) {
  const std::map<std::string, int> known = PositionsIn(comparison);
  int next = 0;
  for (const auto& [variant, position] : known) next = std::max(next, position + 1);
  std::vector<std::pair<int, std::string>> placed;
  for (const std::string& variant : variants) {
    const auto listed = known.find(variant);
    placed.emplace_back(listed != known.end() ? listed->second : next++, variant);
  }
  std::sort(placed.begin(), placed.end());
  std::vector<int> positions;
  for (size_t i = 0; i < placed.size(); ++i) {
    positions.push_back(placed[i].first);
    variants[i] = placed[i].second;
  }
  return positions;
}

}  // namespace tethys
