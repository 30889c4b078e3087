// TFRecord files of tf.Example messages (tfrecord_file.h). Samples stay in their files.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "absl/strings/str_join.h"
#include "proto/example.pb.h"
#include "runtime/data/byte_source.h"
#include "runtime/data/finite_values.h"
#include "runtime/data/formats.h"
#include "runtime/data/known_format.h"
#include "runtime/data/picture.h"
#include "runtime/data/sample_files.h"
#include "runtime/data/tfrecord_file.h"

namespace tethys {
namespace {

using Files = SampleFiles<RecordFile>;

// The most record positions of a part that are held in memory although an index has them. They take 16 MiB.
constexpr int64_t kMostPlacesHeld = 1 << 21;
// The most bytes of a record that is read for its label alone.
constexpr int64_t kMostBytesForLabel = 1 << 14;

// ------------------------------------------------------------------------------------------ samples

// The rules by which the records of one part of the data (DataPart) are read.
struct Reading {
  std::string image_feature, label_feature;
  LabelRules rules;
  bool pictures = false;  // Values are PNG or JPEG files, not raw.
  // Pictures in colour are refused, because the first pictures are grey, and the job does not require all
  // pictures to be grey.
  bool refuses_colour = false;
  bool resizes = false;  // Resizes pictures, and the maps of their labels, to the size of `spec`.
  SampleSpec spec;
  Shape picture;               // The shape of `spec` with an axis of channels.
  int64_t bytes_of_first = 0;  // The size of the first record.
};

// The name of a record for errors. Its text is made only for errors, because making the text takes as long as
// checking a small record.
struct RecordName {
  const RecordFile& file;
  int64_t record = 0;
  std::string text() const { return file.Name(record); }
};

absl::Status BadFeature(const RecordName& name, const std::string& feature, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat(name.text(), ": feature \"", feature, "\" ", why));
}

absl::Status NoFeature(const proto::RecordedExample& example, const std::string& feature,
                       const RecordName& name, const char* field) {
  std::vector<std::string> present;
  for (const proto::RecordedEntry& entry : example.features().feature()) {
    present.push_back(absl::StrCat("\"", entry.key(), "\""));
  }
  std::sort(present.begin(), present.end());
  present.erase(std::unique(present.begin(), present.end()), present.end());
  const std::string found =
      present.empty() ? "no features" : absl::StrCat("only ", absl::StrJoin(present, ", "));
  return absl::InvalidArgumentError(absl::StrCat(name.text(), " has no feature \"", feature,
                                                 "\": the record has ", found,
                                                 "; name the right one in data.tfrecord.", field));
}

absl::StatusOr<const proto::RecordedFeature*> FeatureOf(const proto::RecordedExample& example,
                                                        const std::string& feature, const RecordName& name,
                                                        const char* field) {
  const auto& entries = example.features().feature();
  const auto entry = std::find_if(entries.rbegin(), entries.rend(),
                                  [&](const proto::RecordedEntry& each) { return each.key() == feature; });
  if (entry == entries.rend()) return NoFeature(example, feature, name, field);
  const proto::RecordedFeature& value = entry->value();
  if (value.has_bytes_list() + value.has_float_list() + value.has_int64_list() <= 1) return &value;
  return BadFeature(name, feature,
                    "holds values of several types, but a feature has one type: write the file again");
}

// The contents of a feature, for errors: "1 string of bytes", "3 integers", "nothing".
std::string HeldText(const proto::RecordedFeature& feature) {
  const auto text = [](int count, absl::string_view one, absl::string_view many) {
    return absl::StrCat(count, " ", count == 1 ? one : many);
  };
  if (const int count = feature.bytes_list().value_size(); count > 0) {
    return text(count, "string of bytes", "strings of bytes");
  }
  if (const int count = feature.int64_list().value_size(); count > 0) {
    return text(count, "integer", "integers");
  }
  if (const int count = feature.float_list().value_size(); count > 0) return text(count, "float", "floats");
  return "nothing";
}

// The bytes of the sample: a picture's file, or raw values.
absl::StatusOr<absl::Span<const uint8_t>> ImageOf(const proto::RecordedExample& example,
                                                  const Reading& reading, const RecordName& name) {
  TETHYS_ASSIGN_OR_RETURN(const proto::RecordedFeature* feature,
                          FeatureOf(example, reading.image_feature, name, "image_feature"));
  if (feature->bytes_list().value_size() != 1) {
    return BadFeature(
        name, reading.image_feature,
        absl::StrCat(
            "holds ", HeldText(*feature),
            ": the feature must hold floats or one string of bytes (a PNG or JPEG file, or raw values)"));
  }
  const std::string& bytes = feature->bytes_list().value(0);
  return absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
}

absl::Status ReadClasses(const proto::RecordedFeature& feature, const Reading& reading,
                         const RecordName& name, int32_t* labels) {
  for (const int64_t label : feature.int64_list().value()) {
    if (!reading.rules.Accepts(label)) {
      return BadFeature(name, reading.label_feature,
                        absl::StrCat("holds ", label, ", ", reading.rules.OutsideText()));
    }
    *labels++ = static_cast<int32_t>(label);
  }
  return absl::OkStatus();
}

absl::Status ReadTargets(const proto::RecordedFeature& feature, const Reading& reading,
                         const RecordName& name, int32_t* labels) {
  for (const float target : feature.float_list().value()) {
    if (!std::isfinite(target)) {
      return BadFeature(name, reading.label_feature,
                        absl::StrCat("holds ", target, ": targets must be finite"));
    }
    std::memcpy(labels++, &target, sizeof(target));
  }
  return absl::OkStatus();
}

int64_t LabelCount(const proto::RecordedFeature& feature, const LabelRules& rules) {
  return rules.targets ? feature.float_list().value_size() : feature.int64_list().value_size();
}

absl::Status ReadLabelsOf(const proto::RecordedExample& example, const Reading& reading,
                          const RecordName& name, int32_t* labels) {
  TETHYS_ASSIGN_OR_RETURN(const proto::RecordedFeature* feature,
                          FeatureOf(example, reading.label_feature, name, "label_feature"));
  const bool resizes_map =
      reading.resizes && !reading.spec.labels.targets && reading.spec.labels.shape.size() == 2;
  Shape own = reading.spec.labels.shape;
  if (resizes_map) {
    TETHYS_ASSIGN_OR_RETURN(const auto bytes, ImageOf(example, reading, name));
    TETHYS_ASSIGN_OR_RETURN(own, ReadPictureShape(bytes, [&] { return name.text(); }));
    own.pop_back();
  }
  const int64_t count = LabelCount(*feature, reading.rules), expected = LabelFormat{.shape = own}.elements();
  if (count != expected) {
    const bool targets = reading.rules.targets;
    const char* const cure = count > 0 ? ""
                             : targets ? ": write them in a float_list"
                                       : ": write the number of the class in an int64_list";
    return BadFeature(name, reading.label_feature,
                      absl::StrCat("holds ", HeldText(*feature), ", but must hold ", expected,
                                   targets ? " (float32 targets)" : " (classes as integers)", cure));
  }
  if (reading.rules.targets) return ReadTargets(*feature, reading, name, labels);
  if (!resizes_map) return ReadClasses(*feature, reading, name, labels);
  thread_local std::vector<int32_t> map;
  map.resize(count);
  TETHYS_RETURN_IF_ERROR(ReadClasses(*feature, reading, name, map.data()));
  ResizeLabels(map.data(), own, reading.spec.labels.shape, labels);
  return absl::OkStatus();
}

// Copies the values of a feature of floats to `values`.
absl::Status ReadFloatsOf(const proto::RecordedFeature& feature, const Reading& reading,
                          const RecordName& name, uint8_t* values) {
  const auto& floats = feature.float_list().value();
  if (floats.size() != reading.spec.elements()) {
    return BadFeature(name, reading.image_feature,
                      absl::StrCat("holds ", HeldText(feature), ", but data.tfrecord.shape is ",
                                   ShapeText(reading.spec.shape), " of floats"));
  }
  TETHYS_RETURN_IF_ERROR(CheckFinite(
      floats, [&] { return absl::StrCat(name.text(), ", feature \"", reading.image_feature, "\""); }));
  std::memcpy(values, floats.data(), static_cast<size_t>(reading.spec.bytes()));
  return absl::OkStatus();
}

absl::Status ReadImageOf(const proto::RecordedExample& example, const Reading& reading,
                         const RecordName& name, uint8_t* values) {
  if (reading.spec.type == ValueType::kFloat) {
    TETHYS_ASSIGN_OR_RETURN(const proto::RecordedFeature* feature,
                            FeatureOf(example, reading.image_feature, name, "image_feature"));
    return ReadFloatsOf(*feature, reading, name, values);
  }
  TETHYS_ASSIGN_OR_RETURN(const absl::Span<const uint8_t> bytes, ImageOf(example, reading, name));
  if (reading.refuses_colour && KindOfPicture(bytes).channels == 3) {
    return BadFeature(
        name, reading.image_feature,
        "holds a picture in colour, but the first pictures are grey: give the shape of all pictures in "
        "data.tfrecord.shape, [height, width, 3], or [height, width] to convert all of them to grey");
  }
  if (reading.pictures)
    return DecodePicture(
        bytes, [&] { return name.text(); }, reading.picture, reading.resizes, values);
  if (static_cast<int64_t>(bytes.size()) != reading.spec.elements()) {
    return BadFeature(name, reading.image_feature,
                      absl::StrCat("holds ", bytes.size(), " bytes, but data.tfrecord.shape is ",
                                   ShapeText(reading.spec.shape)));
  }
  std::memcpy(values, bytes.data(), bytes.size());
  return absl::OkStatus();
}

// The message of a record, valid until the next call on this thread.
absl::StatusOr<const proto::RecordedExample*> ReadExample(const RecordFile& file, int64_t record) {
  thread_local proto::RecordedExample example;
  TETHYS_ASSIGN_OR_RETURN(const absl::string_view payload, file.ReadPayload(record));
  if (example.ParseFromArray(payload.data(), static_cast<int>(payload.size()))) return &example;
  return absl::DataLossError(absl::StrCat(file.Name(record), " is no tf.Example message"));
}

class TfrecordSource final : public SampleSource {
 public:
  TfrecordSource(Files files, Reading reading)
      : SampleSource(reading.spec, files.samples()), files_(std::move(files)), reading_(std::move(reading)) {}

