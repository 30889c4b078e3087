#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "deploy/study/tmi_study.h"
#include "deploy/study/written_study.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/targets.h"

namespace tethys::fuzz {

void FuzzStudy(absl::string_view input) {
  const absl::string_view text = TakeSection(input);
  const auto median = MedianOfFirstIterations(input, /*together=*/true);
  Require(!median.has_value() || *median >= 0, "a time is not negative");
  const absl::StatusOr<WrittenStudy> written = WrittenStudy::Parse(text, "study.textproto");
  if (!written.ok()) {
    return Require(absl::StartsWith(written.status().message(), "study.textproto:"),
                   absl::StrCat("'", written.status().message(), "' begins with a place"));
  }
  Require(written->study().factor_size() > 0 && written->study().repeats() > 0, "a study runs something");
  for (const proto::StudyFactor& factor : written->study().factor()) {
    Require(factor.level_size() > 0, "a factor has levels");
  }
}

}  // namespace tethys::fuzz
