#include "deploy/first_job/source_guess.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "deploy/first_job/format_guesses.h"
#include "deploy/text.h"

namespace tethys {
namespace {

// A format that the folder holds.
struct FoundFormat {
  std::string text;  // "2 tables (train.csv and test.csv)".
  absl::StatusOr<SourceGuess> (*guess)(const FoundData&) = nullptr;
};

template <typename Files>
void AddFormat(const Files& files, const std::string& noun,
               absl::StatusOr<SourceGuess> (*guess)(const FoundData&), std::vector<FoundFormat>& formats) {
  if (files.empty()) return;
  const std::vector<std::string> names = NamesOf(files);
  formats.push_back(
      {absl::StrCat(PluralText(static_cast<int64_t>(names.size()), noun), " (", SomeNames(names), ")"),
       guess});
}

bool HoldsPictures(const FoundFolder& folder) {
  return folder.pictures > 0 || std::any_of(folder.folders.begin(), folder.folders.end(), HoldsPictures);
}

// The formats in the order in which they are looked for.
std::vector<FoundFormat> FormatsOf(const FoundData& found) {
  std::vector<FoundFormat> formats;
  AddFormat(found.idx, "IDX file", GuessIdx, formats);
  AddFormat(found.cifar, "CIFAR file", GuessCifar, formats);
  AddFormat(found.records, "TFRecord file", GuessRecords, formats);
  AddFormat(found.npy, "NumPy array", GuessNpy, formats);
  AddFormat(found.tables, "table", GuessTable, formats);
  std::vector<FoundFolder> folders;
  std::copy_if(found.folders.begin(), found.folders.end(), std::back_inserter(folders), HoldsPictures);
  AddFormat(folders, "picture folder", GuessPictures, formats);
  return formats;
}

// The error for a folder in which no format was found.
absl::Status NothingFound(const FoundData& found) {
  constexpr char kFormats[] =
      "name a folder that holds IDX, CIFAR, TFRecord, .npy, .npz or .csv files, or a folder of pictures "
      "(.png, .jpg, "
      ".jpeg) for each class";
  if (!found.pictures.empty()) {
    return CannotGuess(
        found,
        absl::StrCat("holds ", PluralText(static_cast<int64_t>(found.pictures.size()), "picture"),
                     " without labels (", SomeNames(found.pictures), ")"),
        "put the pictures of each class into a folder that is named after the class");
  }
  std::vector<std::string> names = found.others;
  for (const FoundFolder& folder : found.folders) names.push_back(folder.name + "/");
  if (names.empty()) return CannotGuess(found, "is empty", kFormats);
  if (found.others.empty() && found.folders.size() == 1) {
    return CannotGuess(
        found, absl::StrCat("holds only the folder ", found.folders[0].name),
        absl::StrCat("if the data are there, write tethys init ", PathOf(found, found.folders[0].name)));
  }
  return CannotGuess(found, absl::StrCat("holds no data that can be read: ", SomeNames(names)), kFormats);
}

}  // namespace

absl::StatusOr<SourceGuess> GuessSource(const FoundData& found) {
  const std::vector<FoundFormat> formats = FormatsOf(found);
  if (formats.empty()) return NothingFound(found);
  if (formats.size() == 1) return formats[0].guess(found);
  std::vector<std::string> texts;
  for (const FoundFormat& format : formats) texts.push_back(format.text);
  return CannotGuess(found, absl::StrCat("holds data of several formats: ", NamesText(texts)),
                     "move the data of one format to a folder of their own");
}

NamesByPart DivideNames(const std::vector<std::string>& names) {
  std::vector<std::string> parts[4];
  for (const std::string& name : names) parts[static_cast<int>(PartOfName(name))].push_back(name);
  std::vector<std::string>&none = parts[static_cast<int>(NamedPart::kNone)],
  &train = parts[static_cast<int>(NamedPart::kTrain)],
  &validation = parts[static_cast<int>(NamedPart::kValidation)],
  &test = parts[static_cast<int>(NamedPart::kTest)];
  NamesByPart divided;
  divided.left_out = train.empty() ? std::vector<std::string>() : none;
  divided.train = train.empty() ? none : train;
  divided.test = test.empty() ? validation : test;
  if (!test.empty()) divided.left_out.insert(divided.left_out.end(), validation.begin(), validation.end());
  if (divided.train.empty()) std::swap(divided.train, divided.test);
  return divided;
}

std::string PathOf(const FoundData& found, const std::string& name) {
  if (found.folder == ".") return name;
  return absl::StrCat(found.folder, absl::EndsWith(found.folder, "/") ? "" : "/", name);
}

std::vector<std::string> PatternsOf(const FoundData& found, const std::vector<std::string>& names) {
  const auto escaped = [](const std::string& path) {
    std::string text;
    for (const char c : path) {
      if (absl::string_view("*?[\\").find(c) != absl::string_view::npos) text.push_back('\\');
      text.push_back(c);
    }
    return text;
  };
  const std::string pattern = PatternOf(names, found.files);
  const std::string folder = PathOf(found, "");
  if (!pattern.empty()) return {escaped(found.folder == "." ? "" : folder) + pattern};
  std::vector<std::string> paths;
  for (const std::string& name : names) paths.push_back(escaped(PathOf(found, name)));
  return paths;
}

std::string SomeNames(const std::vector<std::string>& names) {
  constexpr size_t kMost = 4;
  if (names.size() <= kMost) return NamesText(names);
  std::vector<std::string> first(names.begin(), names.begin() + kMost - 1);
  first.push_back(absl::StrCat(names.size() - first.size(), " more"));
  return NamesText(first);
}

absl::Status CannotGuess(const FoundData& found, absl::string_view problem, absl::string_view remedy) {
  return absl::InvalidArgumentError(absl::StrCat(found.folder, " ", problem, ": ", remedy));
}

}  // namespace tethys
