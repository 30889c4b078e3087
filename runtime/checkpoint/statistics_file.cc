#include "runtime/checkpoint/statistics_file.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "runtime/base/file.h"
#include "runtime/checkpoint/checkpoint_format.h"
#include "runtime/checkpoint/safetensors.h"

namespace tethys {
namespace {

constexpr char kWorkers[] = "workers";
// If the statistics of the single workers take more bytes than this, only their mean is saved, and a resumed
// job starts from the mean.
constexpr int64_t kMostWorkerBytes = int64_t{256} << 20;
constexpr int64_t kMostFileBytes = kMostWorkerBytes + (int64_t{32} << 20);
constexpr int64_t kFloatBytes = sizeof(float);

std::vector<SafetensorsEntry> EntriesOf(const VariableSet& set, const MovingStatistics& statistics) {
  std::vector<SafetensorsEntry> entries;
  for (const Variable& variable : set.variables()) {
    entries.push_back({.name = variable.name, .shape = variable.shape});
  }
  const auto workers = static_cast<int64_t>(statistics.workers.size());
  if (workers > 1 && workers <= kMostWorkerBytes / (set.arena_size() * kFloatBytes)) {
    entries.push_back({.name = kWorkers, .shape = {workers, set.arena_size()}});
  }
  return entries;
}

absl::Status CheckValues(const VariableSet& set, const std::vector<float>& values) {
  if (static_cast<int64_t>(values.size()) != set.arena_size()) {
    return absl::InvalidArgumentError(absl::StrCat("moving statistics of ", values.size(),
                                                   " elements were to be saved, but the model has ",
                                                   set.arena_size()));
  }
  for (const Variable& variable : set.variables()) {
    const float* const begin = values.data() + variable.range.begin;
    if (std::all_of(begin, begin + variable.range.count, [](float value) { return std::isfinite(value); })) {
      continue;
    }
    return absl::InvalidArgumentError(absl::StrCat(
        "tensor '", variable.name,
        "' holds a value that is not finite; a checkpoint never holds values that are not finite"));
  }
  return absl::OkStatus();
}

void Append(absl::Span<const float> values, std::string& bytes) {
  bytes.append(reinterpret_cast<const char*>(values.data()), values.size() * kFloatBytes);
}

struct StatisticsFile {
  std::vector<SafetensorsEntry> entries;
  std::string bytes;
  int64_t data_begin = 0;

