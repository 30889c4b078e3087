// A random split of n samples lacks a class of share p with probability (1 - p)^n. The sum over the classes
// is the expected number of classes that a random split lacks. If a split lacks classes although this number
// is nearly 0, the split was not drawn at random: the files are sorted, and the split is one end of the
// files.
#include "runtime/data/class_notes.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace tethys {
namespace {

constexpr double kHardlyAny = 0.01;
constexpr size_t kMostNamed = 10;
constexpr size_t kFewestForOrder = 20;  // Fewer labels do not show whether they are sorted.

using Counts = std::map<int32_t, int64_t>;

Counts CountsOf(const SplitLabels& split) {
  Counts counts;
  for (const int32_t label : split.labels) ++counts[label];
  return counts;
}

// The classes of `all` that are not in `counts`.
std::vector<int32_t> Missing(const Counts& all, const Counts& counts) {
  std::vector<int32_t> missing;
  for (const auto& [label, count] : all) {
    if (counts.count(label) == 0) missing.push_back(label);
  }
  return missing;
}

// The expected number of classes that a random split of `samples` samples would lack.
double MissingByChance(const Counts& all, int64_t samples) {
  double total = 0, missing = 0;
  for (const auto& [label, count] : all) total += static_cast<double>(count);
  for (const auto& [label, count] : all) {
    missing += std::pow(1 - static_cast<double>(count) / total, static_cast<double>(samples));
  }
  return missing;
}

// "class 1" or "classes 0 to 5" or "classes 1, 4".
std::string ClassesText(const std::vector<int32_t>& classes) {
  if (classes.size() == 1) return absl::StrCat("class ", classes[0]);
  if (classes.size() > 2 && classes.back() - classes.front() + 1 == static_cast<int64_t>(classes.size())) {
    return absl::StrCat("classes ", classes.front(), " to ", classes.back());
  }
  const auto last = classes.begin() + static_cast<int64_t>(std::min(kMostNamed, classes.size()));
  return absl::StrCat("classes ", absl::StrJoin(classes.begin(), last, ", "),
                      classes.size() > kMostNamed ? ", ..." : "");
}

// True if samples of one class follow one another: neighbours have equal labels far more often than in a
// random order.
bool SortedByClass(const std::vector<int32_t>& labels, const Counts& counts) {
  if (labels.size() < kFewestForOrder || counts.size() < 2) return false;
  const auto size = static_cast<double>(labels.size());
  double by_chance = 0;
  for (const auto& [label, count] : counts) by_chance += std::pow(static_cast<double>(count) / size, 2);
  int64_t changes = 0;
  for (size_t i = 1; i < labels.size(); ++i) changes += labels[i] != labels[i - 1] ? 1 : 0;
  const double expected = (size - 1) * (1 - by_chance);
  return expected >= 10 && static_cast<double>(changes) < 0.25 * expected;
}

// Names the fields by which a job selects a part of its files.
std::string PartsText(const proto::Data& data) {
  std::vector<std::string> fields;
  if (data.validation_samples() > 0)
    fields.emplace_back("data.validation_samples takes samples from the end of the files");
  if (data.limit_samples() > 0)
    fields.emplace_back("data.limit_samples takes samples from the beginning of the files");
  return absl::StrJoin(fields, ", ");
}

std::string OrderRemedy(const proto::Data& data) {
  return absl::StrCat(" (the files seem to be sorted by class, and ", PartsText(data),
                      "): put the samples of the files in a random order first");
}

class Notes {
 public:
  Notes(const proto::Data& data, int64_t classes, const LabelsOfSplits& splits)
      : data_(data),
        classes_(classes),
        splits_(splits),
        train_(CountsOf(splits.train)),
        left_out_(CountsOf(splits.left_out)),
        validation_(CountsOf(splits.validation)),
        test_(CountsOf(splits.test)),
        files_(train_) {
    for (const Counts* part : {&left_out_, &validation_}) {
      for (const auto& [label, count] : *part) files_[label] += count;
    }
  }

  std::vector<std::string> Take(int64_t workers) {
    NoteTraining();
    NoteValidation();
    NoteOrder(workers);
    return std::move(notes_);
  }

