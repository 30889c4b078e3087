#include "deploy/model_files/weights_file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace tethys {
namespace {

constexpr size_t kMostNamed = 5;

// The first bytes of a file of torch.save, which is a ZIP archive.
constexpr absl::string_view kZip = "PK\x03\x04";

absl::Status NoSafetensors(const std::string& path, bool archive) {
  return absl::DataLossError(absl::StrCat(
      path, " is no safetensors file", archive ? ", but a ZIP archive, as torch.save writes it" : "",
      ": write a safetensors file by safetensors.torch.save_file(model.state_dict(), FILE)"));
}

constexpr char kSaveFloats[] =
    "save float32 weights by safetensors.torch.save_file(model.float().state_dict(), FILE)";

// IEEE 754's binary16: a sign, 5 bits of exponent with bias 15, 10 bits of fraction.
float WidenHalf(uint16_t half) {
  const int exponent = half >> 10 & 31, fraction = half & 1023;
  float value = 0;
  if (exponent == 31) {
    value = fraction == 0 ? std::numeric_limits<float>::infinity() : std::numeric_limits<float>::quiet_NaN();
  } else if (exponent == 0) {
    value = std::ldexp(static_cast<float>(fraction), -24);
  } else {
    value = std::ldexp(static_cast<float>(1024 + fraction), exponent - 25);
  }
  return (half & 0x8000) != 0 ? -value : value;
}

template <typename Bits>
Bits BitsAt(const char* bytes) {
  Bits bits;
  std::memcpy(&bits, bytes, sizeof(bits));
  return bits;
}

bool FromF32(const char* bytes, float& value) {
  value = BitsAt<float>(bytes);
  return true;
}
bool FromF16(const char* bytes, float& value) {
  value = WidenHalf(BitsAt<uint16_t>(bytes));
  return true;
}
// A bfloat16 consists of the first 16 bits of a float.
bool FromBf16(const char* bytes, float& value) {
  const uint32_t bits = static_cast<uint32_t>(BitsAt<uint16_t>(bytes)) << 16;
  std::memcpy(&value, &bits, sizeof(value));
  return true;
}
bool FromF64(const char* bytes, float& value) {
  const auto wide = BitsAt<double>(bytes);
  // Converting a value outside the range would be undefined.
  if (std::isfinite(wide) && std::abs(wide) > std::numeric_limits<float>::max()) return false;
  value = static_cast<float>(wide);
  return std::isnan(wide) || static_cast<double>(value) == wide;
}

// The conversion of elements of one type to float32.
struct Conversion {
  absl::string_view dtype;
  size_t bytes;
  // Returns false if float32 does not hold the value exactly.
  bool (*convert)(const char* bytes, float& value);
};
constexpr Conversion kConversions[] = {
    {"F32", 4, FromF32}, {"F16", 2, FromF16}, {"BF16", 2, FromBf16}, {"F64", 8, FromF64}};

// The conversion of elements of the type `dtype`; null if such elements cannot be weights.
const Conversion* FindConversion(absl::string_view dtype) {
  const auto* const found = std::find_if(std::begin(kConversions), std::end(kConversions),
                                         [&](const Conversion& one) { return one.dtype == dtype; });
  return found == std::end(kConversions) ? nullptr : found;
}

// A text such as "; the file has 'a.weight' ([3, 4]), ...": first the tensors whose names end in `missing`,
// then the other tensors.
std::string ThereAre(const std::vector<SafetensorsEntry>& entries, const std::string& missing) {
  std::vector<const SafetensorsEntry*> shown;
  for (const SafetensorsEntry& entry : entries) shown.push_back(&entry);
  std::stable_partition(shown.begin(), shown.end(),
                        [&](const SafetensorsEntry* entry) { return absl::EndsWith(entry->name, missing); });
  const size_t more = shown.size() - std::min(shown.size(), kMostNamed);
  shown.resize(shown.size() - more);
  const std::string list = absl::StrJoin(shown, ", ", [](std::string* out, const SafetensorsEntry* entry) {
    absl::StrAppend(out, "'", entry->name, "' (", ShapeText(entry->shape), ")");
  });
  return absl::StrCat(
      "; the file has ", list.empty() ? "no tensors" : list,
      more > 0 ? absl::StrCat(" and ", more, " more") : "",
      ": rename the file's tensors or the job's layers, or give the layer random values by --except");
}

}  // namespace