  void Copy(const SafetensorsEntry& entry, float* to) const {
    std::memcpy(to, bytes.data() + data_begin + entry.begin, entry.end - entry.begin);
  }
};

absl::StatusOr<StatisticsFile> Load(const std::string& directory, const proto::CheckpointManifest& manifest) {
  const proto::CheckpointFile& listed = manifest.statistics();
  const std::string path = absl::StrCat(directory, "/", kStatisticsFile);
  if (listed.bytes() < kSafetensorsLengthBytes || listed.bytes() > kMostFileBytes) {
    return absl::DataLossError(
        absl::StrCat(path, ": the manifest gives this file an impossible size, ", listed.bytes(), " bytes"));
  }
  absl::StatusOr<std::string> bytes = ReadFile(path, listed.bytes());
  if (!bytes.ok()) return absl::DataLossError(bytes.status().message());
  const auto size = static_cast<int64_t>(bytes->size());
  if (size != listed.bytes()) {
    return absl::DataLossError(
        absl::StrCat(path, " has ", size, " bytes; its manifest says ", listed.bytes()));
  }
  if (Crc32(*bytes) != listed.crc32()) {
    return absl::DataLossError(absl::StrCat(path, " is damaged: its checksum differs from the manifest"));
  }
  StatisticsFile file{.entries = {}, .bytes = *std::move(bytes)};
  const absl::StatusOr<int64_t> json_bytes = DecodeSafetensorsHeaderBytes(file.bytes.data(), size);
  if (!json_bytes.ok()) return Annotate(json_bytes.status(), path);
  file.data_begin = kSafetensorsLengthBytes + *json_bytes;
  absl::StatusOr<std::vector<SafetensorsEntry>> entries = DecodeSafetensorsHeader(
      absl::string_view(file.bytes).substr(kSafetensorsLengthBytes, *json_bytes), size - file.data_begin);
  if (!entries.ok()) return Annotate(entries.status(), path);
  file.entries = *std::move(entries);
  return file;
}

std::string EntryText(const SafetensorsEntry& entry) {
  return absl::StrCat("'", entry.name, "' ", ShapeText(entry.shape));
}

// FailedPrecondition: the file does not contain the statistics of `set`, in the order of `set`.
absl::Status CheckSameStatistics(const StatisticsFile& file, const VariableSet& set,
                                 const std::string& directory) {
  const absl::Span<const Variable> expected = set.variables();
  for (size_t i = 0; i < std::max(expected.size(), file.entries.size()); ++i) {
    const SafetensorsEntry* const saved = i < file.entries.size() ? &file.entries[i] : nullptr;
    const bool is_workers = saved != nullptr && saved->name == kWorkers && i == expected.size();
    if (is_workers && saved->shape.size() == 2 && saved->shape[1] == set.arena_size()) continue;
    if (saved != nullptr && i < expected.size() && saved->name == expected[i].name &&
        saved->shape == expected[i].shape) {
      continue;
    }
    return absl::FailedPreconditionError(absl::StrCat(
        "checkpoint ", directory, " is of another model: moving statistic ", i, " is ",
        saved == nullptr ? "nothing" : EntryText(*saved), " in the checkpoint and ",
        i < expected.size() ? absl::StrCat("'", expected[i].name, "' ", ShapeText(expected[i].shape))
                            : "nothing",
        " in the job's model"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status WriteStatisticsFile(const std::string& directory, const VariableSet& set,
                                 const MovingStatistics& statistics, proto::CheckpointManifest& manifest) {
  TETHYS_RETURN_IF_ERROR(CheckValues(set, statistics.mean));
  for (const std::vector<float>& own : statistics.workers) TETHYS_RETURN_IF_ERROR(CheckValues(set, own));
  std::vector<SafetensorsEntry> entries = EntriesOf(set, statistics);
  TETHYS_RETURN_IF_ERROR(LayOut(entries));
  TETHYS_ASSIGN_OR_RETURN(std::string bytes, EncodeSafetensorsHeader(entries));
  for (const Variable& variable : set.variables()) {
    Append(absl::MakeConstSpan(statistics.mean).subspan(variable.range.begin, variable.range.count), bytes);
  }
  if (entries.back().name == kWorkers) {
    for (const std::vector<float>& own : statistics.workers) Append(own, bytes);
  }
  TETHYS_RETURN_IF_ERROR(WriteFileAtomically(absl::StrCat(directory, "/", kStatisticsFile), bytes));
  manifest.set_format(kStatisticsFormat);
  manifest.mutable_statistics()->set_name(kStatisticsFile);
  manifest.mutable_statistics()->set_bytes(static_cast<int64_t>(bytes.size()));
  manifest.mutable_statistics()->set_crc32(Crc32(bytes));
  return absl::OkStatus();
}

absl::StatusOr<MovingStatistics> ReadStatisticsFile(const std::string& directory, const VariableSet& set,
                                                    const proto::CheckpointManifest& manifest) {
  if (!manifest.has_statistics()) {
    return absl::FailedPreconditionError(
        absl::StrCat("checkpoint ", directory, " has no moving statistics (it is of format ",
                     manifest.format(), "), but the model has batch normalisation ('",
                     set.variables().front().name, "'): use a checkpoint of this model"));
  }
  TETHYS_ASSIGN_OR_RETURN(const StatisticsFile file, Load(directory, manifest));
  TETHYS_RETURN_IF_ERROR(CheckSameStatistics(file, set, directory));
  MovingStatistics statistics{.mean = std::vector<float>(set.arena_size())};
  for (size_t i = 0; i < set.variables().size(); ++i) {
    file.Copy(file.entries[i], statistics.mean.data() + set.variables()[i].range.begin);
  }
  if (file.entries.size() > set.variables().size()) {
    const SafetensorsEntry& entry = file.entries.back();
    std::vector<float> all(entry.shape[0] * set.arena_size());
    file.Copy(entry, all.data());
    for (auto own = all.begin(); own != all.end(); own += set.arena_size()) {
      statistics.workers.emplace_back(own, own + set.arena_size());
    }
  } else {
    statistics.workers = {statistics.mean};  // With one worker, the mean is the worker's own statistics.
  }
  const auto is_good = [&](const std::vector<float>& values) { return CheckValues(set, values).ok(); };
  if (!is_good(statistics.mean) ||
      !std::all_of(statistics.workers.begin(), statistics.workers.end(), is_good)) {
    return absl::DataLossError(
        absl::StrCat(directory, "/", kStatisticsFile, " holds a value that is not finite"));
  }
  return statistics;
}

absl::Status VerifyStatisticsFile(const std::string& directory, const proto::CheckpointManifest& manifest) {
  return manifest.has_statistics() ? Load(directory, manifest).status() : absl::OkStatus();
}

}  // namespace tethys