  absl::Status Read(int64_t index, uint8_t* values, int32_t* labels) const override {
    const auto [file, record] = files_.Find(index);
    TETHYS_ASSIGN_OR_RETURN(const proto::RecordedExample* example, ReadExample(file, record));
    const RecordName name = {file, record};
    if (labels != nullptr) TETHYS_RETURN_IF_ERROR(ReadLabelsOf(*example, reading_, name, labels));
    return values == nullptr ? absl::OkStatus() : ReadImageOf(*example, reading_, name, values);
  }

 private:
  const Files files_;
  const Reading reading_;
};

// ------------------------------------------------------------------------------------------ the format

using Lists = FileLists<&proto::Data::tfrecord>;

// A reader holds the position of each record. Positions beyond kMostPlacesHeld are in an index in the host's
// cache.
int64_t BytesHeld(const proto::Data&, const SampleSpec&) { return sizeof(int64_t); }

// Finds out whether the first record of a part holds a picture, raw values or floats, and sets their shape.
absl::Status ResolveImage(const proto::Data& data, const proto::RecordedExample& example,
                          const RecordName& name, Reading& reading) {
  TETHYS_ASSIGN_OR_RETURN(const proto::RecordedFeature* feature,
                          FeatureOf(example, reading.image_feature, name, "image_feature"));
  if (feature->float_list().value_size() > 0) {
    if (reading.spec.shape.empty()) {
      return BadFeature(name, reading.image_feature,
                        absl::StrCat("holds ", feature->float_list().value_size(),
                                     " floats: give their shape in data.tfrecord.shape"));
    }
    reading.spec.type = ValueType::kFloat;
    reading.picture = WithChannels(reading.spec.shape);
    return absl::OkStatus();
  }
  TETHYS_ASSIGN_OR_RETURN(const absl::Span<const uint8_t> bytes, ImageOf(example, reading, name));
  Shape& shape = reading.spec.shape;
  const bool has_shape = !shape.empty();
  const bool fits = has_shape && static_cast<int64_t>(bytes.size()) == reading.spec.elements();
  reading.pictures = !fits && LooksLikePicture(bytes);
  if (const KnownFormat format = FormatOfBytes(bytes); !fits && !reading.pictures && !format.name.empty()) {
    return BadFeature(
        name, reading.image_feature,
        absl::StrCat("holds ", format.name, ", but only PNG and JPEG are read: convert the picture"));
  }
  if (!fits && !reading.pictures) {
    return BadFeature(name, reading.image_feature,
                      absl::StrCat("holds ", bytes.size(), " bytes that are no PNG or JPEG file: give ",
                                   has_shape ? "the right shape" : "their shape", " in data.tfrecord.shape"));
  }
  if (!has_shape) {
    TETHYS_ASSIGN_OR_RETURN(const Shape picture, ReadPictureShape(bytes, [&] { return name.text(); }));
    shape = WithoutGreyChannel(picture);
  }
  reading.resizes = reading.pictures && data.has_resize();
  if (reading.resizes) {
    shape[0] = data.resize().height();
    shape[1] = data.resize().width();
  }
  reading.picture = WithChannels(shape);
  if (!reading.pictures || reading.picture[2] == 1 || reading.picture[2] == 3) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("data.tfrecord.shape has ", reading.picture[2],
                   " channels, but pictures have 1 (grey) or 3 (red, green, blue)"));
}

