#include <algorithm>
#include <cmath>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "deploy/report/comparison.h"
#include "deploy/report/medium.h"
#include "deploy/report/others_cpu.h"
#include "deploy/report/report_value.h"
#include "deploy/report/time_to_accuracy.h"
#include "deploy/report/variant_name.h"
#include "deploy/text.h"

namespace tethys {

using proto::ReportValue;
using proto::ReportVariant;

namespace {

constexpr char kNothing[] = "-";
constexpr size_t kVariationHeaderWidth = 12;
constexpr int kCaptionWidth = 100;

std::string FixedText(const ReportValue& value, double factor, int digits) {
  return value.count() == 0 ? kNothing : GroupedText(value.mean() * factor, digits);
}

// The text of a mean, with its 95 % interval if known. `digits`: the digits of a mean without an interval.
std::string FixedTextWithInterval(const ReportValue& value, double factor, int digits) {
  return IntervalOf(value).has_value() ? MeanText(value, factor) : FixedText(value, factor, digits);
}

// The optional columns. A table has such a column if at least one run has a value for it.
struct SomeColumns {
  bool mean_iou = false;
  bool others = false;
  bool costs = false;
};

std::vector<Column> TableColumns(absl::Span<const Variation> variations, const SomeColumns& some) {
  std::vector<Column> columns = {{{""}, true}, {{"job"}, true}};
  for (const Variation& variation : variations) columns.push_back({FieldHeader(variation.field)});
  const std::vector<Column> measured = {{{"strategy"}, true},
                                        {{"workers"}},
                                        {{"servers"}},
                                        {{"global", "batch"}},
                                        {{"test", "accuracy", "%"}},
                                        {{"training", "s"}},
                                        {{"samples", "/s"}},
                                        {{"waiting", "for the", "exchange", "%"}},
                                        {{"KiB per", "step", "through"}},
                                        {{"mean", "stale-", "ness"}},
                                        {{"gradient", "scale"}, true}};
  columns.insert(columns.end(), measured.begin(), measured.end());
  if (some.mean_iou) columns.push_back({{"test", "mean", "IoU, %"}});
  if (some.others) columns.push_back({{"others'", "CPU", "%"}});
  if (some.costs) columns.insert(columns.end(), {{{"cost of", "a run"}}, {{"cost of", "an epoch"}}});
  return columns;
}

std::string FailureLines(absl::Span<const RunRecord> runs) {
  std::string text;
  for (const RunRecord& run : runs) {
    if (run.status.ok()) continue;
    const std::string message(run.status.message());
    absl::StrAppend(&text, absl::IsCancelled(run.status) ? "interrupted: " : "failed: ", run.run_dir, ": ",
                    message.substr(0, message.find('\n')), "\n");
  }
  return text;
}

std::string ExchangeLines(absl::Span<const VariantLabel> labels, absl::Span<const RunRecord> runs) {
  std::string text;
  for (size_t i = 0; i < labels.size(); ++i) {
    std::vector<std::string> exchanges;
    for (const RunRecord& run : runs) {
      if (run.status.ok() && run.variant == static_cast<int>(i)) exchanges.push_back(ExchangeOf(run.summary));
    }
    const std::string different = DifferentExchanges(exchanges);
    if (different.empty()) continue;
    absl::StrAppend(&text, "runs of ", VariantLetters(static_cast<int>(i)),
                    " did not exchange gradients in the same way: ", different, "\n");
  }
  return text;
}

// The media through which a variant's runs exchanged data, after a space: " memory". Empty if they exchanged
// nothing.
std::string MediumText(absl::Span<const RunRecord> runs, int variant) {
  std::set<std::string> media;
  for (const RunRecord& run : runs) {
    if (!run.status.ok() || run.variant != variant) continue;
    const std::string medium = MediumOf(run.summary);
    if (!medium.empty()) media.insert(medium);
  }
  return media.empty() ? "" : absl::StrCat(" ", absl::StrJoin(media, " or "));
}

bool AnyThroughMemory(absl::Span<const RunRecord> runs) {
  return std::any_of(runs.begin(), runs.end(), [](const RunRecord& run) {
    return run.status.ok() && absl::StrContains(MediumOf(run.summary), kThroughMemory);
  });
}

std::string MeanCell(const ReportValue& value) { return value.count() == 0 ? "" : NumberCell(value.mean()); }
std::string DeviationCell(const ReportValue& value) {
  return value.count() < 2 ? "" : NumberCell(value.deviation());
}

std::vector<std::string> MeasuredCells(const ReportVariant& means) {
  std::vector<std::string> cells;
  for (const ReportValue* value :
       {&means.test_accuracy(), &means.seconds(), &means.samples_per_second(), &means.exposed_share(),
        &means.bytes_per_step(), &means.staleness(), &means.others_cpu(), &means.cost(), &means.epoch_cost(),
        &means.best_accuracy(), &means.to_target().seconds(), &means.to_target().epochs(),
        &means.to_target().cost(), &means.test_mean_iou()}) {
    cells.push_back(MeanCell(*value));
    cells.push_back(DeviationCell(*value));
  }
  return cells;
}

std::string CsvHeader(absl::Span<const Variation> variations) {
  std::vector<std::string> header = LabelHeader(variations);
  header.insert(header.begin(), {"kind", "variant"});
  for (const char* name : {"repeat", "seed", "runs", "failed"}) header.push_back(name);
  for (const char* name :
       {"test_accuracy", "training_seconds", "samples_per_second", "exposed_share", "bytes_per_step",
        "mean_staleness", "others_cpu", "run_cost", "epoch_cost", "best_validation_accuracy",
        "seconds_to_target", "epochs_to_target", "cost_to_target", "test_mean_iou"}) {
    header.push_back(name);
    header.push_back(absl::StrCat(name, "_sd"));
  }
  for (const char* name : {"target_accuracy", "reached_target", "through", "exchange", "run_dir", "error"})
    header.push_back(name);
  return CsvLine(header);
}

// Three significant digits, because costs span many orders of magnitude.
std::string CostText(const ReportValue& value) {
  return value.count() == 0 ? kNothing : DigitsText(value.mean(), 3);
}

bool AnyMeanIou(absl::Span<const RunRecord> runs) {
  return std::any_of(runs.begin(), runs.end(),
                     [](const RunRecord& run) { return run.summary.test().has_mean_iou(); });
}

bool AnyCost(absl::Span<const RunRecord> runs) {
  return std::any_of(runs.begin(), runs.end(), [](const RunRecord& run) { return run.summary.has_cost(); });
}

bool AnyOthersCpu(absl::Span<const RunRecord> runs) {
  return std::any_of(runs.begin(), runs.end(),
                     [](const RunRecord& run) { return OthersCpuOf(run.summary).has_value(); });
}

}  // namespace

std::string CommonPrefix(absl::Span<const VariantLabel> labels) {
  std::string prefix = labels[0].job;
  bool differ = false;
  for (const VariantLabel& label : labels) {
    const auto end = std::mismatch(prefix.begin(), prefix.end(), label.job.begin(), label.job.end()).first;
    differ = differ || label.job != labels[0].job;
    prefix.erase(end, prefix.end());
  }
  if (!differ) return "";
  const size_t separator = prefix.find_last_of("_-.");
  return separator == std::string::npos ? "" : prefix.substr(0, separator + 1);
}

std::vector<std::string> FieldHeader(const std::string& field) {
  const std::string last = field.substr(field.rfind('.') + 1);
  std::vector<std::string> lines = {""};
  for (absl::string_view word : absl::StrSplit(last, '_')) {
    const std::string longer =
        lines.back().empty() ? std::string(word) : absl::StrCat(lines.back(), "_", word);
    if (!lines.back().empty() && longer.size() > kVariationHeaderWidth) {
      lines.push_back(std::string(word));
    } else {
      lines.back() = longer;
    }
  }
  return lines;
}

std::string NumberCell(double value) { return absl::StrFormat("%.9g", value); }

std::vector<std::string> LabelHeader(absl::Span<const Variation> variations) {
  std::vector<std::string> header = {"job", "strategy"};
  for (const Variation& variation : variations) header.push_back(variation.field);
  for (const char* name : {"workers", "servers", "global_batch", "gradient_scale"}) header.push_back(name);
  return header;
}

std::vector<std::string> LabelCells(const VariantLabel& label) {
  std::vector<std::string> cells = {label.job, label.strategy};
  cells.insert(cells.end(), label.values.begin(), label.values.end());
  for (const int64_t number : {label.workers, label.servers, label.global_batch}) {
    cells.push_back(std::to_string(number));
  }
  cells.push_back(label.gradient_scale);
  return cells;
}

std::string ComparisonTable(absl::Span<const VariantLabel> labels, absl::Span<const Variation> variations,
                            absl::Span<const RunRecord> runs, int width) {
  const std::string prefix = CommonPrefix(labels);
  const SomeColumns some = {
      .mean_iou = AnyMeanIou(runs), .others = AnyOthersCpu(runs), .costs = AnyCost(runs)};
  bool repeated = false;
  std::vector<std::vector<std::string>> rows;
  for (size_t i = 0; i < labels.size(); ++i) {
    const VariantLabel& label = labels[i];
    const ReportVariant means = MeansOver(runs, i, absl::nullopt);
    repeated = repeated || means.seconds().count() > 1;
    std::vector<std::string> row = {VariantLetters(static_cast<int>(i)), label.job.substr(prefix.size())};
    row.insert(row.end(), label.values.begin(), label.values.end());
    const std::vector<std::string> cells = {
        label.strategy,
        std::to_string(label.workers),
        std::to_string(label.servers),
        std::to_string(label.global_batch),
        FixedTextWithInterval(means.test_accuracy(), 100, 2),
        FixedTextWithInterval(means.seconds(), 1, means.seconds().mean() < 10 ? 2 : 1),
        means.samples_per_second().count() == 0 ? kNothing
                                                : CountText(std::llround(means.samples_per_second().mean())),
        FixedText(means.exposed_share(), 100, 1),
        means.bytes_per_step().count() == 0
            ? kNothing
            : absl::StrCat(CountText(std::llround(means.bytes_per_step().mean() / 1024)),
                           MediumText(runs, static_cast<int>(i))),
        FixedText(means.staleness(), 1, 2),
        label.gradient_scale};
    row.insert(row.end(), cells.begin(), cells.end());
    if (some.mean_iou) row.push_back(FixedTextWithInterval(means.test_mean_iou(), 100, 2));
    if (some.others) row.push_back(FixedText(means.others_cpu(), 100, 0));
    if (some.costs) row.insert(row.end(), {CostText(means.cost()), CostText(means.epoch_cost())});
    rows.push_back(row);
  }
  const std::string title = prefix.empty() ? "" : absl::StrCat("Jobs ", prefix, "*\n\n");
  return absl::StrCat(
      title, Table(TableColumns(variations, some), rows, width, 2 + variations.size()),
      repeated ? Wrap(absl::StrCat("Means over runs. ", kIntervalNote), "", width > 0 ? width : kCaptionWidth)
               : "",
      some.costs ? absl::StrCat(kCostNote, "\n") : "",
      AnyThroughMemory(runs) ? absl::StrCat(kMemoryNote, "\n") : "", ExchangeLines(labels, runs),
      FailureLines(runs));
}

std::string TargetTable(absl::Span<const VariantLabel> labels, absl::Span<const Variation> variations,
                        absl::Span<const RunRecord> runs, const Target& target, int width) {
  if (!target.has_value()) return "";
  const bool costs = AnyCost(runs);
  const std::string prefix = CommonPrefix(labels);
  std::vector<Column> columns = {{{""}, true}, {{"job"}, true}};
  for (const Variation& variation : variations) columns.push_back({FieldHeader(variation.field)});
  for (const Column& column : {Column{{"strategy"}, true}, Column{{"training", "s"}}, Column{{"epochs"}},
                               Column{{"best validation", "accuracy, %"}}, Column{{"reached by"}, true}}) {
    columns.push_back(column);
  }
  if (costs) columns.push_back({{"cost of", "the training"}});
  bool intervals = false;
  std::vector<std::vector<std::string>> rows;
  for (size_t i = 0; i < labels.size(); ++i) {
    const ReportVariant means = MeansOver(runs, i, target);
    intervals = intervals || IntervalOf(means.to_target().seconds()).has_value();
    std::vector<std::string> row = {VariantLetters(static_cast<int>(i)), labels[i].job.substr(prefix.size())};
    row.insert(row.end(), labels[i].values.begin(), labels[i].values.end());
    row.push_back(labels[i].strategy);
    row.push_back(FixedTextWithInterval(means.to_target().seconds(), 1,
                                        means.to_target().seconds().mean() < 10 ? 2 : 1));
    row.push_back(FixedTextWithInterval(means.to_target().epochs(), 1, 1));
    row.push_back(FixedTextWithInterval(means.best_accuracy(), 100, 2));
    const int validated = means.to_target().runs();
    row.push_back(validated == 0 ? kNothing : absl::StrCat(means.to_target().reached(), " of ", validated));
    if (costs) row.push_back(CostText(means.to_target().cost()));
    rows.push_back(row);
  }
  const std::string caption = absl::StrCat(
      "Time to ", TargetText(*target),
      "\nTraining until the end of the first epoch that reached the target; mean over the runs that did so.");
  return absl::StrCat(Wrap(caption, "", width > 0 ? width : kCaptionWidth), "\n",
                      Table(columns, rows, width, 2 + variations.size()),
                      costs ? absl::StrCat(kCostNote, "\n") : "",
                      intervals ? Wrap(kCutNote, "", width > 0 ? width : kCaptionWidth) : "");
}

std::string ComparisonCsv(absl::Span<const VariantLabel> labels, absl::Span<const Variation> variations,
                          absl::Span<const RunRecord> runs, const Target& target) {
  std::string csv = CsvHeader(variations);
  const auto add = [&](const std::string& kind, int variant, const std::string& repeat,
                       const std::string& seed, absl::Span<const RunRecord> of, const std::string& run_dir,
                       const std::string& through, const std::string& exchange, const std::string& error) {
    const ReportVariant means = MeansOver(of, variant, target);
    std::vector<std::string> cells = {kind, VariantLetters(variant)};
    const auto append = [&](const std::vector<std::string>& more) {
      cells.insert(cells.end(), more.begin(), more.end());
    };
    append(LabelCells(labels[variant]));
    append({repeat, seed, std::to_string(means.runs() + means.failed()), std::to_string(means.failed())});
    append(MeasuredCells(means));
    append({target.has_value() ? NumberCell(target->accuracy()) : "",
            target.has_value() ? std::to_string(means.to_target().reached()) : ""});
    append({through, exchange, run_dir, error});
    absl::StrAppend(&csv, CsvLine(cells));
  };
  for (const RunRecord& run : runs) {
    add("run", run.variant, std::to_string(run.repeat), std::to_string(run.seed), {&run, 1}, run.run_dir,
        MediumOf(run.summary), ExchangeOf(run.summary), std::string(run.status.message()));
  }
  for (size_t i = 0; i < labels.size(); ++i) add("mean", i, "", "", runs, "", "", "", "");
  return csv;
}

}  // namespace tethys
