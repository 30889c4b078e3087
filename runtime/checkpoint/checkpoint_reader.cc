#include "runtime/checkpoint/checkpoint_reader.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "runtime/checkpoint/checkpoint_format.h"
#include "runtime/checkpoint/statistics_file.h"

namespace tethys {
namespace {

constexpr int64_t kMaxManifestBytes = int64_t{16} << 20;

// Describes the first variable that differs, as saved and as expected.
std::string FirstDifference(const VariableSet& saved, const VariableSet& expected) {
  const auto text = [](const VariableSet& variables, size_t i) -> std::string {
    if (i >= variables.variables().size()) return "nothing";
    const Variable& variable = variables.variables()[i];
    return absl::StrCat("'", variable.name, "' ", ShapeText(variable.shape), " (", variable.layout, ")");
  };
  size_t i = 0;
  const size_t both = std::min(saved.variables().size(), expected.variables().size());
  while (i < both && text(saved, i) == text(expected, i)) ++i;
  return absl::StrCat("variable ", i, " is ", text(saved, i), " in the checkpoint and ", text(expected, i),
                      " in the job's model");
}

Shape ShapeOf(const proto::CheckpointTensor& tensor) {
  return {tensor.shape().begin(), tensor.shape().end()};
}

}  // namespace

absl::StatusOr<std::unique_ptr<CheckpointReader>> CheckpointReader::Open(
    const std::string& directory, const VariableSet* expected, const std::vector<std::string>& slot_names) {
  std::unique_ptr<CheckpointReader> reader(new CheckpointReader(directory));
  TETHYS_RETURN_IF_ERROR(reader->ReadManifest());
  TETHYS_RETURN_IF_ERROR(reader->VerifyFiles());
  TETHYS_RETURN_IF_ERROR(reader->RebuildVariables());
  if (expected != nullptr && expected->signature() != reader->variables_.signature()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "checkpoint ", directory, " is of another model: ", FirstDifference(reader->variables_, *expected)));
  }
  reader->LocateSlots(slot_names);
  return reader;
}

absl::Status CheckpointReader::ReadManifest() {
  const std::string path = absl::StrCat(directory_, "/", kManifestFile);
  if (!FileExists(path)) {
    return absl::NotFoundError(absl::StrCat(directory_, " is not a checkpoint: it has no ", kManifestFile));
  }
  TETHYS_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kMaxManifestBytes));
  TETHYS_ASSIGN_OR_RETURN(manifest_, DecodeManifest(text, path));
  return absl::OkStatus();
}

absl::Status CheckpointReader::VerifyFiles() {
  const bool has_slots = manifest_.slot_size() > 0;
  if (manifest_.file_size() != (has_slots ? 2 : 1) || manifest_.file(0).name() != kModelFile ||
      (has_slots && manifest_.file(1).name() != kOptimizerFile)) {
    return absl::DataLossError(absl::StrCat(directory_, "/", kManifestFile, " does not list ", kModelFile,
                                            " and, if the optimizer has slots, ", kOptimizerFile));
  }
  for (const proto::CheckpointFile& listed : manifest_.file()) TETHYS_RETURN_IF_ERROR(VerifyFile(listed));
  if (static_cast<int>(tensors_.size()) != manifest_.tensor_size()) {
    return absl::DataLossError(absl::StrCat(directory_, " holds ", tensors_.size(),
                                            " tensors, but its manifest lists ", manifest_.tensor_size()));
  }
  return VerifyStatisticsFile(directory_, manifest_);
}

absl::Status CheckpointReader::VerifyFile(const proto::CheckpointFile& listed) {
  const std::string path = absl::StrCat(directory_, "/", listed.name());
  FileDescriptor fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid())
    return absl::DataLossError(ErrnoStatus(errno, absl::StrCat("cannot open ", path)).message());
  struct stat info;
  if (fstat(fd.get(), &info) != 0) return ErrnoStatus(errno, absl::StrCat("cannot examine ", path));
  if (info.st_size != listed.bytes() || info.st_size < kSafetensorsLengthBytes) {
    return absl::DataLossError(
        absl::StrCat(path, " has ", info.st_size, " bytes; its manifest says ", listed.bytes()));
  }

  char first8[kSafetensorsLengthBytes];
  TETHYS_RETURN_IF_ERROR(ReadFullyAt(fd.get(), first8, sizeof(first8), 0, path));
  const absl::StatusOr<int64_t> json_bytes = DecodeSafetensorsHeaderBytes(first8, info.st_size);
  if (!json_bytes.ok()) return Annotate(json_bytes.status(), path);
  const int64_t data_begin = kSafetensorsLengthBytes + *json_bytes;
  TETHYS_ASSIGN_OR_RETURN(const uint32_t header_crc32, FileCrc32(fd.get(), 0, data_begin, path));
  if (header_crc32 != listed.header_crc32()) {
    return absl::DataLossError(
        absl::StrCat(path, " is damaged: the checksum of its header differs from the manifest"));
  }
  std::string json(*json_bytes, '\0');
  TETHYS_RETURN_IF_ERROR(ReadFullyAt(fd.get(), json.data(), json.size(), kSafetensorsLengthBytes, path));
  const absl::StatusOr<std::vector<SafetensorsEntry>> entries =
      DecodeSafetensorsHeader(json, info.st_size - data_begin);
  if (!entries.ok()) return Annotate(entries.status(), path);

  for (const SafetensorsEntry& entry : *entries) {
    TETHYS_RETURN_IF_ERROR(VerifyTensor(path, fd.get(), data_begin, entry));
    tensors_.push_back({static_cast<int>(files_.size()), data_begin + entry.begin});
  }
  files_.push_back({path, std::move(fd)});
  return absl::OkStatus();
}

