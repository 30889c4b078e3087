// TFRecord files of tf.Example messages. A file is a sequence of records (TensorFlow,
// core/lib/io/record_writer.h):
//
//   u64 length, u32 masked CRC-32C of the length, the payload, u32 masked CRC-32C of the payload;
//   little-endian
//
// The places of the records are held in memory, their contents stay in the files. Opening a part reads the
// lengths of all records.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <utility>

#include "absl/strings/str_join.h"
#include "proto/example.pb.h"
#include "runtime/base/crc32c.h"
#include "runtime/data/byte_source.h"
#include "runtime/data/formats.h"
#include "runtime/data/picture.h"

namespace tethys {
namespace {

constexpr int64_t kHead = 12, kTail = 4;           // Bytes around a payload.
constexpr int64_t kMaxPayload = int64_t{1} << 30;  // A message of Protobuf has at most 2 GiB.

absl::string_view Text(const uint8_t* bytes, int64_t size) {
  return {reinterpret_cast<const char*>(bytes), static_cast<size_t>(size)};
}

uint32_t Word(const uint8_t* bytes) {
  uint32_t word;
  std::memcpy(&word, bytes, sizeof(word));
  return word;
}

// ------------------------------------------------------------------------------------------ records

// A file of a part with the places of its records.
struct RecordFile {
  std::shared_ptr<const ByteSource> bytes;
  int64_t first = 0;            // The number of its first record in the part.
  std::vector<int64_t> places;  // Where each record begins.

  int64_t PayloadBytes(int64_t record) const {
    const bool last = record + 1 == static_cast<int64_t>(places.size());
    return (last ? bytes->size() : places[record + 1]) - places[record] - kHead - kTail;
  }
  std::string Name(int64_t record) const { return absl::StrCat(bytes->name(), ", record ", record); }
};

// Reads short pieces of a file in the order of their places, of which many come with one call of the system.
class ForwardReader {
 public:
  explicit ForwardReader(const ByteSource& file) : file_(file) {}

  // The bytes are valid until the next call. Requires that they lie in the file.
  absl::StatusOr<const uint8_t*> At(int64_t offset, int64_t size) {
    if (offset < begin_ || offset + size > begin_ + static_cast<int64_t>(block_.size())) {
      begin_ = offset;
      block_.resize(std::min<int64_t>(kBlock, file_.size() - offset));
      TETHYS_RETURN_IF_ERROR(file_.ReadAt(offset, absl::MakeSpan(block_)));
    }
    return block_.data() + (offset - begin_);
  }

