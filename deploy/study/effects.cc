// The model is y = X b + noise. X has a column for the mean, a column for each block but the first, and the
// columns of the terms. A term has a column for each combination of its factors' levels, where the last level
// of each factor is left out. An entry of such a column is a product over the factors of the term: 1 if the
// run has the column's level, -1 if the run has the factor's last level, otherwise 0 (effect coding). So the
// effects of a factor's levels sum to 0, and the effect of the last level is minus the sum of the other
// effects.
//
// FitEffects tests each term by two fits: a fit of all terms that do not contain this term, and the same fit
// with this term. The residuals of the fit without the term, permuted within blocks, give p. FitEffects then
// fits all terms that the runs can separate, adds intervals from blocks drawn with replacement, and corrects
// p for the number of terms.
//
// Invariants: terms, their tests and their effects are in one order. Random numbers depend on the seed and
// the term alone, so results can be repeated.
#include "deploy/study/effects.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <numeric>
#include <set>

#include "deploy/statistics.h"
#include "deploy/study/least_squares.h"
#include "runtime/base/random.h"

namespace tethys {
namespace {

using Term = std::vector<int>;  // Indices of factors.

bool Contains(const Term& outer, const Term& inner) {
  return std::includes(outer.begin(), outer.end(), inner.begin(), inner.end());
}

// The columns of a design: one for the mean, one for each block but the first, then the columns of the terms.
class Design {
 public:
  Design(absl::Span<const int> levels, absl::Span<const Observation> rows) : levels_(levels), rows_(rows) {}

  // The levels that the columns of a term stand for: all levels but the last of each factor.
  std::vector<std::vector<int>> Columns(const Term& term) const {
    std::vector<std::vector<int>> columns = {{}};
    for (const int factor : term) {
      std::vector<std::vector<int>> longer;
      for (const std::vector<int>& column : columns) {
        for (int level = 0; level + 1 < levels_[factor]; ++level) {
          longer.push_back(column);
          longer.back().push_back(level);
        }
      }
      columns = std::move(longer);
    }
    return columns;
  }

  LeastSquares Fit(const std::vector<Term>& terms) const {
    LeastSquares fit;
    fit.AddColumn(std::vector<double>(rows_.size(), 1));
    std::set<int> blocks;
    for (const Observation& row : rows_) blocks.insert(row.block);
    for (auto block = std::next(blocks.begin()); block != blocks.end(); ++block) {
      std::vector<double> column;
      for (const Observation& row : rows_) column.push_back(row.block == *block ? 1 : 0);
      fit.AddColumn(column);
    }
    for (const Term& term : terms) {
      for (const std::vector<int>& levels : Columns(term)) fit.AddColumn(Column(term, levels));
    }
    block_columns_ = static_cast<int>(blocks.size());
    return fit;
  }
  // The number of columns before the first term's columns, in the last fit.
  int block_columns() const { return block_columns_; }

 private:
  std::vector<double> Column(const Term& term, const std::vector<int>& levels) const {
    std::vector<double> column;
    for (const Observation& row : rows_) {
      double value = 1;
      for (size_t i = 0; i < term.size(); ++i) {
        const int level = row.level[term[i]];
        value *= level == levels[i] ? 1 : level == levels_[term[i]] - 1 ? -1 : 0;
      }
      column.push_back(value);
    }
    return column;
  }