// Finds the shape of labels. If a record has as many classes in its label feature as its image has pixels,
// the classes form a label map.
absl::Status ResolveLabels(const proto::RecordedExample& example, const RecordName& name, Reading& reading) {
  TETHYS_ASSIGN_OR_RETURN(const proto::RecordedFeature* feature,
                          FeatureOf(example, reading.label_feature, name, "label_feature"));
  const int64_t count = LabelCount(*feature, reading.rules);
  Shape own = reading.picture;  // The size of the image, and of a map of its labels, in the record.
  if (reading.resizes) {
    TETHYS_ASSIGN_OR_RETURN(const auto bytes, ImageOf(example, reading, name));
    TETHYS_ASSIGN_OR_RETURN(own, ReadPictureShape(bytes, [&] { return name.text(); }));
  }
  LabelFormat& labels = reading.spec.labels;
  labels.targets = reading.rules.targets;
  if (labels.targets && count > 1) labels.shape = Shape{count};
  if (!labels.targets && count > 1 && count == own[0] * own[1]) {
    labels.shape = Shape{reading.picture[0], reading.picture[1]};
  }
  std::vector<int32_t> first(labels.elements());
  return ReadLabelsOf(example, reading, name, first.data());
}

// True if one of the first records of a file holds a picture in colour.
absl::StatusOr<bool> AnyInColour(const RecordFile& file, const Reading& reading) {
  constexpr int64_t kMostLookedAt = 64;
  for (int64_t record = 0; record < std::min(kMostLookedAt, file.records()); ++record) {
    TETHYS_ASSIGN_OR_RETURN(const proto::RecordedExample* example, ReadExample(file, record));
    const absl::StatusOr<absl::Span<const uint8_t>> bytes = ImageOf(*example, reading, {file, record});
    // An error is ignored here: reading the sample will report it.
    if (bytes.ok() && KindOfPicture(*bytes).channels == 3) return true;
  }
  return false;
}

