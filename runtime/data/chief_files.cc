#include "runtime/data/chief_files.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/strip.h"
#include "runtime/base/crc32c.h"
#include "runtime/base/empty_file.h"
#include "runtime/data/byte_source.h"
#include "runtime/data/chief_paths.h"
#include "runtime/data/data_format.h"
#include "runtime/data/dataset.h"

namespace tethys {
namespace {

namespace fs = std::filesystem;

// The folder of a path of the job: the path itself if it is a folder, otherwise the innermost folder that
// contains the file or all matches of the pattern.
std::string FolderNamed(const ChiefPath& named) {
  const size_t special = named.pattern ? named.path.find_first_of("*?[\\") : std::string::npos;
  if (special == std::string::npos && fs::is_directory(named.path)) return named.path;
  const size_t slash = named.path.rfind('/', special);
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : named.path.substr(0, slash);
}

absl::StatusOr<std::string> WithoutLinks(const std::string& path) {
  std::error_code error;
  const fs::path real = fs::canonical(path, error);
  if (error) return ErrnoStatus(error.value(), absl::StrCat("chief://", path));
  return real.string();
}

// True if `path` lies in `folder` or below it. Requires paths without links.
bool IsBelow(absl::string_view path, absl::string_view folder) {
  absl::ConsumeSuffix(&folder, "/");  // Only the path of the root folder ends with a slash.
  return absl::ConsumePrefix(&path, folder) && absl::StartsWith(path, "/");
}

// Removes the name of an archive's member: "mnist.npz" for "mnist.npz#x_train".
std::string WithoutMember(const std::string& path) {
  const absl::optional<ChiefPath> named = ChiefPathOf("chief://" + path, false);
  return named->path;
}

// The files of all parts, under the names that processes on the chief's machine use.
absl::StatusOr<std::vector<std::string>> EveryFile(const proto::Data& data) {
  std::vector<std::string> files;
  for (const DataPart part : {DataPart::kTrain, DataPart::kTest}) {
    if (!FormatOf(data).has(data, part)) continue;
    TETHYS_ASSIGN_OR_RETURN(const std::vector<std::string> of_part, EveryFileOf(data, part));
    for (const std::string& file : of_part) files.push_back(WithoutMember(file));
  }
  return files;
}

absl::Status Changed(const std::string& path) {
  return absl::DataLossError(absl::StrCat(
      "chief://", path, " changed on the chief's machine after the job had started: start the job again"));
}

}  // namespace

absl::StatusOr<ChiefFiles> ChiefFiles::List(const proto::Data& data) {
  ChiefFiles listed;
  TETHYS_ASSIGN_OR_RETURN(const std::vector<ChiefPath> named, ChiefPathsOf(data));
  if (named.empty()) return listed;
  TETHYS_ASSIGN_OR_RETURN(const std::vector<std::string> files, EveryFile(OnChiefsMachine(data)));
  for (const std::string& file : files) {
    const auto of = absl::c_find_if(named, [&](const ChiefPath& path) { return Covers(path, file); });
    if (of == named.end() || listed.places_.count(file) > 0) continue;
    TETHYS_RETURN_IF_ERROR(listed.Add(file, FolderNamed(*of)));
  }
  return listed;
}

absl::Status ChiefFiles::Add(const std::string& path, const std::string& folder) {
  Place place;
  TETHYS_ASSIGN_OR_RETURN(place.real, WithoutLinks(path));
  TETHYS_ASSIGN_OR_RETURN(const std::string root, WithoutLinks(folder));
  if (!IsBelow(place.real, root)) {
    return absl::InvalidArgumentError(absl::StrCat("chief://", path, " is a link that leads out of ", root,
                                                   ", to ", place.real,
                                                   ": name the target of the link, or its folder, instead"));
  }
  // If a data set has several files, a file of the set may be empty (sample_files.h).
  const absl::StatusOr<std::shared_ptr<const ByteSource>> bytes = OpenLocalFile(place.real);
  if (!bytes.ok() && !IsEmptyFile(bytes.status())) return bytes.status();
  TETHYS_ASSIGN_OR_RETURN(place.version, FileVersion(place.real));
  if (bytes.ok() && place.version != (*bytes)->version()) return Changed(path);
  proto::ChiefFile file;
  file.set_path(path);
  file.set_size(bytes.ok() ? (*bytes)->size() : 0);
  places_[path] = place;
  uint32_t crc = 0;
  TETHYS_RETURN_IF_ERROR(Read(path, 0, [&crc](absl::string_view chunk) {
    crc = Crc32c(chunk, crc);
    return absl::OkStatus();
  }));
  file.set_crc32c(crc);
  files_.push_back(std::move(file));
  return absl::OkStatus();
}

absl::Status ChiefFiles::Read(const std::string& path, int64_t offset,
                              absl::FunctionRef<absl::Status(absl::string_view bytes)> take) const {
  const auto place = places_.find(path);
  if (place == places_.end()) {
    return absl::PermissionDeniedError(absl::StrCat("chief://", path, " is no file of this job"));
  }
  const absl::StatusOr<std::shared_ptr<const ByteSource>> bytes = OpenLocalFile(place->second.real);
  if (IsEmptyFile(bytes.status())) {
    const absl::StatusOr<std::string> version = FileVersion(place->second.real);
    return version.ok() && *version == place->second.version ? absl::OkStatus() : Changed(path);
  }
  if (!bytes.ok() || (*bytes)->version() != place->second.version) return Changed(path);
  if (offset < 0 || offset > (*bytes)->size()) {
    return absl::InvalidArgumentError(absl::StrCat("byte ", offset, " was requested of chief://", path,
                                                   ", which ends at byte ", (*bytes)->size()));
  }
  std::vector<uint8_t> chunk;
  while (offset < (*bytes)->size()) {
    chunk.resize(std::min(kChunk, (*bytes)->size() - offset));
    const absl::Status read = (*bytes)->ReadAt(offset, absl::MakeSpan(chunk));
    const absl::StatusOr<std::string> version = FileVersion(place->second.real);
    if (absl::IsDataLoss(read) || !version.ok() || *version != place->second.version) return Changed(path);
    TETHYS_RETURN_IF_ERROR(read);
    TETHYS_RETURN_IF_ERROR(take({reinterpret_cast<const char*>(chunk.data()), chunk.size()}));
    offset += static_cast<int64_t>(chunk.size());
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> DataFilesOfWorkers(const proto::Data& data) {
  TETHYS_ASSIGN_OR_RETURN(const std::vector<ChiefPath> named, ChiefPathsOf(data));
  TETHYS_ASSIGN_OR_RETURN(std::vector<std::string> files, DataFiles(data));
  const auto from_chief = [&](const std::string& file) {
    return absl::c_any_of(named, [&](const ChiefPath& path) { return Covers(path, WithoutMember(file)); });
  };
  files.erase(std::remove_if(files.begin(), files.end(), from_chief), files.end());
  return files;
}

}  // namespace tethys
