// Folders of pictures, one for each class: CLASS/ or train/CLASS/.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "deploy/first_job/format_guesses.h"
#include "deploy/text.h"

namespace tethys {
namespace {

// A class needs two pictures at least, because one of them may be taken for the validation.
constexpr int64_t kLeastPictures = 2;

bool HoldsClasses(const FoundFolder& folder) {
  return std::any_of(folder.folders.begin(), folder.folders.end(),
                     [](const FoundFolder& inner) { return inner.pictures > 0; });
}

// Refuses classes in which there is little to learn. `root`: the path of the folder that holds their folders.
absl::Status CheckClasses(const FoundData& found, const std::string& root,
                          const std::vector<FoundFolder>& classes) {
  if (classes.size() < 2) {
    return CannotGuess(
        found,
        absl::StrCat("holds one class of pictures only (", root, "/", SomeNames(NamesOf(classes)), ")"),
        "put the pictures of each class into a folder of their own");
  }
  std::vector<std::string> few;
  for (const FoundFolder& each : classes) {
    if (each.pictures < kLeastPictures) few.push_back(absl::StrCat(each.name, " (", each.pictures, ")"));
  }
  if (few.empty()) return absl::OkStatus();
  return CannotGuess(
      found, absl::StrCat("holds classes with fewer than ", kLeastPictures, " pictures: ", SomeNames(few)),
      "add pictures, or remove the folders of these classes");
}

absl::StatusOr<SourceGuess> GuessClasses(const FoundData& found) {
  TETHYS_RETURN_IF_ERROR(CheckClasses(found, found.folder, found.folders));
  SourceGuess guess;
  guess.data.mutable_image_folder()->set_train(found.folder);
  guess.data.set_classes(static_cast<int64_t>(found.folders.size()));
  guess.reasons["data.image_folder"] = "Each folder of pictures is a class.";
  return guess;
}

absl::StatusOr<SourceGuess> GuessParts(const FoundData& found) {
  std::vector<std::string> names;
  std::vector<std::string> others;
  for (const FoundFolder& folder : found.folders)
    (HoldsClasses(folder) ? names : others).push_back(folder.name);
  NamesByPart parts = DivideNames(names);
  if (parts.train.size() != 1 || parts.test.size() > 1) {
    return CannotGuess(
        found, absl::StrCat("holds several folders with folders of pictures: ", SomeNames(names)),
        "call the folder for training train and the folder for the test test, or name one of them");
  }
  SourceGuess guess = {.left_out = parts.left_out};
  guess.left_out.insert(guess.left_out.end(), others.begin(), others.end());
  const auto train = std::find_if(found.folders.begin(), found.folders.end(),
                                  [&](const FoundFolder& folder) { return folder.name == parts.train[0]; });
  TETHYS_RETURN_IF_ERROR(CheckClasses(found, PathOf(found, train->name), train->folders));
  guess.data.mutable_image_folder()->set_train(PathOf(found, train->name));
  if (!parts.test.empty()) guess.data.mutable_image_folder()->set_test(PathOf(found, parts.test[0]));
  guess.data.set_classes(static_cast<int64_t>(train->folders.size()));
  guess.reasons["data.image_folder"] =
      absl::StrCat("Each folder of pictures in ", train->name, " is a class.");
  return guess;
}

}  // namespace

absl::StatusOr<SourceGuess> GuessPictures(const FoundData& found) {
  std::vector<std::string> flat, nested;
  for (const FoundFolder& folder : found.folders) {
    if (HoldsClasses(folder)) nested.push_back(folder.name);
    if (folder.pictures > 0) flat.push_back(folder.name);
  }
  if (flat.empty()) return GuessParts(found);
  if (!nested.empty()) {
    return CannotGuess(found,
                       absl::StrCat("holds folders of pictures (", SomeNames(flat),
                                    ") beside folders with folders of pictures (", SomeNames(nested), ")"),
                       "leave only folders CLASS/, or only train/CLASS/ and test/CLASS/");
  }
  // Folders that are called train and test are no classes.
  const bool parts = std::all_of(
      flat.begin(), flat.end(), [](const std::string& name) { return PartOfName(name) != NamedPart::kNone; });
  if (!parts) return GuessClasses(found);
  return CannotGuess(
      found, absl::StrCat("holds pictures without labels (in ", SomeNames(flat), ")"),
      "put the pictures of each class into a folder that is named after the class, such as train/cat");
}

}  // namespace tethys
