#include "deploy/first_job/found_data.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "deploy/first_job/name_words.h"
#include "runtime/data/byte_source.h"
#include "runtime/data/idx.h"
#include "runtime/data/known_format.h"
#include "runtime/data/npy_array.h"
#include "runtime/data/picture_files.h"
#include "runtime/data/zip_archive.h"

namespace tethys {
namespace {

constexpr char kDefaultCache[] = "";  // The default of data.cache_dir.
// The bytes of a record of CIFAR-10 and of CIFAR-100: the labels, and 32 x 32 pixels in three colours.
constexpr int64_t kCifar10Record = 3073, kCifar100Record = 3074;

std::string PathIn(const std::string& folder, const std::string& name) {
  return absl::StrCat(folder, "/", name);
}

absl::Status AddArray(const std::string& folder, const std::string& name, FoundData& found) {
  TETHYS_ASSIGN_OR_RETURN(const NpyArray array, OpenNpyArray(PathIn(folder, name), NpyExtent::kHeader));
  found.npy.push_back({.name = name, .shape = array.shape});
  return absl::OkStatus();
}

absl::Status AddArchive(const std::string& folder, const std::string& name,
                        const std::shared_ptr<const ByteSource>& file, FoundData& found) {
  TETHYS_ASSIGN_OR_RETURN(const ZipArchive archive, ZipArchive::Open(file));
  for (const ZipMember& member : archive.members()) {
    const std::string array(absl::StripSuffix(member.name, ".npy"));
    TETHYS_RETURN_IF_ERROR(AddArray(folder, absl::StrCat(name, "#", array), found));
  }
  return absl::OkStatus();
}

// Adds the file if it is an IDX file; returns whether it is one. DataLoss: the file begins like one, and is
// damaged.
absl::StatusOr<bool> AddIdx(const std::string& folder, const std::string& name, FoundData& found) {
  for (const IdxKind kind : {IdxKind::kImages, IdxKind::kLabels, IdxKind::kTargets}) {
    const absl::StatusOr<IdxHeader> header = ReadIdxHeader(PathIn(folder, name), kind);
    if (header.ok()) {
      found.idx.push_back({.name = name, .shape = header->shape});
      return true;
    }
    if (!absl::IsInvalidArgument(header.status())) return header.status();
  }
  return false;
}

// Adds a TFRecord file. Only the first file of each part of the data is opened, because opening a file reads
// the length of every record.
absl::Status AddRecords(const std::string& folder, const std::string& name, FoundData& found) {
  const auto of_this_part = [&](const FoundRecords& other) {
    return PartOfName(other.name) == PartOfName(name);
  };
  FoundRecords records = {.name = name, .features = {}};
  if (std::none_of(found.records.begin(), found.records.end(), of_this_part)) {
    TETHYS_ASSIGN_OR_RETURN(records.features, ReadRecordFeatures(PathIn(folder, name), kDefaultCache));
  }
  found.records.push_back(std::move(records));
  return absl::OkStatus();
}

// Adds a file with all that its name and its header say.
absl::Status AddFile(const std::string& folder, const std::string& name, FoundData& found) {
  const std::string path = PathIn(folder, name);
  const absl::StatusOr<std::shared_ptr<const ByteSource>> file = OpenFile(path);
  if (absl::IsInvalidArgument(file.status())) {  // Empty, or a socket or the like.
    found.others.push_back(absl::StrCat(name, " (empty or no regular file)"));
    return absl::OkStatus();
  }
  TETHYS_RETURN_IF_ERROR(file.status());
  const auto ends = [&](absl::string_view ending) { return absl::EndsWithIgnoreCase(name, ending); };
  if (ends(".npy")) return AddArray(folder, name, found);
  if (ends(".npz")) return AddArchive(folder, name, *file, found);
  if (ends(".csv") || ends(".tsv")) {
    TETHYS_ASSIGN_OR_RETURN(FoundTable table, LookAtTable(path, name));
    found.tables.push_back(std::move(table));
    return absl::OkStatus();
  }
  if (absl::StrContains(name, ".tfrecord")) return AddRecords(folder, name, found);
  const int64_t bytes = (*file)->size();
  if (ends(".bin") && (bytes % kCifar10Record == 0 || bytes % kCifar100Record == 0)) {
    found.cifar.push_back({.name = name, .hundred = bytes % kCifar10Record != 0});
    return absl::OkStatus();
  }
  TETHYS_ASSIGN_OR_RETURN(const bool idx, AddIdx(folder, name, found));
  if (!idx) found.others.push_back(absl::StrCat(name, WhatItIs(**file)));
  return absl::OkStatus();
}

absl::StatusOr<FoundFolder> LookInto(const std::string& path, const std::string& name, int levels) {
  TETHYS_ASSIGN_OR_RETURN(const NamesInFolder names, ListFolder(path));
  FoundFolder folder = {.name = name, .pictures = static_cast<int64_t>(names.pictures.size())};
  for (const std::string& inner : names.folders) {
    if (levels == 0) break;
    TETHYS_ASSIGN_OR_RETURN(FoundFolder found, LookInto(PathIn(path, inner), inner, levels - 1));
    folder.folders.push_back(std::move(found));
  }
  return folder;
}

// Leaves out the packed file where the same file is there unpacked, too.
void LeaveOutPackedTwins(std::vector<std::string>& names) {
  const std::vector<std::string> all = names;
  names.erase(std::remove_if(names.begin(), names.end(),
                             [&](const std::string& name) {
                               return absl::EndsWith(name, ".gz") &&
                                      std::binary_search(all.begin(), all.end(),
                                                         name.substr(0, name.size() - 3));
                             }),
              names.end());
}

}  // namespace

absl::StatusOr<FoundData> LookAtFolder(const std::string& folder) {
  constexpr int kLevels = 1;  // train/CLASS: a folder within the folder may hold folders of classes.
  TETHYS_ASSIGN_OR_RETURN(NamesInFolder names, ListFolder(folder));
  FoundData found = {.folder = folder};
  found.pictures = std::move(names.pictures);
  LeaveOutPackedTwins(names.others);
  for (const std::string& name : names.others) {
    TETHYS_RETURN_IF_ERROR(AddFile(folder, name, found));
    found.files.push_back(name);
  }
  for (const std::string& name : names.folders) {
    TETHYS_ASSIGN_OR_RETURN(FoundFolder inner, LookInto(PathIn(folder, name), name, kLevels));
    found.folders.push_back(std::move(inner));
  }
  return found;
}

}  // namespace tethys
