#include <vector>

#include "runtime/checkpoint/safetensors.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/targets.h"

namespace tethys::fuzz {
namespace {

using Entries = std::vector<SafetensorsEntry>;

absl::StatusOr<Entries> Decode(absl::string_view file) {
  const auto bytes = static_cast<int64_t>(file.size());
  TETHYS_ASSIGN_OR_RETURN(const int64_t json_bytes, DecodeSafetensorsHeaderBytes(file.data(), bytes));
  Require(json_bytes >= 0 && json_bytes <= bytes - kSafetensorsLengthBytes, "a header lies within its file");
  return DecodeSafetensorsHeader(file.substr(kSafetensorsLengthBytes, json_bytes),
                                 bytes - kSafetensorsLengthBytes - json_bytes);
}

}  // namespace

void FuzzSafetensors(absl::string_view input) {
  if (input.size() < kSafetensorsLengthBytes) return;
  // Decodes the input as a file, then as a header alone whose tensors have 0, 4 or 64 bytes in all.
  const absl::StatusOr<Entries> whole = Decode(input);
  if (!whole.ok()) RequireRefusal(whole.status(), "safetensors header");
  for (const int64_t data_bytes : {0, 4, 64}) {
    const absl::StatusOr<Entries> entries = DecodeSafetensorsHeader(input, data_bytes);
    if (!entries.ok()) {
      RequireRefusal(entries.status(), "safetensors header");
      continue;
    }
    const absl::StatusOr<std::string> header = EncodeSafetensorsHeader(*entries);
    Require(header.ok(), "what was read can be written");
    const absl::StatusOr<Entries> again = Decode(*header + std::string(data_bytes, '\0'));
    Require(again.ok() && *again == *entries, "what is read again is the same");
  }
}

}  // namespace tethys::fuzz
