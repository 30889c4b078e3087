// A checkpoint is written in step-N.tmp and committed in this order:
//
//   1. Write fills ranges of the tensors. Each call claims its range first, so the ranges of two calls are
//      disjoint or, if a call is repeated, equal.
//   2. CheckAllWritten refuses a checkpoint with an element that was not written.
//   3. Seal syncs the files, reads them back for their checksums, and writes the manifest.
//   4. MoveIntoPlace renames step-N to step-N.old and step-N.tmp to step-N, then removes step-N.old.
//
// Invariant: step-N, or step-N.old while step-N is missing, is complete or absent at each moment, so a crash
// leaves the old or the new checkpoint.
#include "runtime/checkpoint/checkpoint_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <utility>

#include "runtime/base/logging.h"
#include "runtime/checkpoint/checkpoint_format.h"
#include "runtime/checkpoint/safetensors.h"
#include "runtime/checkpoint/statistics_file.h"

namespace tethys {

struct CheckpointWriter::TensorFile {
  std::string name;
  std::string path;
  FileDescriptor fd = {};
  int first_slot = 0;
  std::vector<SafetensorsEntry> entries = {};  // [slot - first_slot][variable], flattened.
  int64_t header_bytes = 0;
  uint32_t header_crc32 = 0;

  int64_t total_bytes() const { return header_bytes + (entries.empty() ? 0 : entries.back().end); }
};

CheckpointWriter::CheckpointWriter(std::string root, int64_t step, const VariableSet& variables,
                                   std::vector<std::string> slot_names, std::string job_name)
    : root_(std::move(root)),
      directory_(absl::StrCat(root_, "/", CheckpointName(step))),
      temporary_(absl::StrCat(directory_, kTemporarySuffix)),
      variables_(variables),
      slot_names_(std::move(slot_names)),
      job_name_(std::move(job_name)),
      claims_(1 + slot_names_.size()) {}

CheckpointWriter::~CheckpointWriter() {
  if (committed_) return;
  if (const absl::Status removed = RemoveRecursively(temporary_); !removed.ok()) {
    TETHYS_LOG(Warning, "an unfinished checkpoint could not be removed: ", removed.message());
  }
}

absl::StatusOr<std::unique_ptr<CheckpointWriter>> CheckpointWriter::Create(
    const std::string& root, int64_t step, const VariableSet& variables, std::vector<std::string> slot_names,
    std::string job_name) {
  std::unique_ptr<CheckpointWriter> writer(
      new CheckpointWriter(root, step, variables, std::move(slot_names), std::move(job_name)));
  TETHYS_RETURN_IF_ERROR(writer->CreateFiles());
  return writer;
}

absl::Status CheckpointWriter::CreateFiles() {
  TETHYS_RETURN_IF_ERROR(RemoveRecursively(temporary_));
  TETHYS_RETURN_IF_ERROR(CreateDirectories(temporary_));
  TETHYS_RETURN_IF_ERROR(CreateFile(kModelFile, 0, {""}));
  if (slot_names_.empty()) return absl::OkStatus();
  return CreateFile(kOptimizerFile, 1, slot_names_);
}

absl::Status CheckpointWriter::CreateFile(const std::string& name, int first_slot,
                                          const std::vector<std::string>& slots) {
  TensorFile file{.name = name, .path = absl::StrCat(temporary_, "/", name), .first_slot = first_slot};
  for (const std::string& slot : slots) {
    for (const Variable& variable : variables_.variables()) {
      file.entries.push_back({.name = TensorName(slot, variable.name), .shape = variable.shape});
    }
  }
  TETHYS_RETURN_IF_ERROR(LayOut(file.entries));
  TETHYS_ASSIGN_OR_RETURN(const std::string header, EncodeSafetensorsHeader(file.entries));
  file.header_bytes = header.size();
  file.header_crc32 = Crc32(header);

  file.fd = FileDescriptor(open(file.path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  if (!file.fd.valid()) return ErrnoStatus(errno, absl::StrCat("cannot create ", file.path));
  int error;
  do {
    error = posix_fallocate(file.fd.get(), 0, file.total_bytes());
  } while (error == EINTR);
  if (error != 0) {
    return ErrnoStatus(error, absl::StrCat("cannot reserve ", file.total_bytes(), " bytes for ", file.path));
  }
  TETHYS_RETURN_IF_ERROR(WriteFullyAt(file.fd.get(), header.data(), header.size(), 0, file.path));
  files_.push_back(std::move(file));
  return absl::OkStatus();
}

absl::Status CheckpointWriter::Write(int slot, int64_t arena_begin, absl::Span<const float> values) {
  const Range range{arena_begin, static_cast<int64_t>(values.size())};
  if (slot < 0 || slot > static_cast<int>(slot_names_.size()) || arena_begin < 0 ||
      arena_begin > variables_.arena_size() - range.count) {
    return absl::InvalidArgumentError(
        absl::StrCat("checkpoint range: slot ", slot, ", elements from ", arena_begin, " on (", range.count,
                     " elements) are not all within the ", slot_names_.size(),
                     " slots and the parameters, of ", variables_.arena_size(), " elements each"));
  }
  if (range.count == 0) return absl::OkStatus();
  TETHYS_RETURN_IF_ERROR(Claim(slot, range));
  const absl::Status status = WriteTensors(slot, range, values.data());
  MutexLock lock(mu_);
  if (status.ok()) {
    claims_[slot].insert_or_assign(range.begin, Claimed{range.end(), true});
  } else {
    claims_[slot].erase(range.begin);
  }
  return status;
}

// Claims the range for a call of Write. InvalidArgument: the range overlaps the range of another call and is
// not equal to it.
absl::Status CheckpointWriter::Claim(int slot, Range range) {
  MutexLock lock(mu_);
  std::map<int64_t, Claimed>& claims = claims_[slot];
  auto next = claims.lower_bound(range.begin);
  if (next != claims.end() && next->first == range.begin && next->second.end == range.end()) {
    next->second.written = false;
    return absl::OkStatus();
  }
  const bool overlaps_next = next != claims.end() && next->first < range.end();
  const bool overlaps_previous = next != claims.begin() && std::prev(next)->second.end > range.begin;
  if (overlaps_next || overlaps_previous) {
    const auto other = overlaps_next ? next : std::prev(next);
    return absl::InvalidArgumentError(
        absl::StrCat("checkpoint range: slot ", slot, ", elements [", range.begin, ", ", range.end(),
                     ") overlap [", other->first, ", ", other->second.end, "), which were written before"));
  }
  claims.emplace(range.begin, Claimed{range.end(), false});
  return absl::OkStatus();
}

absl::Status CheckpointWriter::WriteTensors(int slot, Range range, const float* values) {
  const TensorFile& file = files_[slot == 0 ? 0 : 1];
  const absl::Span<const Variable> variables = variables_.variables();
  const auto first = std::partition_point(variables.begin(), variables.end(), [&](const Variable& variable) {
    return variable.range.end() <= range.begin;
  });
  for (auto it = first; it != variables.end() && it->range.begin < range.end(); ++it) {
    const int64_t begin = std::max(range.begin, it->range.begin);
    const int64_t end = std::min(range.end(), it->range.end());
    const SafetensorsEntry& entry =
        file.entries[(slot - file.first_slot) * variables.size() + (it - variables.begin())];
    const float* from = values + (begin - range.begin);
    const float* bad =
        std::find_if_not(from, from + (end - begin), [](float value) { return std::isfinite(value); });
    if (bad != from + (end - begin)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "tensor '", entry.name, "' holds ", *bad, " at element ", begin - it->range.begin + (bad - from),
          "; a checkpoint never holds values that are not finite"));
    }
    TETHYS_RETURN_IF_ERROR(
        WriteFullyAt(file.fd.get(), from, (end - begin) * sizeof(float),
                     file.header_bytes + entry.begin + (begin - it->range.begin) * sizeof(float), file.path));
  }
  return absl::OkStatus();
}

absl::Status CheckpointWriter::Commit(const proto::TrainingState& state,
                                      const proto::ModelDescription& description,
                                      const SavedStatistics& statistics) {
  if (std::exchange(commit_tried_, true)) {
    return absl::FailedPreconditionError(
        absl::StrCat(directory_, ": Commit was called before; save the checkpoint anew"));
  }
  TETHYS_RETURN_IF_ERROR(CheckAllWritten());
  TETHYS_RETURN_IF_ERROR(Seal(state, description, statistics));
  return MoveIntoPlace();
}

absl::Status CheckpointWriter::CheckAllWritten() {
  MutexLock lock(mu_);
  for (size_t slot = 0; slot < claims_.size(); ++slot) {
    for (const Variable& variable : variables_.variables()) {
      int64_t position = variable.range.begin;
      while (position < variable.range.end()) {
        auto claim = claims_[slot].upper_bound(position);
        if (claim == claims_[slot].begin() || (--claim)->second.end <= position || !claim->second.written) {
          const std::string slot_name = slot == 0 ? "" : slot_names_[slot - 1];
          return absl::FailedPreconditionError(
              absl::StrCat(directory_, ": element ", position - variable.range.begin, " of tensor '",
                           TensorName(slot_name, variable.name),
                           "' was never written, so the checkpoint is not committed"));
        }
        position = claim->second.end;
      }
    }
  }
  return absl::OkStatus();
}

// Syncs the files to disk, reads them back to compute checksums, and writes the manifest.
absl::Status CheckpointWriter::Seal(const proto::TrainingState& state,
                                    const proto::ModelDescription& description,
                                    const SavedStatistics& statistics) {
  proto::CheckpointManifest manifest;
  manifest.set_format(kCheckpointFormat);
  manifest.set_job_name(job_name_);
  manifest.set_model_signature(variables_.signature());
  *manifest.mutable_state() = state;
  if (description.ByteSizeLong() > 0) *manifest.mutable_description() = description;
  for (const std::string& slot : slot_names_) manifest.add_slot(slot);

  const absl::Span<const Variable> variables = variables_.variables();
  for (const TensorFile& file : files_) {
    if (fdatasync(file.fd.get()) != 0) return ErrnoStatus(errno, absl::StrCat("cannot sync ", file.path));
    proto::CheckpointFile& listed = *manifest.add_file();
    listed.set_name(file.name);
    listed.set_bytes(file.total_bytes());
    listed.set_header_crc32(file.header_crc32);
    for (size_t i = 0; i < file.entries.size(); ++i) {
      const SafetensorsEntry& entry = file.entries[i];
      const Variable& variable = variables[i % variables.size()];
      const int slot = file.first_slot + static_cast<int>(i / variables.size());
      proto::CheckpointTensor& tensor = *manifest.add_tensor();
      tensor.set_name(entry.name);
      tensor.set_file(file.name);
      tensor.mutable_shape()->Assign(entry.shape.begin(), entry.shape.end());
      tensor.set_dtype("F32");
      tensor.set_layout(variable.layout);
      tensor.set_slot(slot == 0 ? "" : slot_names_[slot - 1]);
      tensor.set_variable(variable.name);
      TETHYS_ASSIGN_OR_RETURN(const uint32_t crc32, FileCrc32(file.fd.get(), file.header_bytes + entry.begin,
                                                              file.header_bytes + entry.end, file.path));
      tensor.set_crc32(crc32);
    }
  }
  if (!statistics.set.variables().empty()) {
    TETHYS_RETURN_IF_ERROR(WriteStatisticsFile(temporary_, statistics.set, statistics.values, manifest));
  }
  return WriteFileAtomically(absl::StrCat(temporary_, "/", kManifestFile), EncodeManifest(manifest));
}

// A directory cannot be renamed over a non-empty directory, so an earlier checkpoint of the step is first
// renamed to step-N.old. While step-N is missing, ListCheckpoints finds step-N.old.
absl::Status CheckpointWriter::MoveIntoPlace() {
  const std::string old = absl::StrCat(directory_, kOldSuffix);
  const bool replaces = FileExists(directory_);
  if (replaces) {
    TETHYS_RETURN_IF_ERROR(RemoveRecursively(old));
    if (std::rename(directory_.c_str(), old.c_str()) != 0) {
      return ErrnoStatus(errno, absl::StrCat("cannot rename ", directory_, " to ", old));
    }
  }
  if (std::rename(temporary_.c_str(), directory_.c_str()) != 0) {
    const absl::Status status =
        ErrnoStatus(errno, absl::StrCat("cannot rename ", temporary_, " to ", directory_));
    if (replaces) std::rename(old.c_str(), directory_.c_str());
    return status;
  }
  committed_ = true;
  TETHYS_RETURN_IF_ERROR(Annotate(SyncDirectory(root_),
                                  absl::StrCat(directory_, " is written but may not survive a power cut")));
  if (const absl::Status removed = RemoveRecursively(old); !removed.ok()) {
    TETHYS_LOG(Warning, "the replaced checkpoint could not be removed: ", removed.message());
  }
  return absl::OkStatus();
}

}  // namespace tethys
