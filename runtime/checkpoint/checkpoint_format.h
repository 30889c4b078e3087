// The format that the writer, reader and store of checkpoints share: names on disk, the manifest's text,
// checksums. Thread-safe; FileCrc32 blocks on the disk.
#ifndef TETHYS_RUNTIME_CHECKPOINT_CHECKPOINT_FORMAT_H_
#define TETHYS_RUNTIME_CHECKPOINT_CHECKPOINT_FORMAT_H_

#include <cstdint>
#include <string>

#include "proto/checkpoint.pb.h"
#include "runtime/base/status.h"

namespace tethys {

inline constexpr char kModelFile[] = "model.safetensors";
inline constexpr char kOptimizerFile[] = "optimizer.safetensors";
inline constexpr char kStatisticsFile[] = "statistics.safetensors";
inline constexpr char kManifestFile[] = "manifest.textproto";
inline constexpr char kTemporarySuffix[] = ".tmp";
inline constexpr char kOldSuffix[] = ".old";
inline constexpr char kDamagedSuffix[] = ".damaged";
// The format number of a checkpoint: kCheckpointFormat if the checkpoint has no moving statistics,
// kStatisticsFormat if it has a file of moving statistics.
constexpr uint32_t kCheckpointFormat = 1;
constexpr uint32_t kStatisticsFormat = 2;

// "step-120".
std::string CheckpointName(int64_t step);
// "dense/weights" for parameters (`slot` is empty), "momentum/dense/weights" for an optimizer slot.
std::string TensorName(const std::string& slot, const std::string& variable);

uint32_t Crc32(absl::string_view bytes);
// The checksum of bytes [begin, end) of a file, read in pieces of 1 MiB. DataLoss: the file ends before
// `end`.
absl::StatusOr<uint32_t> FileCrc32(int fd, int64_t begin, int64_t end, const std::string& path);

// The contents of the manifest file: the manifest in text format, then a line with the checksum.
// DecodeManifest may be given any text. DataLoss: the text is damaged. FailedPrecondition: a later version
// wrote the manifest, with fields or a format number that this version does not know. `path` is for error
// messages.
std::string EncodeManifest(const proto::CheckpointManifest& manifest);
absl::StatusOr<proto::CheckpointManifest> DecodeManifest(const std::string& text, const std::string& path);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_CHECKPOINT_CHECKPOINT_FORMAT_H_