  const absl::Span<const int> levels_;
  const absl::Span<const Observation> rows_;
  mutable int block_columns_ = 0;
};

std::vector<double> Values(absl::Span<const Observation> rows, bool logarithm) {
  std::vector<double> values;
  for (const Observation& row : rows) values.push_back(logarithm ? std::log(row.value) : row.value);
  return values;
}

std::vector<Term> AllTerms(absl::Span<const int> levels) {
  std::vector<Term> terms;
  const int factors = static_cast<int>(levels.size());
  for (int factor = 0; factor < factors; ++factor) {
    if (levels[factor] > 1) terms.push_back({factor});
  }
  for (int first = 0; first < factors; ++first) {
    for (int second = first + 1; second < factors; ++second) {
      if (levels[first] > 1 && levels[second] > 1) terms.push_back({first, second});
    }
  }
  return terms;
}

// `values`, shuffled within each block.
std::vector<double> PermutedWithinBlocks(absl::Span<const Observation> rows, absl::Span<const double> values,
                                         RandomStream& random) {
  std::map<int, std::vector<size_t>> blocks;
  for (size_t i = 0; i < rows.size(); ++i) blocks[rows[i].block].push_back(i);
  std::vector<double> permuted(values.begin(), values.end());
  for (auto& [block, indices] : blocks) {
    for (size_t left = indices.size(); left > 1; --left) {
      std::swap(permuted[indices[left - 1]],
                permuted[indices[random.NextBelow(static_cast<uint32_t>(left))]]);
    }
  }
  return permuted;
}

struct Test {
  double squares = 0;
  absl::optional<double> p = {};
};

// Tests a term against the model of all terms that do not contain it; nullopt: the term adds nothing to that
// model.
absl::optional<Test> TestTerm(const Design& design, absl::Span<const Observation> rows,
                              const std::vector<double>& y, const Term& term, const std::vector<Term>& terms,
                              const EffectsOptions& options) {
  std::vector<Term> others;
  for (const Term& other : terms) {
    if (!Contains(other, term)) others.push_back(other);
  }
  const LeastSquares without = design.Fit(others);
  others.push_back(term);
  const LeastSquares with = design.Fit(others);
  if (with.rank() == without.rank()) return absl::nullopt;
  const double left = with.Residual(y);
  Test test{.squares = std::max(0.0, without.Residual(y) - left)};
  if (with.rank() >= static_cast<int>(rows.size())) return test;
  const auto statistic = [&](absl::Span<const double> values) {
    const double rest = with.Residual(values);
    return (without.Residual(values) - rest) / std::max(rest, 1e-300);
  };
  const double observed = statistic(y);
  const std::vector<double> fitted = without.Fitted(y);
  std::vector<double> residuals(y.size());
  for (size_t i = 0; i < y.size(); ++i) residuals[i] = y[i] - fitted[i];
  uint64_t key = 0;
  for (const int factor : term) key = key * 64 + factor + 1;
  RandomStream random(options.seed, RandomPurpose::kShuffle, key);
  int reached = 1;  // The observed order counts as one of the permutations.
  for (int i = 0; i < options.permutations; ++i) {
    std::vector<double> permuted = PermutedWithinBlocks(rows, residuals, random);
    for (size_t row = 0; row < permuted.size(); ++row) permuted[row] += fitted[row];
    if (statistic(permuted) >= observed * (1 - 1e-12)) ++reached;
  }
  test.p = static_cast<double>(reached) / (options.permutations + 1);
  return test;
}

// The coefficients of all levels of each term, by the sum rule of effect coding. The list of a term is empty
// if one of its columns was left out.
std::vector<std::vector<LevelEffect>> Coefficients(const Design& design, absl::Span<const int> levels,
                                                   const std::vector<Term>& terms,
                                                   const std::vector<double>& y) {
  const LeastSquares fit = design.Fit(terms);
  const std::vector<double> solution = fit.Solve(y);
  std::vector<std::vector<LevelEffect>> all;
  int next = design.block_columns();
  for (const Term& term : terms) {
    std::map<std::vector<int>, double> known;
    bool complete = true;
    for (const std::vector<int>& column : design.Columns(term)) {
      complete = complete && fit.Kept(next);
      known[column] = solution[next++];
    }
    std::vector<LevelEffect> effects;
    if (complete && term.size() == 1) {
      double sum = 0;
      for (const auto& [level, value] : known) {
        effects.push_back({.level = level, .value = value});
        sum += value;
      }
      effects.push_back({.level = {levels[term[0]] - 1}, .value = -sum});
    } else if (complete) {
      const int last_row = levels[term[0]] - 1, last_column = levels[term[1]] - 1;
      for (int row = 0; row <= last_row; ++row) {
        for (int column = 0; column <= last_column; ++column) {
          double value = 0;
          for (const auto& [level, part] : known) {
            const double sign = (row == last_row ? -1.0 : level[0] == row) *
                                (column == last_column ? -1.0 : level[1] == column);
            value += sign * part;
          }
          effects.push_back({.level = {row, column}, .value = value});
        }
      }
    }
    all.push_back(std::move(effects));
  }
  return all;
}

// The width of the interval of a mean over `blocks` blocks, divided by the width of the interval from blocks
// drawn with replacement.
double Widening(int blocks) {
  return StudentQuantile975(blocks - 1) / kNormal975 * std::sqrt(static_cast<double>(blocks) / (blocks - 1));
}

// Adds confidence intervals to `effects` by a block bootstrap: fits `terms` again to blocks drawn with
// replacement.
void AddIntervals(absl::Span<const int> levels, absl::Span<const Observation> rows,
                  const std::vector<Term>& terms, const EffectsOptions& options,
                  std::vector<std::vector<LevelEffect>>& effects) {
  std::map<int, std::vector<Observation>> blocks;
  for (const Observation& row : rows) blocks[row.block].push_back(row);
  constexpr size_t kLeastBlocks = 3;
  if (blocks.size() < kLeastBlocks) return;
  std::vector<std::vector<Observation>> list;
  for (auto& [block, observations] : blocks) list.push_back(observations);
  RandomStream random(options.seed, RandomPurpose::kShuffle, ~uint64_t{0});
  std::vector<std::vector<std::vector<double>>> drawn(terms.size());
  for (int draw = 0; draw < options.draws; ++draw) {
    std::vector<Observation> sample;
    for (size_t i = 0; i < list.size(); ++i) {
      for (Observation row : list[random.NextBelow(static_cast<uint32_t>(list.size()))]) {
        row.block = static_cast<int>(i);
        sample.push_back(std::move(row));
      }
    }
    const Design design(levels, sample);
    const auto fitted = Coefficients(design, levels, terms, Values(sample, options.logarithm));
    for (size_t term = 0; term < terms.size(); ++term) {
      drawn[term].resize(effects[term].size());
      if (fitted[term].size() != effects[term].size()) continue;
      for (size_t i = 0; i < fitted[term].size(); ++i) drawn[term][i].push_back(fitted[term][i].value);
    }
  }
  const double widening = Widening(static_cast<int>(list.size()));
  for (size_t term = 0; term < terms.size(); ++term) {
    for (size_t i = 0; i < effects[term].size(); ++i) {
      std::vector<double>& values = drawn[term][i];
      if (values.size() < static_cast<size_t>(options.draws) / 2) continue;
      std::sort(values.begin(), values.end());
      LevelEffect& effect = effects[term][i];
      const double low = values[static_cast<size_t>(0.025 * (values.size() - 1))];
      const double high = values[static_cast<size_t>(std::ceil(0.975 * (values.size() - 1)))];
      effect.low = effect.value + widening * (low - effect.value);
      effect.high = effect.value + widening * (high - effect.value);
    }
  }
}

// An effect of this size or less may be a rounding error.
double RoundingOf(const std::vector<double>& y) {
  double largest = 1;
  for (const double value : y) largest = std::max(largest, std::abs(value));
  constexpr double kRounding = 1e-12;
  return kRounding * largest;
}

void WithoutRounding(double rounding, std::vector<LevelEffect>& effects) {
  const auto rounded = [rounding](double value) { return std::abs(value) <= rounding ? 0 : value; };
  for (LevelEffect& effect : effects) {
    effect.value = rounded(effect.value);
    if (effect.low.has_value()) effect.low = rounded(*effect.low);
    if (effect.high.has_value()) effect.high = rounded(*effect.high);
  }
}

absl::Status Check(absl::Span<const int> levels, absl::Span<const Observation> rows, bool logarithm) {
  if (rows.size() < 2) return absl::InvalidArgumentError("fewer than two runs have a value of this measure");
  for (const Observation& row : rows) {
    TETHYS_CHECK(row.level.size() == levels.size());
    if (!std::isfinite(row.value) || (logarithm && row.value <= 0)) {
      return absl::InvalidArgumentError(absl::StrCat(row.value, " has no logarithm"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<TermEffects>> FitEffects(absl::Span<const int> levels,
                                                    absl::Span<const Observation> rows,
                                                    const EffectsOptions& options) {
  TETHYS_RETURN_IF_ERROR(Check(levels, rows, options.logarithm));
  const Design design(levels, rows);
  const std::vector<double> y = Values(rows, options.logarithm);
  const double total = design.Fit({}).Residual(y);
  const bool equal = total <= RoundingOf(y) * RoundingOf(y) * static_cast<double>(y.size());
  std::vector<Term> terms = AllTerms(levels);
  std::vector<Term> kept;
  std::vector<TermEffects> results;
  for (const Term& term : terms) {
    const absl::optional<Test> test = TestTerm(design, rows, y, term, terms, options);
    if (!test.has_value()) continue;
    kept.push_back(term);
    results.push_back(
        {.factors = term, .eta_squared = equal ? 0 : test->squares / total, .p = test->p, .level = {}});
    if (equal && test->p.has_value()) results.back().p = 1;
  }
  std::vector<std::vector<LevelEffect>> effects = Coefficients(design, levels, kept, y);
  AddIntervals(levels, rows, kept, options, effects);
  const double rounding = RoundingOf(y);
  for (std::vector<LevelEffect>& of_term : effects) WithoutRounding(rounding, of_term);
  std::vector<double> tested;
  for (const TermEffects& result : results) {
    if (result.p.has_value()) tested.push_back(*result.p);
  }
  tested = HolmAdjusted(tested);
  size_t next = 0;
  for (size_t i = 0; i < results.size(); ++i) {
    if (results[i].p.has_value()) results[i].p = tested[next++];
    results[i].level = std::move(effects[i]);
    if (!options.logarithm) continue;
    for (LevelEffect& effect : results[i].level) {
      effect.value = std::exp(effect.value);
      if (effect.low.has_value()) effect.low = std::exp(*effect.low);
      if (effect.high.has_value()) effect.high = std::exp(*effect.high);
    }
  }
  return results;
}

std::vector<double> HolmAdjusted(absl::Span<const double> p) {
  std::vector<size_t> order(p.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return p[a] < p[b]; });
  std::vector<double> adjusted(p.size());
  double largest = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    largest = std::max(largest, std::min(1.0, p[order[i]] * static_cast<double>(p.size() - i)));
    adjusted[order[i]] = largest;
  }
  return adjusted;
}

}  // namespace tethys
