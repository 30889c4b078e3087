#include "runtime/data/shard_names.h"

#include <cstdint>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"

namespace tethys {
namespace {

constexpr absl::string_view kOf = "-of-";
constexpr int64_t kMostFiles = 1'000'000;  // A larger number is not taken for a count of files.
constexpr int64_t kMostNamed = 3;

// The parts of "pets-00002-of-00008.tfrecord": "pets", 2, 8 and ".tfrecord", with 5 digits.
struct ShardName {
  absl::string_view before, after, total_text;
  int64_t number = 0, total = 0;
  int digits = 0;
};

bool ParseShardName(absl::string_view path, ShardName& name) {
  const size_t of = path.rfind(kOf);
  if (of == absl::string_view::npos) return false;
  size_t begin = of, end = of + kOf.size();
  while (begin > 0 && absl::ascii_isdigit(path[begin - 1])) --begin;
  while (end < path.size() && absl::ascii_isdigit(path[end])) ++end;
  name.digits = static_cast<int>(of - begin);
  name.before = path.substr(0, begin);
  name.after = path.substr(end);
  name.total_text = path.substr(of + kOf.size(), end - of - kOf.size());
  return absl::SimpleAtoi(path.substr(begin, of - begin), &name.number) &&
         absl::SimpleAtoi(name.total_text, &name.total) && name.total > 0 && name.total <= kMostFiles &&
         name.number <= name.total;
}

struct ShardSet {
  std::set<int64_t> numbers;
  int digits = 0;
};

}  // namespace

std::vector<std::string> MissingShardNotes(const std::vector<std::string>& paths) {
  // Keyed by the text before the number, the total as written, and the text after it.
  std::map<std::tuple<absl::string_view, absl::string_view, absl::string_view>, ShardSet> sets;
  for (const std::string& path : paths) {
    ShardName name;
    if (!ParseShardName(path, name)) continue;
    ShardSet& set = sets[{name.before, name.total_text, name.after}];
    set.numbers.insert(name.number);
    set.digits = name.digits;
  }
  std::vector<std::string> notes;
  for (const auto& [key, set] : sets) {
    const auto& [before, total_text, after] = key;
    int64_t total = 0;
    if (!absl::SimpleAtoi(total_text, &total)) continue;
    // Some tools count files from 1.
    const int64_t first = set.numbers.count(0) == 0 && set.numbers.count(total) > 0 ? 1 : 0;
    std::vector<std::string> missing;
    int64_t count = 0;
    for (int64_t number = first; number < first + total; ++number) {
      if (set.numbers.count(number) > 0 || ++count > kMostNamed) continue;
      missing.push_back(absl::StrFormat("%s%0*d%s%s%s", before, set.digits, number, kOf, total_text, after));
    }
    if (count == 0) continue;
    notes.push_back(
        absl::StrCat("of the ", total, " files that the names of the files announce, ", count,
                     count == 1 ? " is missing: " : " are missing: ", absl::StrJoin(missing, ", "),
                     count > kMostNamed ? ", ..." : "", "; the samples of the other files are used"));
  }
  return notes;
}

}  // namespace tethys
