#include "deploy/study/study_claims.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_format.h"
#include "deploy/report/report_value.h"
#include "deploy/report/run_means.h"
#include "deploy/study/study_measures.h"
#include "deploy/text.h"

namespace tethys {
namespace {

constexpr double kRounding = 1e-12;  // Values that differ only by rounding differ by at most this.

struct Pair {
  int more = 0;
  int less = 0;
};

std::vector<Pair> PairsOf(const LoadedStudy& study, const proto::Claim& claim) {
  std::set<std::string> chosen;
  for (const proto::StudyChoice& choice : claim.more()) chosen.insert(choice.factor());
  for (const proto::StudyChoice& choice : claim.less()) chosen.insert(choice.factor());
  std::vector<Pair> pairs;
  for (size_t a = 0; a < study.cells.size(); ++a) {
    if (!Matches(study.study, study.cells[a].level, claim.more())) continue;
    for (size_t b = 0; b < study.cells.size(); ++b) {
      if (a == b || !Matches(study.study, study.cells[b].level, claim.less())) continue;
      bool alike = true;
      for (int f = 0; f < study.study.factor_size(); ++f) {
        alike = alike && (chosen.count(study.study.factor(f).name()) > 0 ||
                          study.cells[a].level[f] == study.cells[b].level[f]);
      }
      if (alike) pairs.push_back({static_cast<int>(a), static_cast<int>(b)});
    }
  }
  return pairs;
}

// The logarithm of the ratio if `ratios`, otherwise the difference.
double Contrast(double more, double less, bool ratios) {
  return ratios ? std::log(more / less) : more - less;
}

std::string FigureText(double value, absl::optional<double> half, const Measure& measure) {
  const auto text = [&measure](double contrast) {
    return measure.ratios ? absl::StrFormat("%.2f", std::exp(contrast))
                          : absl::StrFormat("%+.2f", contrast * measure.scale);
  };
  std::string figure = measure.ratios ? absl::StrCat(text(value), " times") : text(value);
  if (half.has_value()) absl::StrAppend(&figure, " [", text(value - *half), ", ", text(value + *half), "]");
  return figure;
}

std::string PublishedText(const LoadedStudy& study, const std::vector<Pair>& pairs, const Measure& measure) {
  double sum = 0;
  int count = 0;
  for (const Pair& pair : pairs) {
    const absl::optional<double> more = PublishedOf(study, pair.more, measure.name);
    const absl::optional<double> less = PublishedOf(study, pair.less, measure.name);
    if (!more.has_value() || !less.has_value()) continue;
    if (measure.ratios && (*more <= 0 || *less <= 0)) continue;
    sum += Contrast(*more, *less, measure.ratios);
    ++count;
  }
  return count == 0 ? "" : FigureText(sum / count, absl::nullopt, measure);
}

// For each block that ran a pair: the mean contrast of the pairs in the block.
std::vector<double> BlockMeans(const std::vector<Pair>& pairs, absl::Span<const ClaimValue> values,
                               bool ratios) {
  std::map<std::pair<int, int>, double> value_of;  // Keyed by block and cell.
  std::set<int> blocks;
  for (const ClaimValue& value : values) {
    if (ratios && value.value <= 0) continue;
    value_of[{value.block, value.cell}] = value.value;
    blocks.insert(value.block);
  }
  std::vector<double> means;
  for (const int block : blocks) {
    std::vector<double> own;
    for (const Pair& pair : pairs) {
      const auto more = value_of.find({block, pair.more});
      const auto less = value_of.find({block, pair.less});
      if (more == value_of.end() || less == value_of.end()) continue;
      own.push_back(Contrast(more->second, less->second, ratios));
    }
    if (!own.empty()) means.push_back(MeanOf(own).mean());
  }
  return means;
}

}  // namespace

absl::optional<double> PublishedOf(const LoadedStudy& study, int cell, const std::string& measure) {
  for (const proto::Published& published : study.study.published()) {
    if (published.measure() != measure) continue;
    if (Matches(study.study, study.cells[cell].level, published.match())) return published.value();
  }
  return absl::nullopt;
}

proto::ClaimResult CheckClaim(const LoadedStudy& study, const proto::Claim& claim,
                              absl::Span<const ClaimValue> values) {
  const Measure& measure = *FindMeasure(claim.measure());
  proto::ClaimResult result;
  result.set_text(claim.text());
  result.set_remark(claim.remark());
  const std::vector<Pair> pairs = PairsOf(study, claim);
  result.set_published(PublishedText(study, pairs, measure));
  const std::vector<double> means = BlockMeans(pairs, values, measure.ratios);
  if (means.empty()) {
    result.set_verdict("not run");
    return result;
  }
  const proto::ReportValue mean = MeanOf(means);
  absl::optional<double> half;
  if (mean.count() > 1) half = HalfWidth(mean);
  const bool decided = half.has_value() && std::abs(mean.mean()) > *half + kRounding;
  // With two blocks, an interval is stated only if it decides the claim.
  constexpr int kFewestForAnInterval = 3;
  const bool told = half.has_value() && (decided || mean.count() >= kFewestForAnInterval);
  result.set_figure(absl::StrCat(FigureText(mean.mean(), told ? half : absl::nullopt, measure),
                                 measure.ratios ? "" : absl::StrCat(" (", measure.title, ")"), ", ",
                                 PluralText(mean.count(), "block")));
  result.set_verdict(!decided ? "not decided" : mean.mean() > 0 ? "holds" : "does not hold");
  return result;
}

}  // namespace tethys