 private:
  // Says which samples have a class that no training sample has.
  absl::string_view OwnerText(int32_t label) const {
    return validation_.count(label) > 0 ? "the validation split does"
           : left_out_.count(label) > 0 ? "samples that data.limit_samples leaves out do"
                                        : "test samples do";
  }

  // Adds a note if there are classes that training never sees.
  void NoteTraining() {
    Counts seen = files_;
    for (const auto& [label, count] : test_) seen[label] += count;
    const std::vector<int32_t> missing = Missing(seen, train_);
    const auto samples = static_cast<int64_t>(splits_.train.labels.size());
    const bool not_by_chance = MissingByChance(files_, samples) < kHardlyAny;
    if (missing.empty()) return NoteDeclared();
    if (!splits_.train.all && !not_by_chance) return;
    const bool sorted = files_.count(missing[0]) > 0 && not_by_chance;
    notes_.push_back(absl::StrCat(
        "no training sample ", splits_.train.all ? "" : absl::StrCat("of ", samples, " that were looked at "),
        "has ", ClassesText(missing), ", but ", OwnerText(missing[0]),
        sorted ? OrderRemedy(data_) : ": look at the labels of the files"));
  }

  // Adds a note if there are classes that the job declares but no file has.
  void NoteDeclared() {
    const auto samples = static_cast<double>(train_.empty() ? 0 : splits_.train.labels.size());
    const auto classes = static_cast<double>(classes_);
    const bool by_chance = classes * std::pow(1 - 1 / classes, samples) >= kHardlyAny;
    if (!splits_.train.all || static_cast<int64_t>(train_.size()) >= classes_ || by_chance) return;
    Counts declared;
    for (int64_t label = 0; label < classes_; ++label) declared[static_cast<int32_t>(label)] = 1;
    const std::vector<int32_t> never = Missing(declared, train_);
    if (never.empty()) return;
    notes_.push_back(absl::StrCat("no sample has ", ClassesText(never), ", though data.classes is ", classes_,
                                  ": look at the labels, or lower data.classes"));
  }

  // Adds a note if there are classes that training sees but validation does not.
  void NoteValidation() {
    const auto samples = static_cast<int64_t>(splits_.validation.labels.size());
    if (samples == 0) return;
    const std::vector<int32_t> missing = Missing(files_, validation_);
    if (missing.empty() || MissingByChance(files_, samples) >= kHardlyAny) return;
    notes_.push_back(absl::StrCat("no validation sample has ", ClassesText(missing),
                                  ", but training samples do", OrderRemedy(data_)));
  }

  // Adds a note if the files are sorted by class and the shuffle or the sharding keeps their order.
  void NoteOrder(int64_t workers) {
    if (!SortedByClass(splits_.train.labels, train_)) return;
    const bool blocks = data_.shuffle().has_blocks();
    if (data_.shuffle().has_none() || blocks) {
      notes_.push_back(absl::StrCat(
          "the files seem to be sorted by class, and data.shuffle { ", blocks ? "blocks" : "none", " {} } ",
          blocks ? "mixes only neighbouring samples" : "keeps their order",
          ", so batches have few classes: put the samples in a random order first, or "
          "shuffle fully"));
    }
    if (workers > 1 && (data_.sharding() == proto::Data::FILE || data_.sharding() == proto::Data::AUTO)) {
      notes_.push_back(
          "the files seem to be sorted by class, and data.sharding gives each worker files of its own, so "
          "workers may "
          "train on different classes: write sharding: DATA, or put the samples in a random order first");
    }
  }

  const proto::Data& data_;
  const int64_t classes_;
  const LabelsOfSplits& splits_;
  const Counts train_, left_out_, validation_, test_;
  Counts files_;  // All samples except the test samples, which have their own files.
  std::vector<std::string> notes_;
};

}  // namespace

std::vector<std::string> ClassNotes(const proto::Data& data, int64_t workers, int64_t classes,
                                    const LabelsOfSplits& splits) {
  if (splits.train.labels.empty()) return {};
  return Notes(data, classes, splits).Take(workers);
}

}  // namespace tethys