absl::StatusOr<Reading> ReadingOf(const proto::Data& data, const RecordFile& file, const LabelRules& rules) {
  const proto::Tfrecord& fields = data.tfrecord();
  Reading reading = {.image_feature = fields.has_image_feature() ? fields.image_feature() : "image",
                     .label_feature = fields.has_label_feature() ? fields.label_feature() : "label",
                     .rules = rules,
                     .pictures = false,
                     .refuses_colour = false,
                     .resizes = false,
                     .spec = {.shape = Shape(fields.shape().begin(), fields.shape().end()), .labels = {}},
                     .picture = {}};
  const RecordName name = {file};
  TETHYS_ASSIGN_OR_RETURN(const proto::RecordedExample* example, ReadExample(file, 0));
  reading.bytes_of_first = static_cast<int64_t>(example->ByteSizeLong());
  TETHYS_RETURN_IF_ERROR(ResolveImage(data, *example, name, reading));
  if (reading.pictures && fields.shape().empty() && reading.picture[2] == 1) {
    TETHYS_ASSIGN_OR_RETURN(const bool coloured, AnyInColour(file, reading));
    if (coloured) {
      reading.picture[2] = 3;
      reading.spec.shape = reading.picture;
    }
    reading.refuses_colour = !coloured;
    TETHYS_ASSIGN_OR_RETURN(example, ReadExample(file, 0));
  }
  TETHYS_RETURN_IF_ERROR(ResolveLabels(*example, name, reading));
  return reading;
}

