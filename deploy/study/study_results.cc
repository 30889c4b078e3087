#include "deploy/study/study_results.h"

#include <map>

#include "deploy/report/comparison.h"
#include "deploy/report/others_cpu.h"
#include "deploy/report/time_to_accuracy.h"
#include "deploy/study/study_measures.h"
#include "deploy/text.h"
#include "runtime/base/file.h"
#include "runtime/telemetry/csv_reader.h"
#include "runtime/telemetry/summary.h"

namespace tethys {
namespace {

constexpr int64_t kMaxFileBytes = int64_t{256} << 20;
constexpr int kMaxBlocks = 100000;

// Reads the results of a run from its directory.
void ReadRun(const std::string& path, StudyRun& run) {
  run.record.run_dir = path;
  absl::StatusOr<proto::RunSummary> summary = ReadSummary(path);
  run.record.status = summary.status();
  if (!summary.ok()) return;
  if (summary->status() != "succeeded") run.record.status = absl::AbortedError(summary->status());
  run.record.summary = *std::move(summary);
  run.record.epochs = ParseEpochs(ReadFile(path + "/epochs.csv", kMaxFileBytes).value_or(""));
  run.others_cpu = OthersCpuOf(run.record.summary);
  run.tmi = TmiRunOf(run.record.variant, run.record.summary,
                     ReadFile(path + "/steps.csv", kMaxFileBytes).value_or(""));
}

}  // namespace

absl::StatusOr<std::vector<StudyRun>> ReadStudyRuns(const LoadedStudy& study, const std::string& directory) {
  const std::string list = directory + "/runs.csv";
  TETHYS_ASSIGN_OR_RETURN(const std::string text, ReadFile(list, kMaxFileBytes));
  std::map<std::string, int> cells;
  for (size_t i = 0; i < study.cells.size(); ++i) cells[study.cells[i].directory] = static_cast<int>(i);
  std::vector<StudyRun> runs;
  for (CsvReader csv(text); csv.Next();) {
    const std::string variant(csv.Text("variant"));
    const auto cell = cells.find(variant);
    const int64_t block = csv.Integer("block");
    if (cell == cells.end() || block < 0 || block > kMaxBlocks) {
      return absl::FailedPreconditionError(absl::StrCat(
          list, ": the run ", variant, " (block ", block, ") belongs to no combination of ", study.path,
          ": the study file was changed after this run; restore the file as it was then, or run the "
          "changed study in another directory"));
    }
    StudyRun& run = runs.emplace_back();
    run.record.variant = cell->second;
    run.record.repeat = static_cast<int>(block);
    run.record.seed = static_cast<uint64_t>(csv.Integer("seed"));
    run.order = static_cast<int>(csv.Integer("order"));
    run.start = csv.Number("start");
    run.put_aside = csv.Integer("put_aside") != 0;
    // Only the run's own name is used, because the directory may have moved since.
    const std::string run_dir(csv.Text("run_dir"));
    ReadRun(absl::StrCat(directory, "/", run_dir.substr(run_dir.rfind('/') + 1)), run);
  }
  return runs;
}

std::string StudyCsv(const LoadedStudy& study, absl::Span<const StudyRun> runs) {
  std::vector<std::string> header;
  for (const proto::StudyFactor& factor : study.study.factor()) header.push_back(factor.name());
  for (const char* name : {"block", "order", "start", "seed", "status", "put_aside", "others_cpu"}) {
    header.push_back(name);
  }
  for (const Measure& measure : AllMeasures()) header.push_back(measure.name);
  header.push_back("run_dir");
  std::string csv = CsvLine(header);
  for (const StudyRun& run : runs) {
    std::vector<std::string> cells;
    for (int f = 0; f < study.study.factor_size(); ++f) {
      cells.push_back(study.study.factor(f).level(study.cells[run.record.variant].level[f]).label());
    }
    for (std::string cell :
         {absl::StrCat(run.record.repeat), absl::StrCat(run.order), NumberCell(run.start),
          absl::StrCat(run.record.seed), std::string(run.record.status.ok() ? "succeeded" : "failed"),
          absl::StrCat(run.put_aside ? 1 : 0),
          run.others_cpu.has_value() ? NumberCell(*run.others_cpu) : std::string()}) {
      cells.push_back(std::move(cell));
    }
    for (const Measure& measure : AllMeasures()) {
      const absl::optional<double> value =
          run.record.status.ok() ? measure.value(run.record.summary) : absl::nullopt;
      cells.push_back(value.has_value() ? NumberCell(*value) : "");
    }
    cells.push_back(run.record.run_dir);
    absl::StrAppend(&csv, CsvLine(cells));
  }
  return csv;
}

absl::Status WriteStudy(const LoadedStudy& study, absl::Span<const StudyRun> runs,
                        const proto::StudyReport& report, const std::string& directory) {
  TETHYS_RETURN_IF_ERROR(WriteFileAtomically(directory + "/study.csv", StudyCsv(study, runs)));
  TETHYS_RETURN_IF_ERROR(WriteFileAtomically(directory + "/study.md", StudyMarkdown(report)));
  TETHYS_RETURN_IF_ERROR(WriteFileAtomically(directory + "/study.tex", StudyLatex(report)));
  return WriteFileAtomically(directory + "/study.html", StudyHtml(report));
}

}  // namespace tethys
