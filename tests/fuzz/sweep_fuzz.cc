// Input, in four sections (TakeSection): the value of --batches, a question to a meter, a meter's answer, and
// sweep.json.
#include <algorithm>
#include <string>
#include <vector>

#include "deploy/sweep/batch_range.h"
#include "deploy/sweep/meter_words.h"
#include "deploy/sweep/sweep_report.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/targets.h"

namespace tethys::fuzz {

void FuzzSweep(absl::string_view input) {
  const absl::StatusOr<std::vector<int64_t>> batches = ParseBatches(TakeSection(input));
  if (batches.ok()) {
    Require(!batches->empty() && batches->front() >= 1 && std::is_sorted(batches->begin(), batches->end()),
            "batches ascend from 1");
    Require(static_cast<int64_t>(batches->size()) <= kMostBatches, "batches are bounded");
  }
  const absl::StatusOr<MeterQuestion> question = ParseMeterQuestion(TakeSection(input));
  if (question.ok())
    Require(question->batch >= 0 && question->limit >= 0, "a question's numbers are bounded");
  proto::StepVisit visit;
  const absl::Status read = ReadMeterAnswer(TakeSection(input), "visit", &visit);
  if (read.ok() && CheckVisit(visit, 8).ok())
    Require(visit.step() > 0 && visit.batch() == 8, "a visit has a time");
  const absl::StatusOr<proto::Sweep> sweep = ParseSweep(std::string(input));
  if (!sweep.ok()) return;
  const std::string page = SweepHtml(*sweep), empty = SweepHtml(proto::Sweep());
  const auto tags = [](const std::string& text) { return std::count(text.begin(), text.end(), '<'); };
  Require(tags(page) == tags(empty), "data adds no markup to the page");
  Require(!SweepCsv(*sweep).empty() && !SweepMarkdown(*sweep).empty(), "a sweep has tables");
}

}  // namespace tethys::fuzz
