#include "deploy/sweep/batch_range.h"

#include <set>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "deploy/sweep/meter_words.h"

namespace tethys {
namespace {

constexpr char kForm[] =
    "write FIRST-LAST, FIRST-LAST:STEP or numbers, separated by commas, as in 1-70 or 8,16,32";

absl::Status Refused(absl::string_view part, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("--batches: '", part, "' ", what, "; ", kForm));
}

absl::Status AddPart(absl::string_view part, std::set<int64_t>& batches) {
  const std::pair<absl::string_view, absl::string_view> range_and_step =
      absl::StrSplit(part, absl::MaxSplits(':', 1));
  const std::vector<absl::string_view> ends = absl::StrSplit(range_and_step.first, absl::MaxSplits('-', 1));
  const bool has_step = part.find(':') != absl::string_view::npos;
  int64_t first = 0, step = 1;
  if (!absl::SimpleAtoi(ends[0], &first)) return Refused(part, "does not begin with a whole number");
  int64_t last = first;
  if (ends.size() == 2 && !absl::SimpleAtoi(ends[1], &last))
    return Refused(part, "does not end with a whole number");
  if (has_step && !absl::SimpleAtoi(range_and_step.second, &step))
    return Refused(part, "has a step that is no number");
  if (first < 1 || last > kMostBatch) return Refused(part, absl::StrCat("is not within 1 to ", kMostBatch));
  if (last < first) return Refused(part, absl::StrCat("is empty, because ", last, " is below ", first));
  if (step < 1) return Refused(part, "has a step below 1");
  for (int64_t batch = first; batch <= last; batch += step) {
    batches.insert(batch);
    if (static_cast<int64_t>(batches.size()) <= kMostBatches) continue;
    return Refused(part, absl::StrCat("makes more than ", kMostBatches, " batches: take a step, as in ",
                                      first, "-", last, ":", (last - first) / 100 + 1));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<int64_t>> ParseBatches(absl::string_view text) {
  std::set<int64_t> batches;
  for (const absl::string_view part : absl::StrSplit(text, ','))
    TETHYS_RETURN_IF_ERROR(AddPart(part, batches));
  return std::vector<int64_t>(batches.begin(), batches.end());
}

std::string BatchesText(const std::vector<int64_t>& batches) {
  if (batches.size() < 4) return absl::StrJoin(batches, ", ");
  const int64_t step = batches[1] - batches[0];
  for (size_t i = 2; i < batches.size(); ++i) {
    if (batches[i] - batches[i - 1] != step) {
      return absl::StrCat(batches.size(), " batches from ", batches.front(), " to ", batches.back());
    }
  }
  return absl::StrCat(batches.front(), " to ", batches.back(), step == 1 ? "" : absl::StrCat(" by ", step));
}

}  // namespace tethys
