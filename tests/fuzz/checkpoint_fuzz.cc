// Input: the files of a checkpoint, in three sections (TakeSection): manifest.textproto without its checksum,
// model.safetensors and optimizer.safetensors. The manifest's sizes and checksums are corrected as far as
// possible, because mutations would never find the right ones.
#include <string>
#include <vector>

#include "runtime/checkpoint/checkpoint_format.h"
#include "runtime/checkpoint/checkpoint_reader.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/targets.h"
#include "tests/fuzz/text_message.h"
#include "tests/testing/temp_directory.h"

namespace tethys::fuzz {
namespace {

constexpr int64_t kMaxElements = 1 << 16;

// Corrects the manifest's sizes and checksums for file number `index`, as far as `file` can be read.
void Seal(absl::string_view file, int index, int& tensor, proto::CheckpointManifest& manifest) {
  if (index >= manifest.file_size() || file.size() < kSafetensorsLengthBytes) return;
  const auto bytes = static_cast<int64_t>(file.size());
  const auto json_bytes = DecodeSafetensorsHeaderBytes(file.data(), bytes);
  if (!json_bytes.ok()) return;
  const int64_t data_begin = kSafetensorsLengthBytes + *json_bytes;
  manifest.mutable_file(index)->set_bytes(bytes);
  manifest.mutable_file(index)->set_header_crc32(Crc32(file.substr(0, data_begin)));
  const absl::string_view data = file.substr(data_begin);
  const auto entries =
      DecodeSafetensorsHeader(file.substr(kSafetensorsLengthBytes, *json_bytes), data.size());
  if (!entries.ok()) return;
  for (const SafetensorsEntry& entry : *entries) {
    if (tensor >= manifest.tensor_size()) return;
    manifest.mutable_tensor(tensor++)->set_crc32(Crc32(data.substr(entry.begin, entry.end - entry.begin)));
  }
}

// Corrects the signature of the manifest's variables, if they are valid.
void SetSignature(proto::CheckpointManifest& manifest) {
  VariableSet variables;
  for (const proto::CheckpointTensor& tensor : manifest.tensor()) {
    if (!tensor.slot().empty()) continue;
    const Shape shape(tensor.shape().begin(), tensor.shape().end());
    if (!variables.Add(tensor.variable(), shape, tensor.layout(), InitialValue::kZeros, 0, 0).ok()) return;
  }
  manifest.set_model_signature(variables.signature());
}

}  // namespace

void FuzzCheckpoint(absl::string_view input) {
  static const testing::TempDirectory directory;
  proto::CheckpointManifest manifest;
  if (!ParseText(TakeSection(input), manifest)) return;
  const absl::string_view model = TakeSection(input);
  int tensor = 0;
  Seal(model, 0, tensor, manifest);
  Seal(input, 1, tensor, manifest);
  SetSignature(manifest);
  directory.Write(kManifestFile, EncodeManifest(manifest));
  directory.Write(kModelFile, model);
  directory.Write(kOptimizerFile, input);

  const auto reader = CheckpointReader::Open(directory.path(), nullptr, {"momentum"});
  if (!reader.ok()) return RequireRefusal(reader.status(), directory.path());
  const int64_t size = (*reader)->variables().arena_size();
  Require(size <= kMaxElements, "an arena is as large as its files");
  for (int slot = 0; slot < (*reader)->slot_count(); ++slot) {
    std::vector<float> values(size);
    Require((*reader)->Read(slot, 0, absl::MakeSpan(values)).ok(), "what was verified can be read");
    Require(!(*reader)->Read(slot, 1, absl::MakeSpan(values)).ok() || size == 0,
            "nothing beyond it can be read");
  }
}

}  // namespace tethys::fuzz
