#include "runtime/data/data_format.h"

#include <algorithm>
#include <iterator>

#include "runtime/data/formats.h"

namespace tethys {

const DataFormat& FormatOf(const proto::Data& data) {
  static const DataFormat* const kFormats[] = {&kCifarFormat,       &kCsvFormat, &kIdxFormat,
                                               &kImageFolderFormat, &kNpyFormat, &kSyntheticFormat,
                                               &kTfrecordFormat};
  const auto found = std::find_if(std::begin(kFormats), std::end(kFormats), [&](const DataFormat* format) {
    return format->kind == data.source_case();
  });
  TETHYS_CHECK(found != std::end(kFormats), "data of kind ", static_cast<int>(data.source_case()),
               " have no format");
  return **found;
}

absl::StatusOr<std::vector<std::string>> EveryFileOf(const proto::Data& data, DataPart part) {
  const DataFormat& format = FormatOf(data);
  return format.every_file != nullptr ? format.every_file(data, part) : format.files(data, part);
}

std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  // "chief://a.npy" and "s3://bucket" name no folder.
  const bool scheme = slash != std::string::npos && slash > 1 && path.compare(slash - 2, 3, "://") == 0;
  return slash == std::string::npos || scheme ? path : path.substr(0, slash);
}

absl::Status CheckSameCount(const std::string& samples_path, int64_t samples, const std::string& labels_path,
                            int64_t labels) {
  if (samples == labels) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(samples_path, " holds ", samples, " samples but ",
                                                 labels_path, " ", labels,
                                                 " labels: the two files do not belong together"));
}

}  // namespace tethys
