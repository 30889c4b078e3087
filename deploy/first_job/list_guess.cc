// Lists of files: CIFAR and TFRecord files.
#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "deploy/first_job/format_guesses.h"

namespace tethys {
namespace {

using Kind = RecordFeature::Kind;

std::string FeatureText(const RecordFeature& feature) {
  const char* const kind = feature.kind == Kind::kPicture  ? "a picture"
                           : feature.kind == Kind::kBytes  ? "bytes"
                           : feature.kind == Kind::kFloats ? "floats"
                                                           : "integers";
  const bool picture = feature.kind == Kind::kPicture;
  return absl::StrCat("\"", feature.name, "\" (", picture ? "" : absl::StrCat(feature.values, " "), kind,
                      ")");
}

std::string FeaturesText(const std::vector<RecordFeature>& features) {
  std::vector<std::string> texts;
  for (const RecordFeature& feature : features) texts.push_back(FeatureText(feature));
  return SomeNames(texts);
}

// The only feature of `candidates` or, if there are several, the only one whose name says what it holds;
// null: there is no such feature.
const RecordFeature* Choose(const std::vector<const RecordFeature*>& candidates, NamedContent content) {
  if (candidates.size() == 1) return candidates[0];
  const RecordFeature* chosen = nullptr;
  for (const RecordFeature* candidate : candidates) {
    if (ContentOfName(candidate->name) != content) continue;
    if (chosen != nullptr) return nullptr;
    chosen = candidate;
  }
  return chosen;
}

const RecordFeature* ChooseValues(const std::vector<RecordFeature>& features) {
  for (const std::vector<Kind>& kinds : {std::vector<Kind>{Kind::kPicture}, {Kind::kBytes, Kind::kFloats}}) {
    std::vector<const RecordFeature*> candidates;
    for (const RecordFeature& feature : features) {
      if (std::find(kinds.begin(), kinds.end(), feature.kind) != kinds.end()) candidates.push_back(&feature);
    }
    if (!candidates.empty()) return Choose(candidates, NamedContent::kValues);
  }
  return nullptr;
}

const RecordFeature* ChooseLabel(const std::vector<RecordFeature>& features) {
  std::vector<const RecordFeature*> candidates;
  for (const RecordFeature& feature : features) {
    if (feature.kind == Kind::kIntegers && feature.values == 1) candidates.push_back(&feature);
  }
  return Choose(candidates, NamedContent::kLabels);
}

// The value of the feature `name` of a record, if it is one integer; otherwise 0.
int64_t IntegerOf(const std::vector<RecordFeature>& features, absl::string_view name) {
  for (const RecordFeature& feature : features) {
    const bool named = feature.name == name || feature.name == absl::StrCat("image/", name);
    if (named && feature.kind == Kind::kIntegers && feature.values == 1) return feature.first;
  }
  return 0;
}

// The shape of raw values: from features that give it, or as a square in one or three colours; empty: not
// known.
Shape ShapeOfRaw(const std::vector<RecordFeature>& features, int64_t values) {
  const int64_t height = IntegerOf(features, "height"), width = IntegerOf(features, "width");
  for (const int64_t channels : {1, 3}) {
    const int64_t pixels = values / channels;
    const auto side = static_cast<int64_t>(std::llround(std::sqrt(static_cast<double>(pixels))));
    Shape shape = {height > 0 ? height : side, width > 0 ? width : side};
    if (channels > 1) shape.push_back(channels);
    // The sizes come from a file, so their product may be too large for an integer.
    if (ElementCount(shape).value_or(0) == values) return shape;
  }
  return {};
}

}  // namespace

absl::StatusOr<SourceGuess> GuessCifar(const FoundData& found) {
  const bool hundred = found.cifar[0].hundred;
  for (const FoundCifar& file : found.cifar) {
    if (file.hundred == hundred) continue;
    return CannotGuess(found,
                       absl::StrCat("holds records of CIFAR-10 and of CIFAR-100 (", found.cifar[0].name,
                                    " and ", file.name, ")"),
                       "move one of the two to another folder");
  }
  const NamesByPart parts = DivideNames(NamesOf(found.cifar));
  SourceGuess guess = {.left_out = parts.left_out};
  WriteLists(found, parts, *guess.data.mutable_cifar());
  guess.reasons["data.cifar"] = absl::StrCat("The sizes of the files are multiples of ",
                                             hundred ? 3074 : 3073, " bytes, a record of CIFAR-",
                                             hundred ? "100" : "10", ". Training and test differ by name.");
  if (hundred) {
    guess.data.mutable_cifar()->set_labels(proto::Cifar::FINE);
    guess.reasons["data.cifar.labels"] = "The 100 classes; COARSE takes the 20 groups of classes.";
  }
  return guess;
}

absl::StatusOr<SourceGuess> GuessRecords(const FoundData& found) {
  const NamesByPart parts = DivideNames(NamesOf(found.records));
  const auto first = std::find_if(found.records.begin(), found.records.end(),
                                  [&](const FoundRecords& file) { return file.name == parts.train[0]; });
  const std::vector<RecordFeature>& features = first->features;
  const RecordFeature* const values = ChooseValues(features);
  const RecordFeature* const label = ChooseLabel(features);
  if (values == nullptr || label == nullptr) {
    return CannotGuess(
        found,
        absl::StrCat("holds records with ", features.empty() ? "no features" : FeaturesText(features), " (",
                     first->name, "), and which of them is the ", values == nullptr ? "sample" : "label",
                     " is not clear"),
        "call the features of a sample image and label, the label being one integer, or write a job with "
        "data.tfrecord.image_feature and label_feature");
  }
  SourceGuess guess = {.left_out = parts.left_out};
  proto::Tfrecord& fields = *guess.data.mutable_tfrecord();
  WriteLists(found, parts, fields);
  fields.set_image_feature(values->name);
  fields.set_label_feature(label->name);
  guess.reasons["data.tfrecord"] =
      absl::StrCat("The first record has the features ", FeaturesText(features), ".");
  if (values->kind == Kind::kPicture) return guess;
  const Shape shape = ShapeOfRaw(features, values->values);
  if (shape.empty()) {
    return CannotGuess(
        found, absl::StrCat("holds records whose feature ", FeatureText(*values), " has an unknown shape"),
        "write a job with data.tfrecord.shape");
  }
  fields.mutable_shape()->Assign(shape.begin(), shape.end());
  guess.reasons["data.tfrecord.shape[0]"] = absl::StrCat("The shape of ", values->values, " values.");
  return guess;
}

}  // namespace tethys
