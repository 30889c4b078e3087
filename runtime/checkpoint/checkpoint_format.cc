#include "runtime/checkpoint/checkpoint_format.h"

#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/text_format.h>
#include <zlib.h>

#include <algorithm>
#include <vector>

#include "absl/strings/str_format.h"
#include "runtime/base/file.h"

namespace tethys {
namespace {

std::string ChecksumLine(absl::string_view body) { return absl::StrFormat("# crc32: %08x\n", Crc32(body)); }

// Keeps the first error of a parse. protobuf's default collector would print the errors to standard error.
class FirstError final : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, int column, const std::string& message) override {
    if (text_.empty()) text_ = absl::StrCat("line ", line + 1, ", column ", column + 1, ": ", message);
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

}  // namespace

std::string CheckpointName(int64_t step) { return absl::StrCat("step-", step); }

std::string TensorName(const std::string& slot, const std::string& variable) {
  return slot.empty() ? variable : absl::StrCat(slot, "/", variable);
}

uint32_t Crc32(absl::string_view bytes) {
  return static_cast<uint32_t>(crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

absl::StatusOr<uint32_t> FileCrc32(int fd, int64_t begin, int64_t end, const std::string& path) {
  constexpr int64_t kPiece = int64_t{1} << 20;
  std::vector<Bytef> buffer(std::min(kPiece, end - begin));
  uLong crc = 0;
  while (begin < end) {
    const int64_t size = std::min(kPiece, end - begin);
    TETHYS_RETURN_IF_ERROR(ReadFullyAt(fd, buffer.data(), size, begin, path));
    crc = crc32_z(crc, buffer.data(), size);
    begin += size;
  }
  return static_cast<uint32_t>(crc);
}

std::string EncodeManifest(const proto::CheckpointManifest& manifest) {
  std::string body;
  TETHYS_CHECK(google::protobuf::TextFormat::PrintToString(manifest, &body));
  return body + ChecksumLine(body);
}

absl::StatusOr<proto::CheckpointManifest> DecodeManifest(const std::string& text, const std::string& path) {
  const size_t line_bytes = ChecksumLine("").size();
  const size_t body_bytes = text.size() < line_bytes ? 0 : text.size() - line_bytes;
  const std::string body = text.substr(0, body_bytes);
  if (text.substr(body_bytes) != ChecksumLine(body)) {
    return absl::DataLossError(
        absl::StrCat(path, " is damaged: its last line is not the checksum of the lines before it"));
  }
  FirstError error;
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&error);
  proto::CheckpointManifest manifest;
  if (!parser.ParseFromString(body, &manifest)) {
    // The checksum is right, so the text is undamaged. It has a field that this version does not know, and
    // without that field the tensors might be misread.
    return absl::FailedPreconditionError(absl::StrCat(
        path, " was written by a later version of tethys, which is needed to read it: ", error.text()));
  }
  if (manifest.format() < kCheckpointFormat || manifest.format() > kStatisticsFormat) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, " is of checkpoint format ", manifest.format(), "; this build reads formats ",
                     kCheckpointFormat, " and ", kStatisticsFormat, ": a later version of tethys wrote it"));
  }
  return manifest;
}

}  // namespace tethys
