#include "deploy/model_files/weights_file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace tethys {
namespace {

constexpr int64_t kFloatBytes = sizeof(float);

// The beginning of a file of torch.save, which is an archive in ZIP.
constexpr absl::string_view kZip = "PK\x03\x04";

absl::Status NoSafetensors(const std::string& path, bool archive) {
  return absl::DataLossError(absl::StrCat(
      path, " is no safetensors file", archive ? ", but a ZIP archive, as torch.save writes it" : "",
      ": write one by safetensors.torch.save_file(model.state_dict(), FILE)"));
}

}  // namespace

absl::Status WriteTorchWeights(
    WholeFile& file, const std::vector<TorchTensor>& tensors,
    absl::FunctionRef<absl::Status(const TorchTensor& tensor, absl::Span<float> ours)> read) {
  std::vector<SafetensorsEntry> entries;
  for (const TorchTensor& tensor : tensors) entries.push_back({.name = tensor.name, .shape = tensor.shape});
  TETHYS_RETURN_IF_ERROR(LayOut(entries));
  TETHYS_ASSIGN_OR_RETURN(const std::string header, EncodeSafetensorsHeader(entries));
  TETHYS_RETURN_IF_ERROR(file.Append(header));
  std::vector<float> ours, torch;
  for (const TorchTensor& tensor : tensors) {
    ours.resize(tensor.variable.range.count);
    torch.resize(ours.size());
    TETHYS_RETURN_IF_ERROR(read(tensor, absl::MakeSpan(ours)));
    ToTorchLayout(tensor, ours, absl::MakeSpan(torch));
    TETHYS_RETURN_IF_ERROR(
        file.Append({reinterpret_cast<const char*>(torch.data()), torch.size() * sizeof(float)}));
  }
  return absl::OkStatus();
}

absl::StatusOr<TorchWeightsFile> TorchWeightsFile::Open(const std::string& path) {
  TorchWeightsFile file;
  file.path_ = path;
  file.fd_ = FileDescriptor(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.fd_.valid()) return ErrnoStatus(errno, absl::StrCat("cannot open ", path));
  struct stat info;
  if (fstat(file.fd_.get(), &info) != 0) return ErrnoStatus(errno, absl::StrCat("cannot examine ", path));
  if (!S_ISREG(info.st_mode) || info.st_size < kSafetensorsLengthBytes) {
    return NoSafetensors(path, false);
  }
  char first8[kSafetensorsLengthBytes];
  TETHYS_RETURN_IF_ERROR(ReadFullyAt(file.fd_.get(), first8, sizeof(first8), 0, path));
  const absl::StatusOr<int64_t> json_bytes = DecodeSafetensorsHeaderBytes(first8, info.st_size);
  if (!json_bytes.ok()) return NoSafetensors(path, absl::StartsWith({first8, sizeof(first8)}, kZip));
  std::string json(*json_bytes, '\0');
  TETHYS_RETURN_IF_ERROR(
      ReadFullyAt(file.fd_.get(), json.data(), *json_bytes, kSafetensorsLengthBytes, path));
  file.data_begin_ = kSafetensorsLengthBytes + *json_bytes;
  absl::StatusOr<std::vector<SafetensorsEntry>> entries =
      DecodeSafetensorsHeader(json, info.st_size - file.data_begin_, SafetensorsTypes::kAll);
  if (!entries.ok()) return Annotate(entries.status(), path);
  file.entries_ = *std::move(entries);
  return file;
}

absl::StatusOr<std::vector<float>> TorchWeightsFile::Read(const TorchTensor& tensor) const {
  const auto entry =
      std::find_if(entries_.begin(), entries_.end(),
                   [&tensor](const SafetensorsEntry& candidate) { return candidate.name == tensor.name; });
  if (entry == entries_.end()) {
    return absl::NotFoundError(absl::StrCat(path_, " has no tensor '", tensor.name, "' (",
                                            ShapeText(tensor.shape), "), which the job's model has"));
  }
  if (entry->dtype != kFloat32Dtype || entry->shape != tensor.shape) {
    return absl::InvalidArgumentError(absl::StrCat(path_, ": tensor '", tensor.name, "' is ", entry->dtype,
                                                   " ", ShapeText(entry->shape), ", the job's model has ",
                                                   kFloat32Dtype, " ", ShapeText(tensor.shape)));
  }
  std::vector<float> torch(tensor.variable.range.count), ours(torch.size());
  TETHYS_RETURN_IF_ERROR(ReadFullyAt(fd_.get(), torch.data(),
                                     static_cast<int64_t>(torch.size()) * kFloatBytes,
                                     data_begin_ + entry->begin, path_));
  FromTorchLayout(tensor, torch, absl::MakeSpan(ours));
  return ours;
}

}  // namespace tethys