// Opens the files of a part, and sets how they are read.
absl::StatusOr<Files> OpenFiles(const proto::Data& data, DataPart part, const LabelRules& rules,
                                Reading& reading) {
  TETHYS_ASSIGN_OR_RETURN(const std::vector<std::string> paths, Lists::Paths(data, part));
  int64_t room = kMostPlacesHeld;
  const auto open = [&](const std::string&, auto bytes) -> absl::StatusOr<Files::Opened> {
    TETHYS_ASSIGN_OR_RETURN(RecordFile records, RecordFile::Open(std::move(bytes), data.cache_dir(), room));
    const int64_t samples = records.records();
    return Files::Opened{std::move(records), samples};
  };
  TETHYS_ASSIGN_OR_RETURN(Files files, Files::OpenAll(paths, open));
  TETHYS_ASSIGN_OR_RETURN(reading, ReadingOf(data, files.files().front(), rules));
  return files;
}

absl::StatusOr<std::shared_ptr<const SampleSource>> Open(const proto::Data& data, DataPart part,
                                                         const LabelRules& rules) {
  Reading reading;
  TETHYS_ASSIGN_OR_RETURN(Files files, OpenFiles(data, part, rules, reading));
  return std::make_shared<TfrecordSource>(std::move(files), std::move(reading));
}

absl::StatusOr<DataHeader> ReadHeader(const proto::Data& data, DataPart part, const LabelRules& rules) {
  Reading reading;
  TETHYS_ASSIGN_OR_RETURN(Files files, OpenFiles(data, part, rules, reading));
  DataHeader header = files.Header(reading.spec);
  // A record can only be read as a whole. So if records are large, open_labels stays null, because reading
  // single labels would take as long as reading whole samples.
  if (reading.bytes_of_first > kMostBytesForLabel) return header;
  const auto source = std::make_shared<TfrecordSource>(std::move(files), std::move(reading));
  header.open_labels = [source]() -> absl::StatusOr<std::shared_ptr<const SampleSource>> { return source; };
  return header;
}

}  // namespace

const DataFormat kTfrecordFormat = {.kind = proto::Data::kTfrecord,
                                    .has = Lists::Has,
                                    .files = Lists::Paths,
                                    .place = Lists::Place,
                                    .bytes_held = BytesHeld,
                                    .read_header = ReadHeader,
                                    .open = Open};

}  // namespace tethys
