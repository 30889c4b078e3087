#include "deploy/report/report.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "deploy/report/page_parts.h"
#include "deploy/report/report_value.h"
#include "deploy/report/time_to_accuracy.h"
#include "deploy/report/variant_name.h"
#include "deploy/text.h"
#include "runtime/base/file.h"

namespace tethys {

// Embedded files (CMakeLists.txt): the page and the script of its first screen.
absl::string_view ReportPage();
absl::string_view AnswerScript();

namespace {

std::string Page() { return absl::StrReplaceAll(ReportPage(), {{"/*ANSWER_SCRIPT*/", AnswerScript()}}); }

std::string ValueText(const proto::ReportValue& value, double scale) {
  return value.count() > 0 ? MeanText(value, scale) : "–";
}

// The letters and the name of a variant: "A: mirrored, 3 workers".
std::string TitleOf(const proto::ReportVariant& variant) {
  return variant.label().empty() ? variant.name() : absl::StrCat(variant.label(), ": ", variant.name());
}

// `text` escaped for a cell of a Markdown table.
std::string CellText(const std::string& text) {
  return absl::StrReplaceAll(text, {{"|", "\\|"}, {"\n", " "}, {"<", "&lt;"}});
}

bool AnyCost(const proto::Report& report) {
  return std::any_of(report.variant().begin(), report.variant().end(),
                     [](const proto::ReportVariant& variant) { return variant.cost().count() > 0; });
}

// Appends the table of measurements, with a row for each variant.
void AppendMeasurements(const proto::Report& report, std::string& text) {
  const bool mean_iou =
      std::any_of(report.variant().begin(), report.variant().end(),
                  [](const proto::ReportVariant& variant) { return variant.test_mean_iou().count() > 0; });
  absl::StrAppend(
      &text,
      "| variant | runs | training, s | test accuracy, % | samples/s | waiting for the exchange, % | KiB per "
      "step | through | cost of a run | cost of an epoch |",
      mean_iou ? " test mean IoU, % |" : "", "\n|---|--:|--:|--:|--:|--:|--:|---|--:|--:|",
      mean_iou ? "--:|" : "", "\n");
  for (const proto::ReportVariant& variant : report.variant()) {
    absl::StrAppend(&text, "| ", CellText(TitleOf(variant)), " | ", variant.runs(), " | ",
                    ValueText(variant.seconds(), 1), " | ", ValueText(variant.test_accuracy(), 100), " | ",
                    ValueText(variant.samples_per_second(), 1), " | ",
                    ValueText(variant.exposed_share(), 100), " | ",
                    ValueText(variant.bytes_per_step(), 1.0 / 1024), " | ",
                    variant.through().empty() ? "–" : variant.through(), " | ", ValueText(variant.cost(), 1),
                    " | ", ValueText(variant.epoch_cost(), 1), " |");
    if (mean_iou) absl::StrAppend(&text, " ", ValueText(variant.test_mean_iou(), 100), " |");
    text += "\n";
  }
  if (AnyCost(report)) absl::StrAppend(&text, "\n", kCostNote, "\n");
}

// Appends all sentences of the verdict but the first, and the measured reasons.
void AppendConclusions(const proto::Report& report, std::string& text) {
  if (report.verdict_size() > 1) text += "\nAll conclusions\n\n";
  for (int i = 1; i < report.verdict_size(); ++i) {
    absl::StrAppend(&text, "- ", CellText(report.verdict(i)), "\n");
  }
  if (report.why_size() > 0) text += "\nAll measured reasons\n\n";
  for (const std::string& sentence : report.why()) absl::StrAppend(&text, "- ", CellText(sentence), "\n");
}

void AppendTimeToTarget(const proto::Report& report, std::string& text) {
  if (!report.has_target()) return;
  absl::StrAppend(&text, "\nTime to ", TargetText(report.target()),
                  ": training until the end of the first epoch that reached the target, mean over the runs "
                  "that reached the target.\n\n"
                  "| variant | reached by | training, s | epochs | cost of the training |\n"
                  "|---|--:|--:|--:|--:|\n");
  bool intervals = false;
  for (const proto::ReportVariant& variant : report.variant()) {
    const proto::TimeToTarget& to_target = variant.to_target();
    if (to_target.runs() == 0) continue;
    intervals = intervals || to_target.seconds().has_low();
    absl::StrAppend(&text, "| ", CellText(NameInText(variant)), " | ", to_target.reached(), " of ",
                    to_target.runs(), " | ", ValueText(to_target.seconds(), 1), " | ",
                    ValueText(to_target.epochs(), 1), " | ", ValueText(to_target.cost(), 1), " |\n");
  }
  if (intervals) absl::StrAppend(&text, "\n", kCutNote, "\n");
}

// Appends a table of the fields in which the jobs differ: a row per field, a column per variant.
void AppendDifferences(const proto::Report& report, std::string& text) {
  if (report.difference_size() == 0) return;
  text += "\nWhere the jobs differ\n\n| field |";
  std::string rule = "|---|";
  for (const proto::ReportVariant& variant : report.variant()) {
    absl::StrAppend(&text, " ", CellText(NameInText(variant)), " |");
    rule += "---|";
  }
  absl::StrAppend(&text, "\n", rule, "\n");
  for (const proto::JobDifference& difference : report.difference()) {
    absl::StrAppend(&text, "| ", CellText(difference.field()), " |");
    for (const std::string& value : difference.value()) {
      absl::StrAppend(&text, " ", value.empty() ? "–" : CellText(value), " |");
    }
    text += "\n";
  }
}

void AppendMissing(const proto::Report& report, std::string& text) {
  if (report.missing_size() == 0) return;
  text += "\nWhat could not be shown\n\n";
  for (const std::string& missing : report.missing()) absl::StrAppend(&text, "- ", CellText(missing), "\n");
}

}  // namespace

std::string ReportHtml(const proto::Report& report) { return FillPage(Page(), report); }

std::string ReportMarkdown(const proto::Report& report) {
  std::string text = absl::StrCat("# ", CellText(report.title()), "\n\n", report.made(), "\n\n");
  if (report.verdict_size() > 0) absl::StrAppend(&text, "**", CellText(report.verdict(0)), "**\n\n");
  if (!report.how_sure().empty()) absl::StrAppend(&text, "How sure: ", CellText(report.how_sure()), "\n\n");
  if (!report.reason().empty()) absl::StrAppend(&text, "Why: ", CellText(report.reason()), "\n\n");
  if (report.caution_size() > 0) {
    absl::StrAppend(&text, "Keep in mind: ", CellText(absl::StrJoin(report.caution(), "; ")), ".\n\n");
  }
  AppendMeasurements(report, text);
  AppendConclusions(report, text);
  AppendTimeToTarget(report, text);
  AppendDifferences(report, text);
  AppendMissing(report, text);
  return text;
}

absl::Status WriteReport(const proto::Report& report, const std::string& path) {
  TETHYS_RETURN_IF_ERROR(WriteFileAtomically(path + "/report.html", ReportHtml(report)));
  return WriteFileAtomically(path + "/report.md", ReportMarkdown(report));
}

}  // namespace tethys
