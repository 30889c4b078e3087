#include "deploy/study/study_file.h"

#include <algorithm>
#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "deploy/study/written_study.h"
#include "runtime/base/file.h"
#include "runtime/job/job_file.h"

namespace tethys {
namespace {

using Choices = google::protobuf::RepeatedPtrField<proto::StudyChoice>;

// A change of a job, and the position of the change in the study file.
struct PlacedSet {
  std::string text;
  std::string place;
};

// Replaces each ${NAME} in `text` by the folder that the study, or `places`, gives for NAME
// (proto::StudyPlace).
absl::StatusOr<std::string> FillPlaces(std::string text, const std::string& at, const proto::Study& study,
                                       const std::map<std::string, std::string>& places) {
  for (size_t begin = text.find("${"); begin != std::string::npos; begin = text.find("${", begin)) {
    const size_t end = text.find('}', begin);
    const std::string name = text.substr(begin + 2, end == std::string::npos ? end : end - begin - 2);
    const auto known = std::find_if(study.place().begin(), study.place().end(),
                                    [&](const proto::StudyPlace& place) { return place.name() == name; });
    if (end == std::string::npos || known == study.place().end()) {
      return WrongStudy(at, absl::StrCat("there is no place '", name, "': add place { name: \"", name,
                                         "\" path: \"...\" } to the study"));
    }
    const auto given = places.find(name);
    const std::string& path = given != places.end() ? given->second : known->path();
    if (!FileExists(path)) {
      return absl::NotFoundError(absl::StrCat(at, ": ", path, " does not exist (", name,
                                              known->about().empty() ? "" : ": ", known->about(),
                                              "): name the folder by --place=", name, "=DIR"));
    }
    text.replace(begin, end + 1 - begin, path);
    begin += path.size();
  }
  return text;
}

// Replaces characters that are special in paths or shells by '_'.
std::string DirectoryText(std::string text) {
  for (char& c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '.' || c == '-' || c == '+';
    if (!plain) c = '_';
  }
  return text;
}

// Adds the cause's position in the study file to the error of a job.
absl::Status WithStudyPlace(const absl::Status& status, const StudyCellJob& cell,
                            const std::vector<PlacedSet>& sets, const std::string& last_level) {
  for (const PlacedSet& set : sets) {
    const std::string flag = absl::StrCat("--set=", set.text, ": ");
    if (!absl::StartsWith(status.message(), flag)) continue;
    return absl::Status(status.code(),
                        absl::StrCat(set.place, ": ", set.text, ": ", status.message().substr(flag.size()),
                                     " (combination ", cell.name, ")"));
  }
  return absl::Status(status.code(),
                      absl::StrCat(last_level, ": combination ", cell.name, ": ", status.message()));
}

absl::Status LoadCell(const WrittenStudy& written, const LoadedStudy& loaded,
                      const std::map<std::string, std::string>& places,
                      const std::vector<std::string>& changes, StudyCellJob& cell) {
  const proto::Study& study = loaded.study;
  std::vector<PlacedSet> sets;
  for (int i = 0; i < study.set_size(); ++i) sets.push_back({study.set(i), written.PlaceOf({{"set", i}})});
  std::string job_file = study.job(), last_level = written.path();
  double price = 0;
  for (int f = 0; f < study.factor_size(); ++f) {
    const int l = cell.level[f];
    const proto::StudyLevel& level = study.factor(f).level(l);
    last_level = written.PlaceOf({{"factor", f}, {"level", l}});
    for (int i = 0; i < level.set_size(); ++i) {
      sets.push_back({level.set(i), written.PlaceOf({{"factor", f}, {"level", l}, {"set", i}})});
    }
    if (!level.job().empty()) job_file = level.job();
    if (!level.hostfile().empty()) cell.hostfile = loaded.Resolve(level.hostfile());
    if (level.price_per_hour() > 0) price = level.price_per_hour();
  }
  if (job_file.empty())
    return WrongStudy(last_level, absl::StrCat("combination ", cell.name, " has no job: add job"));
  cell.job_file = loaded.Resolve(job_file);
  for (PlacedSet& set : sets) {
    TETHYS_ASSIGN_OR_RETURN(set.text, FillPlaces(set.text, set.place, study, places));
    cell.set.push_back(set.text);
  }
  cell.set.insert(cell.set.end(), changes.begin(), changes.end());
  absl::StatusOr<proto::Job> job = LoadJob(cell.job_file, cell.set);
  if (!job.ok()) return WithStudyPlace(job.status(), cell, sets, last_level);
  cell.job = *std::move(job);
  cell.job.set_name(cell.directory);
  if (price > 0) cell.job.set_price_per_hour(price);
  return absl::OkStatus();
}

// InvalidArgument: two combinations are the same job on the same hosts.
absl::Status CheckJobsDiffer(const LoadedStudy& loaded) {
  std::map<std::string, const StudyCellJob*> jobs;
  for (const StudyCellJob& cell : loaded.cells) {
    proto::Job job = cell.job;
    job.clear_name();
    const auto same = jobs.emplace(job.SerializeAsString() + cell.hostfile, &cell);
    if (!same.second) {
      return WrongStudy(loaded.path,
                        absl::StrCat("the combinations ", same.first->second->name, " and ", cell.name,
                                     " are the same job: exclude one of these combinations"));
    }
  }
  return absl::OkStatus();
}

// InvalidArgument: the directories of two combinations have the same name.
absl::Status CheckDirectories(const LoadedStudy& loaded) {
  std::map<std::string, const StudyCellJob*> directories;
  for (const StudyCellJob& cell : loaded.cells) {
    const auto shared = directories.emplace(cell.directory, &cell);
    if (!shared.second) {
      return WrongStudy(loaded.path,
                        absl::StrCat("the combinations ", shared.first->second->name, " and ", cell.name,
                                     " would share the directory ", cell.directory, ": change a label"));
    }
  }
  return absl::OkStatus();
}

// Lists the combinations that are not excluded, without their jobs.
absl::StatusOr<LoadedStudy> ListCells(const WrittenStudy& written) {
  LoadedStudy loaded{.study = written.study(), .path = written.path(), .cells = {}};
  const proto::Study& study = loaded.study;
  std::vector<int> level(study.factor_size(), 0);
  for (bool more = true; more;) {
    const bool excluded = std::any_of(
        study.exclude().begin(), study.exclude().end(),
        [&](const proto::StudyExclude& exclude) { return Matches(study, level, exclude.match()); });
    if (excluded) {
      ++loaded.excluded;
    } else {
      std::vector<std::string> labels;
      for (int f = 0; f < study.factor_size(); ++f) labels.push_back(study.factor(f).level(level[f]).label());
      StudyCellJob& cell = loaded.cells.emplace_back();
      cell.level = level;
      cell.name = absl::StrJoin(labels, ", ");
      cell.directory = DirectoryText(absl::StrCat(study.name(), "-", absl::StrJoin(labels, "-")));
    }
    int f = study.factor_size() - 1;
    while (f >= 0 && ++level[f] == study.factor(f).level_size()) level[f--] = 0;
    more = f >= 0;
  }
  if (loaded.cells.empty()) {
    return WrongStudy(written.path(), "all combinations are excluded: remove one of the fields exclude");
  }
  TETHYS_RETURN_IF_ERROR(CheckDirectories(loaded));
  return loaded;
}

}  // namespace

std::string LoadedStudy::Resolve(const std::string& file) const {
  if (file.empty() || file[0] == '/') return file;
  return (std::filesystem::path(path).parent_path() / file).string();
}

bool Matches(const proto::Study& study, absl::Span<const int> level, const Choices& choices) {
  return std::all_of(choices.begin(), choices.end(), [&](const proto::StudyChoice& choice) {
    for (int f = 0; f < study.factor_size(); ++f) {
      if (study.factor(f).name() != choice.factor()) continue;
      const std::string& label = study.factor(f).level(level[f]).label();
      return std::find(choice.level().begin(), choice.level().end(), label) != choice.level().end();
    }
    return false;
  });
}

absl::StatusOr<LoadedStudy> ReadStudy(const std::string& path) {
  TETHYS_ASSIGN_OR_RETURN(const WrittenStudy written, WrittenStudy::Read(path));
  return ListCells(written);
}

absl::StatusOr<LoadedStudy> LoadStudy(const std::string& path,
                                      const std::map<std::string, std::string>& places,
                                      const std::vector<std::string>& changes) {
  TETHYS_ASSIGN_OR_RETURN(const WrittenStudy written, WrittenStudy::Read(path));
  TETHYS_ASSIGN_OR_RETURN(LoadedStudy loaded, ListCells(written));
  for (const auto& [name, folder] : places) {
    const auto& known = loaded.study.place();
    if (std::any_of(known.begin(), known.end(), [&n = name](const auto& place) { return place.name() == n; }))
      continue;
    return WrongStudy(path, absl::StrCat("--place=", name, "=", folder, ": the study has no place ", name));
  }
  for (StudyCellJob& cell : loaded.cells) {
    TETHYS_RETURN_IF_ERROR(LoadCell(written, loaded, places, changes, cell));
  }
  TETHYS_RETURN_IF_ERROR(CheckJobsDiffer(loaded));
  return loaded;
}

}  // namespace tethys
