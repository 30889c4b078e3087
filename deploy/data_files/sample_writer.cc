#include "deploy/data_files/sample_writer.h"

#include <vector>

#include "absl/strings/str_join.h"
#include "deploy/data_files/writer_formats.h"

namespace tethys {
namespace {

constexpr const WriterFormat* kFormats[] = {&kCifarWriter,       &kCsvWriter, &kIdxWriter,
                                            &kImageFolderWriter, &kNpyWriter, &kTfrecordWriter};
constexpr int kMostFiles = 10'000;  // The most files of one part (training or test samples).

}  // namespace

absl::StatusOr<const WriterFormat*> FindWriterFormat(const std::string& name) {
  for (const WriterFormat* format : kFormats) {
    if (format->name == name) return format;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("'", name, "' is not a format that can be written: name one of ", WriterFormatNames()));
}

absl::Status CannotHold(const WriterFormat& format, const PartToWrite& part, absl::string_view why) {
  std::vector<absl::string_view> others;
  for (const WriterFormat* other : kFormats) {
    if (other != &format && other->misfit(part).empty()) others.emplace_back(other->name);
  }
  return absl::InvalidArgumentError(
      absl::StrCat(format.name, ": ", why, others.empty() ? "" : ": choose ", absl::StrJoin(others, " or ")));
}

absl::Status CheckFormat(const WriterFormat& format, const PartToWrite& part) {
  if (part.files < 1 || part.files > kMostFiles || part.files > part.samples) {
    return absl::InvalidArgumentError(
        absl::StrCat("--files is ", part.files, ", but must be at least 1, at most ", kMostFiles,
                     " and at most ", part.samples, ", the number of samples in the ", part.name, " part"));
  }
  const std::string why = format.misfit(part);
  return why.empty() ? absl::OkStatus() : CannotHold(format, part, why);
}

absl::Status CheckLabel(const WriterFormat& format, const PartToWrite& part, int32_t label, int64_t limit) {
  if (label < limit) return absl::OkStatus();
  PartToWrite labelled = part;
  labelled.beyond = std::max<int64_t>(label, part.beyond);
  return CannotHold(format, labelled,
                    absl::StrCat("a sample has label ", label, ", but labels must be below ", limit));
}

std::string WriterFormatNames() {
  return absl::StrJoin(kFormats, ", ",
                       [](std::string* out, const WriterFormat* format) { out->append(format->name); });
}

}  // namespace tethys
