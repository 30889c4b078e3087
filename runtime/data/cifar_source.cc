// CIFAR-10 and CIFAR-100 in their authors' binary version (Krizhevsky, "Learning multiple layers of features
// from tiny images", 2009; https://www.cs.toronto.edu/~kriz/cifar.html):
//
//   a record of CIFAR-10:    u8 label, 3072 values
//   a record of CIFAR-100:   u8 coarse label, u8 fine label, 3072 values
//   the values:              32 x 32 of red, then of green, then of blue
//
// Images stay in their files, which the system caches for all processes; labels are held in memory.
#include <algorithm>
#include <array>
#include <filesystem>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_split.h"
#include "runtime/base/file.h"
#include "runtime/data/byte_source.h"
#include "runtime/data/formats.h"
#include "runtime/data/known_format.h"
#include "runtime/data/sample_files.h"

namespace tethys {
namespace {

constexpr int64_t kSide = 32, kChannels = 3, kPixels = kSide * kSide, kValues = kPixels * kChannels;

SampleSpec ImageSpec() { return {.shape = {kSide, kSide, kChannels}}; }

// The position of the label in a record, and the number of labels before the values.
struct Record {
  int64_t labels = 1;
  int64_t label = 0;

  int64_t bytes() const { return labels + kValues; }
};

Record RecordOf(const proto::Cifar& cifar) {
  switch (cifar.labels()) {
    case proto::Cifar::COARSE:
      return {.labels = 2, .label = 0};
    case proto::Cifar::FINE:
      return {.labels = 2, .label = 1};
    default:
      return {};
  }
}

using Lists = FileLists<&proto::Data::cifar>;

int64_t BytesHeld(const proto::Data&, const SampleSpec&) { return sizeof(uint8_t); }  // The label's size.

using Files = SampleFiles<std::shared_ptr<const ByteSource>>;

absl::StatusOr<Files> OpenFiles(const proto::Data& data, DataPart part, const Record& record) {
  TETHYS_ASSIGN_OR_RETURN(const std::vector<std::string> paths, Lists::Paths(data, part));
  return Files::OpenAll(paths, [&](const std::string& path, auto bytes) -> absl::StatusOr<Files::Opened> {
    const int64_t samples = bytes->size() / record.bytes();
    if (bytes->size() % record.bytes() == 0) return Files::Opened{std::move(bytes), samples};
    const std::string what = WhatItIs(*bytes);
    return absl::InvalidArgumentError(absl::StrCat(
        path, ": ", bytes->size(), " bytes are not a whole number of records of ", record.bytes(), " bytes (",
        record.labels == 1 ? "data.cifar.labels: CIFAR_10" : "data.cifar.labels: FINE or COARSE",
        what.empty() ? "): fetch the file again, or correct data.cifar.labels" : ")", what,
        what.empty() ? "" : "; use the archive for C programs, whose files are binary"));
  });
}

// Reads the names of the classes from the list in the folder of the data files, as in the authors' archives:
// one name per line. Without a list there are no names.
absl::StatusOr<std::vector<std::string>> ClassNames(const proto::Data& data) {
  constexpr int64_t kMostBytes = 1 << 16;
  const char* list = "batches.meta.txt";
  if (data.cifar().labels() == proto::Cifar::FINE) list = "fine_label_names.txt";
  if (data.cifar().labels() == proto::Cifar::COARSE) list = "coarse_label_names.txt";
  TETHYS_ASSIGN_OR_RETURN(const std::vector<std::string> paths, Lists::Paths(data, DataPart::kTrain));
  std::vector<std::string> names;
  const std::string path = (std::filesystem::path(paths.at(0)).parent_path() / list).string();
  if (IsUrlPath(paths[0]) || !FileExists(path)) return names;
  // An error is ignored, because training needs no names.
  const std::string text = ReadFile(path, kMostBytes).value_or("");
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    const absl::string_view name = absl::StripAsciiWhitespace(line);
    if (!name.empty()) names.emplace_back(name);
  }
  return names;
}

class CifarSource final : public SampleSource {
 public:
  CifarSource(Files files, const Record& record, std::vector<uint8_t> labels)
      : SampleSource(ImageSpec(), files.samples()),
        files_(std::move(files)),
        record_(record),
        labels_(std::move(labels)) {}