 private:
  static constexpr int64_t kBlock = 1 << 16;
  const ByteSource& file_;
  int64_t begin_ = 0;
  std::vector<uint8_t> block_;
};

absl::Status FindRecords(RecordFile& file) {
  ForwardReader reader(*file.bytes);
  const int64_t end = file.bytes->size();
  for (int64_t place = 0; place < end;) {
    const std::string name = file.Name(static_cast<int64_t>(file.places.size()));
    const int64_t room = end - place - kHead - kTail;
    if (room < 0) {
      return absl::DataLossError(absl::StrCat(name, " is cut at the end of the file: fetch it again"));
    }
    TETHYS_ASSIGN_OR_RETURN(const uint8_t* head, reader.At(place, kHead));
    if (place == 0 && head[0] == 0x1f && head[1] == 0x8b) {
      return absl::InvalidArgumentError(
          absl::StrCat(file.bytes->name(),
                       ": a gzipped TFRecord file: unpack it with gunzip (records are read by their place)"));
    }
    if (MaskedCrc32c(Text(head, 8)) != Word(head + 8)) {
      return absl::DataLossError(absl::StrCat(name,
                                              ": the checksum of its length is wrong: the file is damaged, "
                                              "or no TFRecord file"));
    }
    uint64_t length;
    std::memcpy(&length, head, sizeof(length));
    if (length > static_cast<uint64_t>(room)) {
      return absl::DataLossError(absl::StrCat(name, " has ", length, " bytes, but ", room,
                                              " are left in the file, which is truncated: fetch it again"));
    }
    if (length > static_cast<uint64_t>(kMaxPayload)) {
      return absl::InvalidArgumentError(
          absl::StrCat(name, " has ", length, " bytes; at most ", kMaxPayload, " are read"));
    }
    file.places.push_back(place);
    place += kHead + static_cast<int64_t>(length) + kTail;
  }
  return absl::OkStatus();
}

// The payload of a record, valid until the next call on this thread.
absl::StatusOr<absl::string_view> ReadPayload(const RecordFile& file, int64_t record) {
  thread_local std::vector<uint8_t> buffer;
  const int64_t size = file.PayloadBytes(record);
  buffer.resize(size + kTail);
  TETHYS_RETURN_IF_ERROR(file.bytes->ReadAt(file.places[record] + kHead, absl::MakeSpan(buffer)));
  const absl::string_view payload = Text(buffer.data(), size);
  if (MaskedCrc32c(payload) == Word(buffer.data() + size)) return payload;
  return absl::DataLossError(
      absl::StrCat(file.Name(record), ": the checksum is wrong: fetch the file again"));
}

// ------------------------------------------------------------------------------------------ samples

// What a part's records are read as.
struct Reading {
  std::string image_feature, label_feature;
  LabelRules rules;
  bool pictures = false;  // PNG or JPEG, not raw values.
  SampleSpec spec;
  Shape picture;  // spec.shape with an axis of channels.
};

absl::Status BadFeature(const std::string& name, const std::string& feature, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat(name, ": feature \"", feature, "\" ", why));
}

absl::StatusOr<const proto::Feature*> FeatureOf(const proto::Example& example, const std::string& feature,
                                                const std::string& name, const char* field) {
  const auto& features = example.features().feature();
  const auto found = features.find(feature);
  if (found != features.end()) return &found->second;
  std::vector<std::string> present;
  for (const auto& [key, value] : features) present.push_back(absl::StrCat("\"", key, "\""));
  std::sort(present.begin(), present.end());
  return absl::InvalidArgumentError(absl::StrCat(name, " has no feature \"", feature, "\" but ",
                                                 present.empty() ? "none" : absl::StrJoin(present, ", "),
                                                 ": name the right one in data.tfrecord.", field));
}

// The bytes of the sample: a file of a picture, or raw values.
absl::StatusOr<absl::Span<const uint8_t>> ImageOf(const proto::Example& example, const Reading& reading,
                                                  const std::string& name) {
  TETHYS_ASSIGN_OR_RETURN(const proto::Feature* feature,
                          FeatureOf(example, reading.image_feature, name, "image_feature"));
  if (feature->bytes_list().value_size() != 1) {
    return BadFeature(name, reading.image_feature,
                      absl::StrCat("holds ", feature->bytes_list().value_size(),
                                   " strings of bytes: one is read, a PNG or JPEG file or raw values"));
  }
  const std::string& bytes = feature->bytes_list().value(0);
  return absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
}

absl::Status ReadClasses(const proto::Feature& feature, const Reading& reading, const std::string& name,
                         int32_t* labels) {
  for (const int64_t label : feature.int64_list().value()) {
    if (!reading.rules.Accepts(label)) {
      return BadFeature(name, reading.label_feature,
                        absl::StrCat("holds ", label, ", outside the ", reading.rules.classes,
                                     " classes of data.classes (0 to ", reading.rules.classes - 1, ")"));
    }
    *labels++ = static_cast<int32_t>(label);
  }
  return absl::OkStatus();
}

absl::Status ReadTargets(const proto::Feature& feature, const Reading& reading, const std::string& name,
                         int32_t* labels) {
  for (const float target : feature.float_list().value()) {
    if (!std::isfinite(target)) {
      return BadFeature(name, reading.label_feature,
                        absl::StrCat("holds ", target, ": targets must be finite"));
    }
    std::memcpy(labels++, &target, sizeof(target));
  }
  return absl::OkStatus();
}

int64_t LabelCount(const proto::Feature& feature, const LabelRules& rules) {
  return rules.targets ? feature.float_list().value_size() : feature.int64_list().value_size();
}

absl::Status ReadLabelsOf(const proto::Example& example, const Reading& reading, const std::string& name,
                          int32_t* labels) {
  TETHYS_ASSIGN_OR_RETURN(const proto::Feature* feature,
                          FeatureOf(example, reading.label_feature, name, "label_feature"));
  const int64_t count = LabelCount(*feature, reading.rules), expected = reading.spec.labels.elements();
  if (count != expected) {
    return BadFeature(name, reading.label_feature,
                      absl::StrCat("holds ", count, reading.rules.targets ? " floats" : " integers",
                                   ", expected are ", expected));
  }
  return reading.rules.targets ? ReadTargets(*feature, reading, name, labels)
                               : ReadClasses(*feature, reading, name, labels);
}

absl::Status ReadImageOf(const proto::Example& example, const Reading& reading, const std::string& name,
                         uint8_t* values) {
  TETHYS_ASSIGN_OR_RETURN(const absl::Span<const uint8_t> bytes, ImageOf(example, reading, name));
  if (reading.pictures) return DecodePicture(bytes, name, reading.picture, false, values);
  if (static_cast<int64_t>(bytes.size()) != reading.spec.elements()) {
    return BadFeature(name, reading.image_feature,
                      absl::StrCat("holds ", bytes.size(), " bytes, but data.tfrecord.shape is ",
                                   ShapeText(reading.spec.shape)));
  }
  std::memcpy(values, bytes.data(), bytes.size());
  return absl::OkStatus();
}

// The message of a record, valid until the next call on this thread.
absl::StatusOr<const proto::Example*> ReadExample(const RecordFile& file, int64_t record) {
  thread_local proto::Example example;
  TETHYS_ASSIGN_OR_RETURN(const absl::string_view payload, ReadPayload(file, record));
  if (example.ParseFromArray(payload.data(), static_cast<int>(payload.size()))) return &example;
  return absl::DataLossError(absl::StrCat(file.Name(record), " is no tf.Example message"));
}

class TfrecordSource final : public SampleSource {
 public:
  TfrecordSource(std::vector<RecordFile> files, int64_t samples, Reading reading)
      : SampleSource(reading.spec, samples), files_(std::move(files)), reading_(std::move(reading)) {}

