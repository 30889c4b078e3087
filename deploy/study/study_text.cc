// The Markdown and LaTeX forms of a study, and its page.
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "deploy/report/page_parts.h"
#include "deploy/report/report_value.h"
#include "deploy/study/study_results.h"
#include "deploy/text.h"

namespace tethys {

absl::string_view StudyPage();  // The embedded study_page.html (CMakeLists.txt).

namespace {

std::string MarkdownText(const std::string& text) {
  return absl::StrReplaceAll(text, {{"|", "\\|"}, {"\n", " "}, {"<", "&lt;"}});
}

std::string LatexText(const std::string& text) {
  return absl::StrReplaceAll(text, {{"\\", "\\textbackslash{}"},
                                    {"%", "\\%"},
                                    {"_", "\\_"},
                                    {"&", "\\&"},
                                    {"#", "\\#"},
                                    {"$", "\\$"},
                                    {"{", "\\{"},
                                    {"}", "\\}"},
                                    {"β", "$\\beta$"},
                                    {"×", "$\\times$"},
                                    {"^", "\\^{}"},
                                    {"~", "\\~{}"}});
}

std::string Digits(double value) { return DigitsText(value, 4); }

// A mean with its interval, as kIntervalNote explains: "12.3 ± 0.4".
std::string ValueText(const proto::StudyCellValue& value, double scale, const char* plus_minus) {
  if (value.count() == 0) return "–";
  const double mean = value.mean() * scale;
  if (!value.has_low()) return Digits(mean);
  return WithInterval(mean, {value.low() * scale, value.high() * scale}, plus_minus);
}

struct StudyColumn {
  int measure = 0;
  bool published = false;  // True if the column shows published values.
};
// A column for each measure that some run has, followed by a column of published values if there are any.
std::vector<StudyColumn> ColumnsOf(const proto::StudyReport& report) {
  std::vector<StudyColumn> columns;
  for (int m = 0; m < report.measure_size(); ++m) {
    if (!report.measure(m).shown()) continue;
    columns.push_back({m, false});
    for (const proto::StudyCell& cell : report.cell()) {
      if (!cell.value(m).has_published()) continue;
      columns.push_back({m, true});
      break;
    }
  }
  return columns;
}

std::string ColumnCell(const proto::StudyReport& report, const proto::StudyCell& cell,
                       const StudyColumn& column, const char* plus_minus) {
  const proto::StudyCellValue& value = cell.value(column.measure);
  const double scale = report.measure(column.measure).scale();
  if (!column.published) return ValueText(value, scale, plus_minus);
  return value.has_published() ? Digits(value.published() * scale) : "–";
}

// The lines of a Markdown table.
std::string MarkdownTable(const std::vector<std::string>& header,
                          const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::string> rule(header.size(), "---");
  std::string text =
      absl::StrCat("| ", absl::StrJoin(header, " | "), " |\n|", absl::StrJoin(rule, "|"), "|\n");
  for (const std::vector<std::string>& row : rows) {
    std::vector<std::string> cells;
    for (const std::string& cell : row) cells.push_back(MarkdownText(cell));
    absl::StrAppend(&text, "| ", absl::StrJoin(cells, " | "), " |\n");
  }
  return text;
}

std::string ClaimsText(const proto::StudyReport& report) {
  if (report.claim_size() == 0) return "";
  std::vector<std::vector<std::string>> rows;
  for (const proto::ClaimResult& claim : report.claim()) {
    rows.push_back({claim.text(), claim.verdict(), claim.figure().empty() ? "–" : claim.figure(),
                    claim.published().empty() ? "–" : claim.published(), claim.remark()});
  }
  return absl::StrCat("\n## Published statements, and what these runs show\n\n",
                      MarkdownTable({"statement", "here", "figure here", "published", "remark"}, rows));
}

std::string EffectsText(const proto::StudyReport& report) {
  std::string text;
  for (const proto::StudyEffects& effects : report.effects()) {
    absl::StrAppend(&text, "\n## Effects on ", effects.measure(), "\n\n");
    if (!effects.not_made().empty()) {
      absl::StrAppend(&text, "Not computed: ", effects.not_made(), ".\n");
      continue;
    }
    std::vector<std::vector<std::string>> rows;
    for (const proto::StudyEffect& effect : effects.effect()) {
      rows.push_back(
          {effect.term(), effect.level().empty() ? "–" : effect.level(),
           effect.level().empty() ? "–" : Digits(effect.value()),
           effect.has_low() ? absl::StrCat("[", Digits(effect.low()), ", ", Digits(effect.high()), "]") : "–",
           absl::StrFormat("%.1f", 100 * effect.eta_squared()),
           effect.has_p() ? absl::StrFormat("%.4f", effect.p()) : "–"});
    }
    absl::StrAppend(
        &text, effects.ratios() ? "Ratios to" : "Differences from", " the mean over all levels, of ",
        effects.runs(),
        " runs. The share is the part of the sum of squares within blocks that the whole term explains; p "
        "comes from permutations within blocks, corrected after Holm.\n\n",
        MarkdownTable({"term", "level", "effect", "95 %", "share, %", "p"}, rows));
  }
  return text;
}

std::string TmiText(const proto::StudyReport& report) {
  if (report.tmi_size() == 0) return "";
  std::vector<std::vector<std::string>> rows;
  for (const proto::TmiRow& row : report.tmi()) {
    std::vector<std::string> cells = {report.cell(row.cell()).name(), absl::StrCat(row.runs()),
                                      Digits(row.tmi_avg() * 1e3), Digits(row.first_iteration() * 1e3),
                                      absl::StrFormat("%.1f", row.beta() * 100)};
    for (const char* name : {"2", "2-6", "2-11", "median 2-101"}) {
      std::string cell = "–";
      for (const proto::TmiError& error : row.error()) {
        if (error.iterations() != name) continue;
        cell = absl::StrFormat("%.1f", error.mean() * 100);
        if (error.runs() > 1) absl::StrAppendFormat(&cell, " (%.1f)", error.deviation() * 100);
      }
      cells.push_back(cell);
    }
    rows.push_back(std::move(cells));
  }
  std::string text = absl::StrCat(
      "\n## Iteration times\n\nErrors of the estimates of TMiAvg in %, mean over runs (standard "
      "deviation).\n\n",
      MarkdownTable({"combination", "runs", "TMiAvg, ms", "first iteration, ms", "β, %", "step 2", "mean 2-6",
                     "mean 2-11", "median 2-101"},
                    rows));
  for (const proto::TmiOrder& order : report.tmi_order()) {
    absl::StrAppendFormat(&text,
                          "\n%s: TMiAvg and total time rank %d environments with Kendall's tau %.2f; the "
                          "best environment is %s in the two rankings.\n",
                          order.group().empty() ? "All" : MarkdownText(order.group()), order.cell_size(),
                          order.tau(), order.same_best() ? "the same" : "not the same");
  }
  return text;
}

}  // namespace

std::string StudyMarkdown(const proto::StudyReport& report) {
  std::string text = absl::StrCat("# ", MarkdownText(report.title()), "\n\n", report.made(), "\n");
  for (const std::string& about : report.about()) absl::StrAppend(&text, "\n", MarkdownText(about), "\n");
  absl::StrAppend(&text, ClaimsText(report));
  const std::vector<StudyColumn> columns = ColumnsOf(report);
  std::vector<std::string> header(report.factor().begin(), report.factor().end());
  header.push_back("runs");
  for (const StudyColumn& column : columns) {
    header.push_back(column.published ? "published" : report.measure(column.measure).title());
  }
  std::vector<std::vector<std::string>> rows;
  for (const proto::StudyCell& cell : report.cell()) {
    std::vector<std::string> row(cell.level().begin(), cell.level().end());
    row.push_back(absl::StrCat(cell.runs()));
    for (const StudyColumn& column : columns) row.push_back(ColumnCell(report, cell, column, "±"));
    rows.push_back(std::move(row));
  }
  absl::StrAppend(&text, "\n## Results\n\nMeans over runs. ", kIntervalNote, "\n\n",
                  MarkdownTable(header, rows), EffectsText(report), TmiText(report));
  if (report.remark_size() > 0) text += "\n## Remarks\n\n";
  for (const std::string& remark : report.remark()) absl::StrAppend(&text, "- ", MarkdownText(remark), "\n");
  return text;
}

std::string StudyLatex(const proto::StudyReport& report) {
  // The measures that fit into a paper's table.
  std::vector<StudyColumn> columns;
  for (const StudyColumn& column : ColumnsOf(report)) {
    const std::string& name = report.measure(column.measure).name();
    if (name == "training_seconds" || name == "test_accuracy" || name == "cost" ||
        name == "samples_per_second") {
      columns.push_back(column);
    }
  }
  std::string text = absl::StrCat("% Needs \\usepackage{booktabs}.\n\\begin{tabular}{",
                                  std::string(report.factor_size(), 'l'), std::string(columns.size(), 'r'),
                                  "}\n\\toprule\n");
  std::vector<std::string> header;
  for (const std::string& factor : report.factor()) header.push_back(LatexText(factor));
  for (const StudyColumn& column : columns) {
    header.push_back(column.published ? "published" : LatexText(report.measure(column.measure).title()));
  }
  absl::StrAppend(&text, absl::StrJoin(header, " & "), " \\\\\n\\midrule\n");
  for (const proto::StudyCell& cell : report.cell()) {
    std::vector<std::string> row;
    for (const std::string& level : cell.level()) row.push_back(LatexText(level));
    for (const StudyColumn& column : columns) {
      row.push_back(absl::StrReplaceAll(ColumnCell(report, cell, column, "$\\pm$"), {{"–", "--"}}));
    }
    absl::StrAppend(&text, absl::StrJoin(row, " & "), " \\\\\n");
  }
  return absl::StrCat(text, "\\bottomrule\n\\end{tabular}\n");
}

std::string StudyHtml(const proto::StudyReport& report) { return FillPage(StudyPage(), report); }

}  // namespace tethys