  absl::Status Read(int64_t index, uint8_t* values, int32_t* labels) const override {
    if (labels != nullptr) *labels = labels_[index];
    if (values == nullptr) return absl::OkStatus();
    const auto [file, record] = files_.Find(index);
    std::array<uint8_t, kValues> planes;
    TETHYS_RETURN_IF_ERROR(file->ReadAt(record * record_.bytes() + record_.labels, absl::MakeSpan(planes)));
    for (int64_t pixel = 0; pixel < kPixels; ++pixel) {
      for (int64_t c = 0; c < kChannels; ++c) values[pixel * kChannels + c] = planes[c * kPixels + pixel];
    }
    return absl::OkStatus();
  }

 private:
  const Files files_;
  const Record record_;
  const std::vector<uint8_t> labels_;
};

absl::StatusOr<std::vector<uint8_t>> ReadAllLabels(const Files& files, const Record& record,
                                                   const LabelRules& rules) {
  std::vector<uint8_t> labels;
  for (const auto& file : files.files()) {
    for (int64_t offset = record.label; offset < file->size(); offset += record.bytes()) {
      uint8_t label = 0;
      TETHYS_RETURN_IF_ERROR(file->ReadAt(offset, {&label, 1}));
      if (!rules.Accepts(label)) {
        return absl::InvalidArgumentError(absl::StrCat(file->name(), ": label ", label, " of record ",
                                                       offset / record.bytes(), " is ", rules.OutsideText(),
                                                       WhatItIs(*file)));
      }
      labels.push_back(label);
    }
  }
  return labels;
}

// A source of labels without values, which reads each label from its file when it is needed.
class LabelSource final : public SampleSource {
 public:
  LabelSource(Files files, const Record& record)
      : SampleSource(ImageSpec(), files.samples()), files_(std::move(files)), record_(record) {}

  absl::Status Read(int64_t index, uint8_t*, int32_t* labels) const override {
    const auto [file, record] = files_.Find(index);
    uint8_t label = 0;
    TETHYS_RETURN_IF_ERROR(file->ReadAt(record * record_.bytes() + record_.label, {&label, 1}));
    *labels = label;
    return absl::OkStatus();
  }

 private:
  const Files files_;
  const Record record_;
};

absl::StatusOr<DataHeader> ReadHeader(const proto::Data& data, DataPart part, const LabelRules& rules) {
  TETHYS_RETURN_IF_ERROR(rules.CheckTakeClasses("data.cifar"));
  const Record record = RecordOf(data.cifar());
  TETHYS_ASSIGN_OR_RETURN(const Files files, OpenFiles(data, part, record));
  DataHeader header = files.Header(ImageSpec());
  header.open_labels = [files, record]() -> absl::StatusOr<std::shared_ptr<const SampleSource>> {
    return std::make_shared<LabelSource>(files, record);
  };
  return header;
}

absl::StatusOr<std::shared_ptr<const SampleSource>> Open(const proto::Data& data, DataPart part,
                                                         const LabelRules& rules) {
  TETHYS_RETURN_IF_ERROR(rules.CheckTakeClasses("data.cifar"));
  const Record record = RecordOf(data.cifar());
  TETHYS_ASSIGN_OR_RETURN(Files files, OpenFiles(data, part, record));
  TETHYS_ASSIGN_OR_RETURN(std::vector<uint8_t> labels, ReadAllLabels(files, record, rules));
  return std::make_shared<CifarSource>(std::move(files), record, std::move(labels));
}

}  // namespace

const DataFormat kCifarFormat = {.kind = proto::Data::kCifar,
                                 .has = Lists::Has,
                                 .files = Lists::Paths,
                                 .place = Lists::Place,
                                 .class_names = ClassNames,
                                 .bytes_held = BytesHeld,
                                 .read_header = ReadHeader,
                                 .open = Open};

}  // namespace tethys