  absl::Status Read(int64_t index, uint8_t* values, int32_t* labels) const override {
    const auto next =
        std::upper_bound(files_.begin(), files_.end(), index,
                         [](int64_t sample, const RecordFile& file) { return sample < file.first; });
    const RecordFile& file = *std::prev(next);
    const int64_t record = index - file.first;
    TETHYS_ASSIGN_OR_RETURN(const proto::Example* example, ReadExample(file, record));
    const std::string name = file.Name(record);
    if (labels != nullptr) TETHYS_RETURN_IF_ERROR(ReadLabelsOf(*example, reading_, name, labels));
    return values == nullptr ? absl::OkStatus() : ReadImageOf(*example, reading_, name, values);
  }

  std::vector<int64_t> file_samples() const {
    std::vector<int64_t> samples;
    for (const RecordFile& file : files_) samples.push_back(static_cast<int64_t>(file.places.size()));
    return samples;
  }

 private:
  const std::vector<RecordFile> files_;
  const Reading reading_;
};

// ------------------------------------------------------------------------------------------ the format

std::vector<std::string> Patterns(const proto::Data& data, DataPart part) {
  const auto& patterns = part == DataPart::kTrain ? data.tfrecord().train() : data.tfrecord().test();
  return {patterns.begin(), patterns.end()};
}

bool Has(const proto::Data& data, DataPart part) { return !Patterns(data, part).empty(); }

absl::StatusOr<std::vector<std::string>> Paths(const proto::Data& data, DataPart part) {
  return ExpandPaths(Patterns(data, part));
}

std::string Place(const proto::Data& data) {
  return data.tfrecord().train().empty() ? "" : FolderOf(data.tfrecord().train(0));
}

int64_t BytesHeld(const SampleSpec&) { return sizeof(int64_t); }  // The place of the record.

// Finds out from a part's first record whether it holds pictures or raw values, and their shape.
absl::Status ResolveImage(const proto::Example& example, const std::string& name, Reading& reading) {
  TETHYS_ASSIGN_OR_RETURN(const absl::Span<const uint8_t> bytes, ImageOf(example, reading, name));
  Shape& shape = reading.spec.shape;
  const bool has_shape = !shape.empty();
  const bool fits = has_shape && static_cast<int64_t>(bytes.size()) == reading.spec.elements();
  reading.pictures = !fits && LooksLikePicture(bytes);
  if (!fits && !reading.pictures) {
    return BadFeature(name, reading.image_feature,
                      absl::StrCat("holds ", bytes.size(), " bytes that are no PNG or JPEG file: give ",
                                   has_shape ? "the right shape" : "their shape", " in data.tfrecord.shape"));
  }
  if (!has_shape) {
    TETHYS_ASSIGN_OR_RETURN(const Shape picture, ReadPictureShape(bytes, name));
    shape = WithoutGreyChannel(picture);
  }
  reading.picture = WithChannels(shape);
  if (!reading.pictures || reading.picture[2] == 1 || reading.picture[2] == 3) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("data.tfrecord.shape has ", reading.picture[2],
                   " channels, but pictures have 1 (grey) or 3 (red, green, blue)"));
}