// Checks that `entry` is the next tensor of the manifest and that its bytes have the manifest's checksum.
absl::Status CheckpointReader::VerifyTensor(const std::string& path, int fd, int64_t data_begin,
                                            const SafetensorsEntry& entry) const {
  const int index = static_cast<int>(tensors_.size());
  if (index >= manifest_.tensor_size() || manifest_.tensor(index).name() != entry.name ||
      manifest_.tensor(index).dtype() != "F32" || ShapeOf(manifest_.tensor(index)) != entry.shape) {
    return absl::DataLossError(absl::StrCat(path, ": tensor '", entry.name,
                                            "' is not the tensor that the manifest lists at index ", index));
  }
  TETHYS_ASSIGN_OR_RETURN(const uint32_t crc32,
                          FileCrc32(fd, data_begin + entry.begin, data_begin + entry.end, path));
  if (crc32 != manifest_.tensor(index).crc32()) {
    return absl::DataLossError(
        absl::StrCat(path, ": tensor '", entry.name, "' is damaged: its checksum differs from the manifest"));
  }
  return absl::OkStatus();
}

absl::Status CheckpointReader::RebuildVariables() {
  const std::string path = absl::StrCat(directory_, "/", kManifestFile);
  const int slots = 1 + manifest_.slot_size();
  const int count = manifest_.tensor_size() / slots;
  if (count * slots != manifest_.tensor_size()) {
    return absl::DataLossError(absl::StrCat(path, " does not list every variable in every slot"));
  }
  for (int i = 0; i < count; ++i) {
    const proto::CheckpointTensor& tensor = manifest_.tensor(i);
    const absl::Status added =
        variables_.Add(tensor.variable(), ShapeOf(tensor), tensor.layout(), InitialValue::kZeros, 0, 0);
    if (!added.ok()) return absl::DataLossError(absl::StrCat(path, ": ", added.message()));
  }
  for (int i = 0; i < manifest_.tensor_size(); ++i) {
    const proto::CheckpointTensor& tensor = manifest_.tensor(i);
    const Variable& variable = variables_.variables()[i % count];
    const std::string slot = i < count ? "" : manifest_.slot(i / count - 1);
    if (tensor.slot() != slot || tensor.variable() != variable.name || ShapeOf(tensor) != variable.shape ||
        tensor.name() != TensorName(slot, variable.name)) {
      return absl::DataLossError(absl::StrCat(path, ": tensor '", tensor.name(), "' stands where '",
                                              TensorName(slot, variable.name), "' ",
                                              ShapeText(variable.shape), " was expected"));
    }
  }
  if (variables_.signature() != manifest_.model_signature()) {
    return absl::DataLossError(
        absl::StrCat(path, ": the model signature does not match the listed variables"));
  }
  return absl::OkStatus();
}

void CheckpointReader::LocateSlots(const std::vector<std::string>& slot_names) {
  const int count = static_cast<int>(variables_.variables().size());
  first_tensor_.push_back(0);
  for (const std::string& name : slot_names) {
    const auto it = std::find(manifest_.slot().begin(), manifest_.slot().end(), name);
    const int slot = 1 + static_cast<int>(it - manifest_.slot().begin());
    first_tensor_.push_back(it == manifest_.slot().end() ? -1 : slot * count);
  }
}

absl::StatusOr<MovingStatistics> CheckpointReader::ReadStatistics(const VariableSet& expected) const {
  return ReadStatisticsFile(directory_, expected, manifest_);
}

absl::Status CheckpointReader::Read(int slot, int64_t arena_begin, absl::Span<float> out) const {
  const Range range{arena_begin, static_cast<int64_t>(out.size())};
  if (slot < 0 || slot >= slot_count() || arena_begin < 0 ||
      arena_begin > variables_.arena_size() - range.count) {
    return absl::InvalidArgumentError(absl::StrCat("checkpoint range: slot ", slot, ", elements from ",
                                                   arena_begin, " on (", range.count,
                                                   " elements) are not all within the ", slot_count(),
                                                   " slots of ", variables_.arena_size(), " elements each"));
  }
  std::fill(out.begin(), out.end(), 0.0f);
  if (!has_slot(slot)) return absl::OkStatus();
  const absl::Span<const Variable> variables = variables_.variables();
  const auto first = std::partition_point(variables.begin(), variables.end(), [&](const Variable& variable) {
    return variable.range.end() <= range.begin;
  });
  for (auto it = first; it != variables.end() && it->range.begin < range.end(); ++it) {
    const int64_t begin = std::max(range.begin, it->range.begin);
    const int64_t end = std::min(range.end(), it->range.end());
    const Location& tensor = tensors_[first_tensor_[slot] + (it - variables.begin())];
    TETHYS_RETURN_IF_ERROR(ReadFullyAt(
        files_[tensor.file].fd.get(), out.data() + (begin - range.begin), (end - begin) * sizeof(float),
        tensor.offset + (begin - it->range.begin) * sizeof(float), files_[tensor.file].path));
  }
  return absl::OkStatus();
}

}  // namespace tethys
