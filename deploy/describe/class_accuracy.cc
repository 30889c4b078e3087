#include "deploy/describe/class_accuracy.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "deploy/text.h"

namespace tethys {
namespace {

struct OneClass {
  int64_t label = 0;
  int64_t samples = 0;
  int64_t correct = 0;
  int64_t mistaken_for = -1;  // The most frequent wrong prediction; -1: none.
  int64_t mistaken = 0;       // The number of samples with that wrong prediction.

  double share() const { return static_cast<double>(correct) / static_cast<double>(samples); }
};

OneClass Count(int64_t label, const std::map<int64_t, int64_t>& predictions) {
  OneClass one{.label = label};
  for (const auto& [predicted, samples] : predictions) {
    one.samples += samples;
    if (predicted == label) {
      one.correct = samples;
    } else if (samples > one.mistaken) {
      one.mistaken = samples;
      one.mistaken_for = predicted;
    }
  }
  return one;
}

}  // namespace

std::string ClassAccuracy::Text(const std::vector<std::string>& names) const {
  if (counts_.empty()) return "";
  std::vector<OneClass> classes;
  for (const auto& [label, predictions] : counts_) classes.push_back(Count(label, predictions));
  const size_t all = classes.size();
  if (all > kMostShown) {
    std::stable_sort(classes.begin(), classes.end(),
                     [](const OneClass& a, const OneClass& b) { return a.share() < b.share(); });
    classes.resize(kMostShown);
  }
  const auto name = [&](int64_t index) {
    return index >= 0 && index < static_cast<int64_t>(names.size()) ? names[index] : "";
  };
  std::vector<Column> columns = {{.header = {"class"}}};
  if (!names.empty()) columns.push_back({.header = {"name"}, .left = true});
  columns.insert(columns.end(), {{.header = {"samples"}},
                                 {.header = {"accuracy %"}},
                                 {.header = {"most often taken for"}, .left = true}});
  std::vector<std::vector<std::string>> rows;
  for (const OneClass& one : classes) {
    std::vector<std::string>& row = rows.emplace_back();
    row.push_back(absl::StrCat(one.label));
    if (!names.empty()) row.push_back(name(one.label));
    row.push_back(CountText(one.samples));
    row.push_back(absl::StrFormat("%.2f", 100 * one.share()));
    const std::string other = name(one.mistaken_for);
    row.push_back(one.mistaken == 0 ? ""
                                    : absl::StrCat(other.empty() ? absl::StrCat(one.mistaken_for) : other,
                                                   " (", CountText(one.mistaken), ")"));
  }
  return absl::StrCat(
      all > kMostShown ? absl::StrCat("the ", kMostShown, " lowest of ", all, " classes\n") : "",
      Table(columns, rows));
}

}  // namespace tethys