// Finds out the shape of labels. As many classes as pixels are a label map.
absl::Status ResolveLabels(const proto::Example& example, const std::string& name, Reading& reading) {
  TETHYS_ASSIGN_OR_RETURN(const proto::Feature* feature,
                          FeatureOf(example, reading.label_feature, name, "label_feature"));
  const int64_t count = LabelCount(*feature, reading.rules);
  const int64_t height = reading.picture[0], width = reading.picture[1];
  LabelFormat& labels = reading.spec.labels;
  labels.targets = reading.rules.targets;
  if (labels.targets && count > 1) labels.shape = Shape{count};
  if (!labels.targets && count > 1 && count == height * width) labels.shape = Shape{height, width};
  std::vector<int32_t> first(labels.elements());
  return ReadLabelsOf(example, reading, name, first.data());
}

absl::StatusOr<Reading> ReadingOf(const proto::Data& data, const RecordFile& file, const LabelRules& rules) {
  const proto::Tfrecord& fields = data.tfrecord();
  Reading reading = {.image_feature = fields.has_image_feature() ? fields.image_feature() : "image",
                     .label_feature = fields.has_label_feature() ? fields.label_feature() : "label",
                     .rules = rules,
                     .pictures = false,
                     .spec = {.shape = Shape(fields.shape().begin(), fields.shape().end()), .labels = {}},
                     .picture = {}};
  const std::string name = file.Name(0);
  TETHYS_ASSIGN_OR_RETURN(const proto::Example* example, ReadExample(file, 0));
  TETHYS_RETURN_IF_ERROR(ResolveImage(*example, name, reading));
  TETHYS_RETURN_IF_ERROR(ResolveLabels(*example, name, reading));
  return reading;
}

absl::StatusOr<std::shared_ptr<const TfrecordSource>> OpenRecords(const proto::Data& data, DataPart part,
                                                                  const LabelRules& rules) {
  TETHYS_ASSIGN_OR_RETURN(const std::vector<std::string> paths, Paths(data, part));
  std::vector<RecordFile> files;
  int64_t samples = 0;
  for (const std::string& path : paths) {
    RecordFile file = {.bytes = nullptr, .first = samples, .places = {}};
    TETHYS_ASSIGN_OR_RETURN(file.bytes, OpenLocalFile(path));
    TETHYS_RETURN_IF_ERROR(FindRecords(file));
    file.places.shrink_to_fit();
    samples += static_cast<int64_t>(file.places.size());
    files.push_back(std::move(file));
  }
  TETHYS_ASSIGN_OR_RETURN(Reading reading, ReadingOf(data, files.front(), rules));
  return std::make_shared<TfrecordSource>(std::move(files), samples, std::move(reading));
}

absl::StatusOr<std::shared_ptr<const SampleSource>> Open(const proto::Data& data, DataPart part,
                                                         const LabelRules& rules) {
  return OpenRecords(data, part, rules);
}

absl::StatusOr<DataHeader> ReadHeader(const proto::Data& data, DataPart part, const LabelRules& rules) {
  TETHYS_ASSIGN_OR_RETURN(const std::vector<std::string> paths, Paths(data, part));
  TETHYS_ASSIGN_OR_RETURN(const auto source, OpenRecords(data, part, rules));
  return DataHeader{.samples = source->size(),
                    .spec = source->spec(),
                    .file_samples = source->file_samples(),
                    .values_name = paths.front(),
                    .labels_name = paths.front()};
}

}  // namespace

const DataFormat kTfrecordFormat = {.kind = proto::Data::kTfrecord,
                                    .has = Has,
                                    .files = Paths,
                                    .place = Place,
                                    .bytes_held = BytesHeld,
                                    .read_header = ReadHeader,
                                    .open = Open};

}  // namespace tethys
