#include "deploy/study/study_analysis.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "deploy/report/report_value.h"
#include "deploy/study/effects.h"
#include "deploy/study/study_claims.h"
#include "deploy/study/study_measures.h"
#include "deploy/text.h"

namespace tethys {
namespace {

// The measures whose effects the page shows, if runs have them.
constexpr const char* kWithEffects[] = {"training_seconds", "test_accuracy", "validation_accuracy", "cost"};

bool Counts(const StudyRun& run) { return run.record.status.ok() && !run.put_aside; }

std::vector<double> ValuesOf(absl::Span<const StudyRun> runs, int cell, const Measure& measure) {
  std::vector<double> values;
  for (const StudyRun& run : runs) {
    if (!Counts(run) || run.record.variant != cell) continue;
    if (const absl::optional<double> value = measure.value(run.record.summary)) values.push_back(*value);
  }
  return values;
}

// The run of a cell with the median training time; null: no run succeeded.
const StudyRun* ShownRun(absl::Span<const StudyRun> runs, int cell) {
  std::vector<const StudyRun*> of;
  for (const StudyRun& run : runs) {
    if (Counts(run) && run.record.variant == cell) of.push_back(&run);
  }
  if (of.empty()) return nullptr;
  std::sort(of.begin(), of.end(), [](const StudyRun* a, const StudyRun* b) {
    return a->record.summary.timing().training_seconds() < b->record.summary.timing().training_seconds();
  });
  return of[(of.size() - 1) / 2];
}

void AddCell(const LoadedStudy& study, absl::Span<const StudyRun> runs, int index,
             proto::StudyReport& report) {
  proto::StudyCell& cell = *report.add_cell();
  cell.set_name(study.cells[index].name);
  for (int f = 0; f < study.study.factor_size(); ++f) {
    cell.add_level(study.study.factor(f).level(study.cells[index].level[f]).label());
  }
  for (const StudyRun& run : runs) {
    if (run.record.variant != index) continue;
    if (run.put_aside) cell.set_put_aside(cell.put_aside() + 1);
    if (Counts(run)) cell.set_runs(cell.runs() + 1);
    if (!run.put_aside && !run.record.status.ok()) cell.set_failed(cell.failed() + 1);
  }
  for (const Measure& measure : AllMeasures()) {
    const proto::ReportValue mean =
        MeanOf(ValuesOf(runs, index, measure),
               IsShare(measure) ? proto::ReportValue::SHARE : proto::ReportValue::POSITIVE);
    proto::StudyCellValue& value = *cell.add_value();
    value.set_count(mean.count());
    value.set_mean(mean.mean());
    if (mean.has_low()) value.set_low(mean.low());
    if (mean.has_high()) value.set_high(mean.high());
    if (const auto published = PublishedOf(study, index, measure.name)) value.set_published(*published);
  }
  const StudyRun* shown = ShownRun(runs, index);
  if (shown == nullptr) return;
  cell.set_workers(shown->record.summary.workers());
  for (const proto::EpochPoint& epoch : shown->record.epochs) {
    proto::StudyEpoch& point = *cell.add_epoch();
    point.set_seconds(epoch.seconds());
    point.set_train_accuracy(epoch.train_accuracy());
    if (epoch.has_validation_accuracy()) point.set_validation_accuracy(epoch.validation_accuracy());
  }
}

void AddMeasures(proto::StudyReport& report) {
  for (size_t m = 0; m < AllMeasures().size(); ++m) {
    const Measure& measure = AllMeasures()[m];
    proto::StudyMeasure& added = *report.add_measure();
    added.set_name(measure.name);
    added.set_title(measure.title);
    added.set_scale(measure.scale);
    added.set_shown(
        std::any_of(report.cell().begin(), report.cell().end(), [m](const proto::StudyCell& cell) {
          return cell.value(static_cast<int>(m)).count() > 0 ||
                 cell.value(static_cast<int>(m)).has_published();
        }));
  }
}

std::string LevelText(const LoadedStudy& study, const std::vector<int>& factors,
                      const std::vector<int>& level) {
  std::vector<std::string> parts;
  for (size_t i = 0; i < factors.size(); ++i) {
    const proto::StudyFactor& factor = study.study.factor(factors[i]);
    parts.push_back(absl::StrCat(factor.name(), " ", factor.level(level[i]).label()));
  }
  return absl::StrJoin(parts, ", ");
}

void AddEffects(const LoadedStudy& study, absl::Span<const StudyRun> runs, const Measure& measure,
                proto::StudyReport& report) {
  std::vector<int> levels;
  std::vector<std::string> names;
  for (const proto::StudyFactor& factor : study.study.factor()) {
    levels.push_back(factor.level_size());
    names.push_back(factor.name());
  }
  std::vector<Observation> observations;
  for (const StudyRun& run : runs) {
    if (!Counts(run)) continue;
    const absl::optional<double> value = measure.value(run.record.summary);
    if (!value.has_value()) continue;
    observations.push_back({run.record.repeat, study.cells[run.record.variant].level, *value});
  }
  if (observations.empty()) return;
  proto::StudyEffects& effects = *report.add_effects();
  effects.set_measure(measure.title);
  effects.set_ratios(measure.ratios);
  effects.set_runs(static_cast<int>(observations.size()));
  const absl::StatusOr<std::vector<TermEffects>> terms =
      FitEffects(levels, observations, {.logarithm = measure.ratios, .seed = study.study.seed()});
  if (!terms.ok()) {
    effects.set_not_made(std::string(terms.status().message()));
    return;
  }
  const double scale = measure.ratios ? 1 : measure.scale;
  for (const TermEffects& term : *terms) {
    std::vector<std::string> term_names;
    for (const int factor : term.factors) term_names.push_back(names[factor]);
    std::vector<LevelEffect> of = term.level;
    if (of.empty()) of.push_back({});  // Makes a row that has only the term's share and p.
    for (const LevelEffect& level : of) {
      proto::StudyEffect& effect = *effects.add_effect();
      effect.set_term(absl::StrJoin(term_names, " × "));
      if (!term.level.empty()) effect.set_level(LevelText(study, term.factors, level.level));
      effect.set_value(level.value * scale);
      if (level.low.has_value()) effect.set_low(*level.low * scale);
      if (level.high.has_value()) effect.set_high(*level.high * scale);
      effect.set_eta_squared(term.eta_squared);
      if (term.p.has_value()) effect.set_p(*term.p);
    }
  }
}

void AddTmi(const LoadedStudy& study, absl::Span<const StudyRun> runs, proto::StudyReport& report) {
  std::vector<TmiRun> times;
  for (const StudyRun& run : runs) {
    if (Counts(run) && run.tmi.has_value()) times.push_back(*run.tmi);
  }
  const std::vector<proto::TmiRow> rows = TmiRows(times);
  for (const proto::TmiRow& row : rows) *report.add_tmi() = row;
  int environment = -1;
  for (int f = 0; f < study.study.factor_size(); ++f) {
    if (study.study.factor(f).environment()) environment = f;
  }
  if (environment < 0) return;
  std::vector<std::string> groups;
  std::map<std::string, std::vector<proto::TmiRow>> by_group;
  for (const proto::TmiRow& row : rows) {
    std::vector<std::string> labels;
    for (int f = 0; f < study.study.factor_size(); ++f) {
      if (f != environment) labels.push_back(report.cell(row.cell()).level(f));
    }
    const std::string group = absl::StrJoin(labels, ", ");
    if (by_group[group].empty()) groups.push_back(group);
    by_group[group].push_back(row);
  }
  for (const std::string& group : groups) {
    if (by_group[group].size() > 1) *report.add_tmi_order() = OrderOf(group, by_group[group]);
  }
}

void AddClaims(const LoadedStudy& study, absl::Span<const StudyRun> runs, proto::StudyReport& report) {
  for (const proto::Claim& claim : study.study.claim()) {
    const Measure& measure = *FindMeasure(claim.measure());
    std::vector<ClaimValue> values;
    for (const StudyRun& run : runs) {
      if (!Counts(run)) continue;
      const absl::optional<double> value = measure.value(run.record.summary);
      if (value.has_value()) values.push_back({run.record.variant, run.record.repeat, *value});
    }
    *report.add_claim() = CheckClaim(study, claim, values);
  }
}

void AddRemarks(const LoadedStudy& study, absl::Span<const StudyRun> runs, proto::StudyReport& report) {
  int failed = 0, aside = 0;
  std::set<int> blocks;
  std::vector<double> others;
  for (const StudyRun& run : runs) {
    aside += run.put_aside;
    failed += !run.put_aside && !run.record.status.ok();
    if (Counts(run)) blocks.insert(run.record.repeat);
    if (Counts(run) && run.others_cpu.has_value()) others.push_back(*run.others_cpu);
  }
  int missing = 0;
  for (const proto::StudyCell& cell : report.cell()) missing += cell.runs() == 0;
  if (missing > 0) {
    report.add_remark(absl::StrCat(missing, " of ", PluralText(report.cell_size(), "combination"),
                                   " have no run that succeeded."));
  }
  if (failed > 0) report.add_remark(absl::StrCat(PluralText(failed, "run"), " failed."));
  if (study.excluded > 0) {
    std::vector<std::string> reasons;
    for (const proto::StudyExclude& exclude : study.study.exclude()) {
      if (!exclude.reason().empty()) reasons.push_back(exclude.reason());
    }
    report.add_remark(absl::StrCat(PluralText(study.excluded, "combination"), " left out on purpose",
                                   reasons.empty() ? "" : ": ", absl::StrJoin(reasons, "; "), "."));
  }
  if (!others.empty()) {
    const proto::ReportValue mean = MeanOf(others);
    const double most = *std::max_element(others.begin(), others.end());
    report.add_remark(absl::StrFormat(
        "During the runs whose results count, other programs used %.0f %% of the CPU on average, and %.0f "
        "%% at most.%s",
        mean.mean() * 100, most * 100,
        aside == 0 ? ""
                   : absl::StrCat(" ", PluralText(aside, "run"),
                                  aside == 1 ? " that other programs disturbed was"
                                             : " that other programs disturbed were",
                                  " repeated and put aside.")));
  }
  if (blocks.size() == 1) {
    report.add_remark(
        "Each combination ran once: there are no confidence intervals, and a difference may be chance. More "
        "blocks (repeats) would show which differences are real.");
  }
}

}  // namespace

proto::StudyReport AnalyseStudy(const LoadedStudy& study, absl::Span<const StudyRun> runs,
                                const std::string& made) {
  proto::StudyReport report;
  report.set_title(study.study.title().empty() ? study.study.name() : study.study.title());
  report.set_made(made);
  *report.mutable_about() = study.study.about();
  for (const proto::StudyFactor& factor : study.study.factor()) report.add_factor(factor.name());
  for (size_t i = 0; i < study.cells.size(); ++i) AddCell(study, runs, static_cast<int>(i), report);
  AddMeasures(report);
  for (const StudyRun& run : runs) {
    proto::StudyRunPoint& point = *report.add_run();
    point.set_name(run.record.run_dir.substr(run.record.run_dir.rfind('/') + 1));
    point.set_cell(run.record.variant);
    point.set_block(run.record.repeat);
    point.set_order(run.order);
    point.set_status(run.record.status.ok() ? "succeeded" : "failed");
    point.set_put_aside(run.put_aside);
    point.set_others_cpu(run.others_cpu.value_or(-1));
    point.set_seconds(run.record.summary.timing().training_seconds());
  }
  for (const char* name : kWithEffects) AddEffects(study, runs, *FindMeasure(name), report);
  AddTmi(study, runs, report);
  AddClaims(study, runs, report);
  AddRemarks(study, runs, report);
  return report;
}

}  // namespace tethys
