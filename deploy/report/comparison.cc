#include "deploy/report/comparison.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_split.h"

namespace tethys {

const char kNotVaried[] = "-";

absl::StatusOr<Variation> ParseVariation(const std::string& text) {
  const std::string what = absl::StrCat("--vary=", text, ": ");
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size()) {
    return absl::InvalidArgumentError(
        what + "must be FIELD=VALUE,VALUE,..., for example --vary=batch_size_per_worker=64,128");
  }
  Variation variation{text.substr(0, equals), absl::StrSplit(text.substr(equals + 1), ',')};
  for (size_t i = 0; i < variation.values.size(); ++i) {
    const std::string& value = variation.values[i];
    if (value.empty()) return absl::InvalidArgumentError(what + "one of the values is empty");
    if (std::count(variation.values.begin(), variation.values.begin() + i, value) > 0) {
      return absl::InvalidArgumentError(absl::StrCat(what, "the value ", value, " is given twice"));
    }
  }
  return variation;
}

std::vector<Variant> AllVariants(int jobs, absl::Span<const Variation> variations) {
  std::vector<Variant> variants;
  for (int job = 0; job < jobs; ++job) variants.push_back({job, {}});
  for (const Variation& variation : variations) {
    std::vector<Variant> longer;
    for (const Variant& variant : variants) {
      for (const std::string& value : variation.values) {
        longer.push_back(variant);
        longer.back().values.push_back(value);
      }
    }
    variants = std::move(longer);
  }
  return variants;
}

std::vector<std::string> VariantOverrides(const Variant& variant, absl::Span<const Variation> variations) {
  std::vector<std::string> overrides;
  for (size_t i = 0; i < variations.size(); ++i) {
    overrides.push_back(absl::StrCat(variations[i].field, "=", variant.values[i]));
  }
  return overrides;
}

absl::optional<double> SecondsLeft(absl::Span<const RunTime> made, absl::Span<const int> to_come) {
  if (made.empty()) return absl::nullopt;
  double left = 0;
  for (const int variant : to_come) {
    std::vector<double> all, own;
    for (const RunTime& run : made) {
      all.push_back(run.seconds);
      if (run.variant == variant) own.push_back(run.seconds);
    }
    left += MeanOf(own.empty() ? all : own).mean();
  }
  return left;
}

std::string ExchangeOf(const proto::RunSummary& summary) {
  const std::string& exchange = summary.exchange();
  return exchange.substr(0, std::min(exchange.find(" ("), exchange.find(':')));
}

std::string DifferentExchanges(absl::Span<const std::string> exchanges) {
  std::map<std::string, int> counts;
  for (const std::string& exchange : exchanges) ++counts[exchange];
  if (counts.size() < 2) return "";
  std::string text;
  for (const auto& [exchange, count] : counts) {
    absl::StrAppend(&text, text.empty() ? "" : ", ", count, " by ", exchange);
  }
  return text;
}

}  // namespace tethys
