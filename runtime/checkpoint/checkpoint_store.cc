#include "runtime/checkpoint/checkpoint_store.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <map>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"
#include "runtime/base/file.h"
#include "runtime/checkpoint/checkpoint_format.h"
#include "runtime/checkpoint/checkpoint_reader.h"

namespace tethys {
namespace {

bool HasManifest(const std::string& directory) {
  return FileExists(absl::StrCat(directory, "/", kManifestFile));
}

// The step in a checkpoint's directory name; -1 if `name` is no such name.
int64_t StepOf(absl::string_view name) {
  int64_t step;
  if (!absl::ConsumePrefix(&name, "step-") || !absl::SimpleAtoi(name, &step) || step < 0) return -1;
  return absl::StrCat(step) == name ? step : -1;
}

absl::Status Rename(const std::string& from, const std::string& to) {
  if (std::rename(from.c_str(), to.c_str()) == 0) return absl::OkStatus();
  return ErrnoStatus(errno, absl::StrCat("cannot rename ", from, " to ", to));
}

}  // namespace

std::string InitialCheckpoint(const std::string& root) {
  return absl::StrCat(root, "/initial/", CheckpointName(0));
}

absl::StatusOr<std::vector<CheckpointEntry>> ListCheckpoints(const std::string& root) {
  std::map<int64_t, std::string> paths;
  if (!FileExists(root)) return std::vector<CheckpointEntry>();
  TETHYS_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListDirectory(root));
  for (const std::string& name : names) {
    const std::string path = absl::StrCat(root, "/", name);
    const int64_t step = StepOf(absl::StripSuffix(name, kOldSuffix));
    if (step < 0 || !HasManifest(path)) continue;
    if (absl::EndsWith(name, kOldSuffix)) {
      paths.emplace(step, path);
    } else {
      paths.insert_or_assign(step, path);
    }
  }
  std::vector<CheckpointEntry> entries;
  for (const auto& [step, path] : paths) entries.push_back({step, path});
  return entries;
}

absl::StatusOr<LatestCheckpoint> FindLatestCheckpoint(const std::string& root) {
  TETHYS_ASSIGN_OR_RETURN(std::vector<CheckpointEntry> entries, ListCheckpoints(root));
  LatestCheckpoint latest;
  for (auto entry = entries.rbegin(); entry != entries.rend(); ++entry) {
    const auto reader = CheckpointReader::Open(entry->path, nullptr);
    if (reader.ok()) {
      latest.path = entry->path;
      break;
    }
    // A checkpoint that a later version wrote is not damaged, and training must not go on from an older
    // checkpoint.
    if (absl::IsFailedPrecondition(reader.status())) return reader.status();
    latest.damaged.push_back({entry->path, std::string(reader.status().message())});
  }
  return latest;
}

absl::Status PruneCheckpoints(const std::string& root, int keep, int64_t saved,
                              const std::set<int64_t>& spared) {
  TETHYS_CHECK(keep >= 1, "keep is ", keep);
  TETHYS_ASSIGN_OR_RETURN(std::vector<CheckpointEntry> entries, ListCheckpoints(root));
  // The checkpoint that was just saved counts as the newest, even if other checkpoints have higher steps,
  // because such checkpoints belong to an abandoned continuation of the run.
  std::stable_partition(entries.begin(), entries.end(),
                        [saved](const CheckpointEntry& entry) { return entry.step != saved; });
  for (size_t i = 0; i + keep < entries.size(); ++i) {
    if (spared.count(entries[i].step) > 0) continue;
    // The checkpoint is renamed first, because a partly removed checkpoint could still have its manifest and
    // would then count as a checkpoint.
    const std::string removed = absl::StrCat(root, "/", CheckpointName(entries[i].step), kTemporarySuffix);
    TETHYS_RETURN_IF_ERROR(RemoveRecursively(removed));
    TETHYS_RETURN_IF_ERROR(Rename(entries[i].path, removed));
    TETHYS_RETURN_IF_ERROR(RemoveRecursively(removed));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> SetAsideCheckpoint(const std::string& path) {
  std::string aside = absl::StrCat(path, kDamagedSuffix);
  for (int copy = 2; FileExists(aside); ++copy) aside = absl::StrCat(path, kDamagedSuffix, "-", copy);
  TETHYS_RETURN_IF_ERROR(Rename(path, aside));
  return aside;
}

absl::Status LinkBest(const std::string& root, absl::optional<int64_t> step) {
  const std::string link = root + "/best";
  const std::string temporary = link + kTemporarySuffix;
  if (!step.has_value()) {
    if (unlink(link.c_str()) == 0 || errno == ENOENT) return absl::OkStatus();
    return ErrnoStatus(errno, absl::StrCat("cannot remove the link ", link));
  }
  TETHYS_RETURN_IF_ERROR(RemoveRecursively(temporary));
  if (symlink(CheckpointName(*step).c_str(), temporary.c_str()) != 0) {
    return ErrnoStatus(errno, absl::StrCat("cannot make the link ", temporary));
  }
  return Rename(temporary, link);
}

absl::Status RemoveStaleCheckpoints(const std::string& root) {
  if (!FileExists(root)) return absl::OkStatus();
  TETHYS_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListDirectory(root));
  for (const std::string& name : names) {
    const std::string path = absl::StrCat(root, "/", name);
    absl::string_view stem = name;
    const bool old = absl::ConsumeSuffix(&stem, kOldSuffix);
    if (StepOf(stem) >= 0 && old) {
      const std::string newer = absl::StrCat(root, "/", stem);
      TETHYS_RETURN_IF_ERROR(FileExists(newer) ? RemoveRecursively(path) : Rename(path, newer));
    } else if (absl::ConsumeSuffix(&stem, kTemporarySuffix) && StepOf(stem) >= 0) {
      TETHYS_RETURN_IF_ERROR(RemoveRecursively(path));
    }
  }
  return SyncDirectory(root);
}

}  // namespace tethys
