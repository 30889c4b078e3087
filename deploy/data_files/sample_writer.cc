#include "deploy/data_files/sample_writer.h"

#include "absl/strings/str_join.h"
#include "deploy/data_files/writer_formats.h"

namespace tethys {
namespace {

constexpr const WriterFormat* kFormats[] = {&kCifarWriter,       &kCsvWriter, &kIdxWriter,
                                            &kImageFolderWriter, &kNpyWriter, &kTfrecordWriter};

}  // namespace

absl::StatusOr<const WriterFormat*> FindWriterFormat(const std::string& name) {
  for (const WriterFormat* format : kFormats) {
    if (format->name == name) return format;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("'", name, "' is no format that can be written: name one of ", WriterFormatNames()));
}

absl::Status CheckLabel(const char* format, int32_t label, int64_t limit) {
  if (label < limit) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(format, ": a sample has label ", label,
                                                 ", but labels must be below ", limit,
                                                 ": choose npy or tfrecord"));
}

std::string WriterFormatNames() {
  return absl::StrJoin(kFormats, ", ",
                       [](std::string* out, const WriterFormat* format) { out->append(format->name); });
}

}  // namespace tethys
