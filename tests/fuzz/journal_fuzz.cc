#include <algorithm>
#include <string>

#include "runtime/chief/journal_check.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/targets.h"

namespace tethys::fuzz {

void FuzzJournal(absl::string_view input) {
  const absl::StatusOr<journal::CheckResult> result = journal::Check(input);
  if (!result.ok()) return Require(!result.status().message().empty(), "a refusal says why");
  Require(result->samples >= 0, "samples are counted");
  Require(result->attempts <= std::count(input.begin(), input.end(), '\n'), "an attempt is a line");
}

}  // namespace tethys::fuzz