absl::Status WriteTorchWeights(
    WholeFile& file, const std::vector<TorchTensor>& tensors, const ModelNotes& notes,
    absl::FunctionRef<absl::Status(const TorchTensor& tensor, absl::Span<float> ours)> read) {
  std::vector<SafetensorsEntry> entries;
  for (const TorchTensor& tensor : tensors) entries.push_back({.name = tensor.name, .shape = tensor.shape});
  TETHYS_RETURN_IF_ERROR(LayOut(entries));
  TETHYS_ASSIGN_OR_RETURN(const std::string header, EncodeSafetensorsHeader(entries, notes));
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

std::string TorchWeightsFile::DropPrefix(const std::vector<std::string>& wanted) {
  std::set<std::string> names;
  for (const SafetensorsEntry& entry : entries_) names.insert(entry.name);
  const auto has_all = [&](absl::string_view prefix) {
    return std::all_of(wanted.begin(), wanted.end(),
                       [&](const std::string& name) { return names.count(absl::StrCat(prefix, name)) > 0; });
  };
  if (wanted.empty() || has_all("")) return "";
  for (const std::string& name : names) {
    absl::string_view prefix = name;
    if (!absl::ConsumeSuffix(&prefix, wanted.front()) || !absl::EndsWith(prefix, ".") || !has_all(prefix))
      continue;
    for (SafetensorsEntry& entry : entries_) entry.name = std::string(absl::StripPrefix(entry.name, prefix));
    return std::string(prefix);
  }
  return "";
}

absl::StatusOr<std::vector<float>> TorchWeightsFile::ReadFloats(const SafetensorsEntry& entry) const {
  std::string bytes(entry.end - entry.begin, '\0');
  TETHYS_RETURN_IF_ERROR(ReadFullyAt(fd_.get(), bytes.data(), static_cast<int64_t>(bytes.size()),
                                     data_begin_ + entry.begin, path_));
  const Conversion* const conversion = FindConversion(entry.dtype);
  TETHYS_CHECK(conversion != nullptr);
  std::vector<float> values(bytes.size() / conversion->bytes);
  for (size_t i = 0; i < values.size(); ++i) {
    if (conversion->convert(bytes.data() + i * conversion->bytes, values[i])) continue;
    return absl::InvalidArgumentError(absl::StrCat(path_, ": tensor '", entry.name, "' is ", entry.dtype,
                                                   ", and its value at index ", i,
                                                   " cannot be represented exactly in F32: ", kSaveFloats));
  }
  return values;
}

absl::StatusOr<std::vector<float>> TorchWeightsFile::Read(const TorchTensor& tensor) const {
  const auto entry =
      std::find_if(entries_.begin(), entries_.end(),
                   [&tensor](const SafetensorsEntry& candidate) { return candidate.name == tensor.name; });
  if (entry == entries_.end()) {
    return absl::NotFoundError(absl::StrCat(path_, " has no tensor '", tensor.name, "' (",
                                            ShapeText(tensor.shape), "), which the job's model has",
                                            ThereAre(entries_, tensor.name)));
  }
  if (entry->shape != tensor.shape || FindConversion(entry->dtype) == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat(path_, ": tensor '", tensor.name, "' is ", entry->dtype, " ", ShapeText(entry->shape),
                     ", but the job's model has ", kFloat32Dtype, " ", ShapeText(tensor.shape),
                     FindConversion(entry->dtype) == nullptr ? absl::StrCat(": ", kSaveFloats) : ""));
  }
  TETHYS_ASSIGN_OR_RETURN(const std::vector<float> torch, ReadFloats(*entry));
  std::vector<float> ours(torch.size());
  FromTorchLayout(tensor, torch, absl::MakeSpan(ours));
  return ours;
}

}  // namespace tethys
