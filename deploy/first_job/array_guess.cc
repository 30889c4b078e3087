// Pairs of arrays, one with values and one with labels: IDX files and arrays of NumPy.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "deploy/first_job/format_guesses.h"

namespace tethys {
namespace {

// True if the array holds labels. Labels have one axis, or a second axis of size 1; other arrays hold labels
// only if their name says so.
bool HoldsLabels(const FoundArray& array) {
  const NamedContent content = ContentOfName(array.name);
  if (array.shape.size() == 1 || (array.shape.size() == 2 && array.shape[1] == 1)) {
    return content != NamedContent::kValues || array.shape.size() == 1;
  }
  return content == NamedContent::kLabels;
}

struct Pair {
  std::string values, labels;
};

struct Pairs {
  Pair train = {}, test = {};
  std::vector<std::string> left_out = {};
};

std::string ArrayText(const FoundArray& array) {
  return absl::StrCat(array.name, " ", ShapeText(array.shape));
}

// The pair among `names`, the arrays of one part of the data. `part`: "training" or "test".
absl::StatusOr<Pair> PairOf(const FoundData& found, const std::vector<FoundArray>& arrays,
                            const std::vector<std::string>& names, const std::string& part) {
  std::vector<std::string> values, labels, texts;
  for (const FoundArray& array : arrays) {
    if (std::find(names.begin(), names.end(), array.name) == names.end()) continue;
    (HoldsLabels(array) ? labels : values).push_back(array.name);
    texts.push_back(ArrayText(array));
  }
  if (values.size() == 1 && labels.size() == 1) return Pair{values[0], labels[0]};
  const std::string listed = SomeNames(texts);
  if (labels.empty()) {
    return CannotGuess(found, absl::StrCat("holds no labels for the ", part, " samples: found ", listed),
                       "add an array [samples] with the number of each sample's class, from 0 on");
  }
  if (values.empty()) {
    return CannotGuess(found,
                       absl::StrCat("holds labels but no values for the ", part, " samples: found ", listed),
                       "add an array [samples, ...] with the values");
  }
  return CannotGuess(
      found,
      absl::StrCat("holds more than one pair of values and labels for the ", part, " samples: found ",
                   listed),
      "leave one pair there, and name test arrays by the word test (x_train, y_train, x_test, y_test)");
}

absl::StatusOr<Pairs> FindPairs(const FoundData& found, const std::vector<FoundArray>& arrays) {
  const NamesByPart parts = DivideNames(NamesOf(arrays));
  Pairs pairs = {.left_out = parts.left_out};
  TETHYS_ASSIGN_OR_RETURN(pairs.train, PairOf(found, arrays, parts.train, "training"));
  if (parts.test.empty()) return pairs;
  TETHYS_ASSIGN_OR_RETURN(pairs.test, PairOf(found, arrays, parts.test, "test"));
  return pairs;
}

// Writes pairs into the message of a format; proto::Idx and proto::Npy have the same fields.
template <typename Fields>
void Write(const FoundData& found, const Pairs& pairs, Fields& fields) {
  fields.set_train_images(PathOf(found, pairs.train.values));
  fields.set_train_labels(PathOf(found, pairs.train.labels));
  if (pairs.test.values.empty()) return;
  fields.set_test_images(PathOf(found, pairs.test.values));
  fields.set_test_labels(PathOf(found, pairs.test.labels));
}

}  // namespace

absl::StatusOr<SourceGuess> GuessIdx(const FoundData& found) {
  TETHYS_ASSIGN_OR_RETURN(const Pairs pairs, FindPairs(found, found.idx));
  SourceGuess guess = {.left_out = pairs.left_out};
  Write(found, pairs, *guess.data.mutable_idx());
  guess.reasons["data.idx"] =
      "The files begin like IDX files. Images and labels differ by their number of axes, training and test "
      "by name.";
  return guess;
}

absl::StatusOr<SourceGuess> GuessNpy(const FoundData& found) {
  TETHYS_ASSIGN_OR_RETURN(const Pairs pairs, FindPairs(found, found.npy));
  SourceGuess guess = {.left_out = pairs.left_out};
  Write(found, pairs, *guess.data.mutable_npy());
  guess.reasons["data.npy"] =
      "Values and labels differ by the shapes and names of the arrays, training and test by their names.";
  return guess;
}

}  // namespace tethys
