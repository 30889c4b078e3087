#include "deploy/study/written_study.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "deploy/study/study_measures.h"
#include "runtime/base/file.h"
#include "runtime/base/nearest_name.h"
#include "runtime/job/text_format_file.h"

namespace tethys {
namespace {

using google::protobuf::TextFormat;
using Choices = google::protobuf::RepeatedPtrField<proto::StudyChoice>;

constexpr int64_t kMaxStudyBytes = 1 << 20;
constexpr int64_t kMaxCells = 10000;
constexpr int kMostRepeats = 1000;
constexpr double kMostPrice = 1e9;  // The same limit as for a job's price_per_hour.

std::string DidYouMean(const std::string& word, const std::vector<std::string>& known) {
  const std::string nearest = NearestName(word, known);
  return nearest.empty() ? "" : absl::StrCat(" (did you mean ", nearest, "?)");
}

std::vector<std::string> LabelsOf(const proto::StudyFactor& factor) {
  std::vector<std::string> labels;
  for (const proto::StudyLevel& level : factor.level()) labels.push_back(level.label());
  return labels;
}

absl::Status CheckFactors(const WrittenStudy& written) {
  const proto::Study& study = written.study();
  if (study.factor_size() == 0) {
    return WrongStudy(written.path(),
                      "the study has no factor: add factor { name: \"batch\" level { label: \"128\" set: "
                      "\"batch_size_per_worker=128\" } }");
  }
  std::set<std::string> names;
  int64_t cells = 1;
  for (int f = 0; f < study.factor_size(); ++f) {
    const proto::StudyFactor& factor = study.factor(f);
    const std::string place = written.PlaceOf({{"factor", f}});
    if (factor.name().empty()) return WrongStudy(place, "the factor has no name: add name: \"...\"");
    if (!names.insert(factor.name()).second) {
      return WrongStudy(place,
                        absl::StrCat("two factors have the name ", factor.name(), ": rename one of them"));
    }
    if (factor.level_size() == 0) {
      return WrongStudy(place,
                        absl::StrCat("factor ", factor.name(),
                                     " has no levels: add level { label: \"...\" set: \"FIELD=VALUE\" }"));
    }
    std::set<std::string> labels;
    for (int l = 0; l < factor.level_size(); ++l) {
      const std::string at = written.PlaceOf({{"factor", f}, {"level", l}});
      const std::string& label = factor.level(l).label();
      if (label.empty()) return WrongStudy(at, "the level has no label: add label: \"...\"");
      if (!labels.insert(label).second) {
        return WrongStudy(at, absl::StrCat("factor ", factor.name(), " has two levels with the label ", label,
                                           ": rename one of these levels"));
      }
    }
    cells *= factor.level_size();
    if (cells > kMaxCells) {
      return WrongStudy(place, absl::StrCat("the factors have more than ", kMaxCells,
                                            " combinations: leave some levels out"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckChoices(const proto::Study& study, const Choices& choices, const std::string& place) {
  for (const proto::StudyChoice& choice : choices) {
    std::vector<std::string> names;
    const proto::StudyFactor* factor = nullptr;
    for (const proto::StudyFactor& candidate : study.factor()) {
      names.push_back(candidate.name());
      if (candidate.name() == choice.factor()) factor = &candidate;
    }
    if (factor == nullptr) {
      return WrongStudy(place, absl::StrCat("there is no factor '", choice.factor(), "'",
                                            DidYouMean(choice.factor(), names),
                                            "; there are: ", absl::StrJoin(names, ", ")));
    }
    const std::vector<std::string> labels = LabelsOf(*factor);
    if (choice.level_size() == 0) return WrongStudy(place, "the choice names no level: add level: \"...\"");
    for (const std::string& level : choice.level()) {
      if (std::find(labels.begin(), labels.end(), level) != labels.end()) continue;
      return WrongStudy(place,
                        absl::StrCat("factor ", factor->name(), " has no level '", level, "'",
                                     DidYouMean(level, labels), "; it has: ", absl::StrJoin(labels, ", ")));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckMeasure(const std::string& measure, const std::string& place) {
  if (FindMeasure(measure) != nullptr) return absl::OkStatus();
  std::vector<std::string> names;
  for (const Measure& known : AllMeasures()) names.push_back(known.name);
  return WrongStudy(place, absl::StrCat("there is no measure '", measure, "'", DidYouMean(measure, names),
                                        "; there are: ", absl::StrJoin(names, ", ")));
}

absl::Status CheckReferences(const WrittenStudy& written) {
  const proto::Study& study = written.study();
  for (int i = 0; i < study.exclude_size(); ++i) {
    const std::string place = written.PlaceOf({{"exclude", i}});
    if (study.exclude(i).match_size() == 0)
      return WrongStudy(place, "exclude without match would exclude every combination: add match");
    TETHYS_RETURN_IF_ERROR(CheckChoices(study, study.exclude(i).match(), place));
  }
  for (int i = 0; i < study.published_size(); ++i) {
    const std::string place = written.PlaceOf({{"published", i}});
    TETHYS_RETURN_IF_ERROR(CheckChoices(study, study.published(i).match(), place));
    TETHYS_RETURN_IF_ERROR(CheckMeasure(study.published(i).measure(), place));
  }
  for (int i = 0; i < study.claim_size(); ++i) {
    const std::string place = written.PlaceOf({{"claim", i}});
    if (study.claim(i).more().empty() || study.claim(i).less().empty()) {
      return WrongStudy(place, "the claim compares nothing: add more { ... } and less { ... }");
    }
    TETHYS_RETURN_IF_ERROR(CheckChoices(study, study.claim(i).more(), place));
    TETHYS_RETURN_IF_ERROR(CheckChoices(study, study.claim(i).less(), place));
    TETHYS_RETURN_IF_ERROR(CheckMeasure(study.claim(i).measure(), place));
  }
  return absl::OkStatus();
}

absl::Status CheckPrice(double price, const std::string& place) {
  if (price >= 0 && price <= kMostPrice) return absl::OkStatus();
  return WrongStudy(place, absl::StrCat("price_per_hour is ", price, ": must be from 0 to ", kMostPrice));
}

absl::Status CheckNumbers(const WrittenStudy& written) {
  const proto::Study& study = written.study();
  if (study.repeats() < 0 || study.repeats() > kMostRepeats) {
    return WrongStudy(written.PlaceOf({{"repeats", -1}}),
                      absl::StrCat("repeats must be from 1 to ", kMostRepeats));
  }
  if (!(study.max_others_cpu() >= 0 && study.max_others_cpu() <= 1)) {
    return WrongStudy(written.PlaceOf({{"max_others_cpu", -1}}),
                      "max_others_cpu must be a share from 0 to 1");
  }
  if (!(study.until() >= 0 && study.until() <= 1)) {
    return WrongStudy(written.PlaceOf({{"until", -1}}), "until must be a share from 0 to 1, such as 0.05");
  }
  if (study.most_repeats() < 0 || study.most_repeats() > kMostRepeats) {
    return WrongStudy(written.PlaceOf({{"most_repeats", -1}}),
                      absl::StrCat("most_repeats must be from 1 to ", kMostRepeats));
  }
  for (int i = 0; i < study.price_size(); ++i) {
    TETHYS_RETURN_IF_ERROR(CheckPrice(study.price(i).price_per_hour(), written.PlaceOf({{"price", i}})));
  }
  for (int f = 0; f < study.factor_size(); ++f) {
    for (int l = 0; l < study.factor(f).level_size(); ++l) {
      TETHYS_RETURN_IF_ERROR(CheckPrice(study.factor(f).level(l).price_per_hour(),
                                        written.PlaceOf({{"factor", f}, {"level", l}})));
    }
  }
  for (int i = 0; i < study.published_size(); ++i) {
    if (std::isfinite(study.published(i).value())) continue;
    return WrongStudy(written.PlaceOf({{"published", i}}), "the published value must be finite");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status WrongStudy(const std::string& place, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat(place, ": ", what));
}

std::string WrittenStudy::PlaceOf(std::initializer_list<PathStep> steps) const {
  return PlaceInFile(path_, *tree_, *proto::Study::descriptor(), steps);
}

absl::StatusOr<WrittenStudy> WrittenStudy::Parse(absl::string_view text, const std::string& path) {
  WrittenStudy written(path);
  written.tree_ = std::make_unique<TextFormat::ParseInfoTree>();
  proto::Study& study = written.study_;
  const auto as_it_is = [](const std::string& message) { return message; };
  TETHYS_RETURN_IF_ERROR(ParseTextFormat(text, path, as_it_is, study, *written.tree_));
  if (study.name().empty()) study.set_name(std::filesystem::path(path).stem().string());
  if (study.repeats() == 0) study.set_repeats(1);
  TETHYS_RETURN_IF_ERROR(CheckNumbers(written));
  TETHYS_RETURN_IF_ERROR(CheckFactors(written));
  TETHYS_RETURN_IF_ERROR(CheckReferences(written));
  return written;
}

absl::StatusOr<WrittenStudy> WrittenStudy::Read(const std::string& path) {
  TETHYS_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kMaxStudyBytes));
  return Parse(text, path);
}

}  // namespace tethys
