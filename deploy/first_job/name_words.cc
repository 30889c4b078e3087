#include "deploy/first_job/name_words.h"

#include <algorithm>
#include <cctype>
#include <initializer_list>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace tethys {
namespace {

bool IsOneOf(absl::string_view word, std::initializer_list<absl::string_view> words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

// The words of a name in lower case: letters, without the digits that follow them. "X_train2017" has the
// words x and train.
std::vector<std::string> WordsOf(absl::string_view name) {
  std::vector<std::string> words;
  bool in_word = false;
  for (const char c : name) {
    const bool letter = std::isalpha(static_cast<unsigned char>(c)) != 0;
    if (letter && !in_word) words.emplace_back();
    if (letter) words.back().push_back(absl::ascii_tolower(c));
    in_word = letter;
  }
  return words;
}

NamedPart PartOfWord(absl::string_view word) {
  if (IsOneOf(word, {"train", "training", "xtrain", "ytrain", "trainx", "trainy"})) return NamedPart::kTrain;
  if (IsOneOf(word, {"test", "testing", "eval", "xtest", "ytest", "testx", "testy"})) return NamedPart::kTest;
  if (IsOneOf(word, {"val", "valid", "validation", "dev", "xval", "yval"})) return NamedPart::kValidation;
  return NamedPart::kNone;
}

NamedContent ContentOfWord(absl::string_view word) {
  if (IsOneOf(word, {"y", "ys", "label", "labels", "target", "targets", "class", "classes", "ytrain", "ytest",
                     "yval"}))
    return NamedContent::kLabels;
  if (IsOneOf(word, {"x", "xs", "image", "images", "data", "feature", "features", "input", "inputs", "value",
                     "values", "picture", "pictures", "sample", "samples", "xtrain", "xtest", "xval"}))
    return NamedContent::kValues;
  return NamedContent::kNone;
}

}  // namespace

NamedPart PartOfName(absl::string_view name) {
  for (const std::string& word : WordsOf(name)) {
    const NamedPart part = PartOfWord(word);
    if (part != NamedPart::kNone) return part;
  }
  // MNIST's test files are named after their ten thousand samples.
  return absl::StrContains(name, "t10k") ? NamedPart::kTest : NamedPart::kNone;
}

NamedContent ContentOfName(absl::string_view name) {
  NamedContent content = NamedContent::kNone;
  for (const std::string& word : WordsOf(name)) {
    const NamedContent own = ContentOfWord(word);
    if (own == NamedContent::kLabels) return own;  // "data_labels.npy" holds labels.
    if (own == NamedContent::kValues) content = own;
  }
  return content;
}

std::string PatternOf(const std::vector<std::string>& names, const std::vector<std::string>& all) {
  if (names.size() < 3) return "";
  const std::string& first = names[0];
  size_t begin = first.size(), end = first.size();
  for (const std::string& name : names) {
    if (name.find_first_of("*?[]\\") != std::string::npos) return "";
    const size_t most = std::min(first.size(), name.size());
    begin = std::min<size_t>(
        begin, std::mismatch(first.begin(), first.begin() + most, name.begin()).first - first.begin());
    end = std::min<size_t>(
        end, std::mismatch(first.rbegin(), first.rbegin() + most, name.rbegin()).first - first.rbegin());
  }
  // The numbers of the files are not part of the pattern: "train-*.csv" instead of "train-0*.csv".
  while (begin > 0 && absl::ascii_isdigit(first[begin - 1])) --begin;
  while (end > 0 && absl::ascii_isdigit(first[first.size() - end])) --end;
  const std::string before = first.substr(0, begin), after = first.substr(first.size() - end);
  for (const std::string& name : all) {
    const bool matches = name.size() >= before.size() + after.size() && absl::StartsWith(name, before) &&
                         absl::EndsWith(name, after);
    if (matches != (std::find(names.begin(), names.end(), name) != names.end())) return "";
  }
  return absl::StrCat(before, "*", after);
}

}  // namespace tethys
