// Samples in two arrays of NumPy (npy_array.h): one array contains the values, the other contains the labels.
// Values stay in their file, unless the file is a compressed archive. Labels are held in memory.
#include "runtime/data/npy_source.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>
#include <utility>

#include "runtime/data/chief_paths.h"
#include "runtime/data/finite_values.h"
#include "runtime/data/formats.h"
#include "runtime/data/npy_array.h"

namespace tethys {
namespace {

struct Paths {
  const std::string& images;
  const std::string& labels;
};

Paths PathsOf(const proto::Data& data, DataPart part) {
  const proto::Npy& npy = data.npy();
  return part == DataPart::kTrain ? Paths{npy.train_images(), npy.train_labels()}
                                  : Paths{npy.test_images(), npy.test_labels()};
}

bool Has(const proto::Data& data, DataPart part) { return !PathsOf(data, part).images.empty(); }

std::string Place(const proto::Data& data) { return FolderOf(NpyFileOf(data.npy().train_images())); }

absl::StatusOr<std::vector<std::string>> Files(const proto::Data& data, DataPart part) {
  const Paths paths = PathsOf(data, part);
  std::vector<std::string> files = {NpyFileOf(paths.images)};
  if (std::string labels = NpyFileOf(paths.labels); labels != files[0]) files.push_back(std::move(labels));
  return files;
}

int64_t BytesHeld(const proto::Data& data, const SampleSpec& spec) {
  const int64_t values = IsHeldInMemory(OnChiefsMachine(data).npy().train_images()) ? spec.bytes() : 0;
  return values + spec.labels.elements() * static_cast<int64_t>(sizeof(int32_t));
}

bool Unpacks(const proto::Data& data, DataPart part) { return IsHeldInMemory(PathsOf(data, part).images); }

// The arrays of one part of the data (DataPart), whose types have been checked, and the part's SampleSpec.
struct Pair {
  NpyArray images, labels;
  SampleSpec spec;
};

SampleSpec SpecOf(const NpyArray& images, LabelFormat labels) {
  return {.shape = Shape(images.shape.begin() + 1, images.shape.end()),
          .labels = std::move(labels),
          .type = images.type == "<f4" ? ValueType::kFloat : ValueType::kByte};
}

absl::Status CheckImages(const std::string& path, const NpyArray& images) {
  if (images.type != "|u1" && images.type != "<f4") {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": samples of type ", NpyTypeText(images.type),
                     " are not read: write array.astype('uint8') if all values are from 0 to 255, otherwise "
                     "array.astype('float32')"));
  }
  if (images.shape.size() >= 2) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": an array ", ShapeText(images.shape),
                   ": the shape must be [samples, values], [samples, height, width] or [samples, height, "
                   "width, channels]: check the shape of the array"));
}

absl::Status CheckLabels(const std::string& path, const NpyArray& labels, const LabelRules& rules) {
  if (!rules.targets && labels.shape.size() == 2 && labels.shape[1] > 1 && labels.shape[1] == rules.classes) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": labels ", ShapeText(labels.shape), " of ", rules.classes,
                     " classes look like one-hot vectors: write numpy.argmax(labels, 1)"));
  }
  if ((labels.type == "<f4") == rules.targets) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      path, ": values of type ", NpyTypeText(labels.type), ", but model.loss takes ",
      rules.targets ? "targets: write array.astype('float32')" : "classes: write array.astype('int32')"));
}

// The shape of the labels of one sample. A column, [samples, 1], holds one label per sample.
Shape LabelShapeOf(const Shape& labels) {
  if (labels.size() == 2 && labels[1] == 1) return {};
  return Shape(labels.begin() + 1, labels.end());
}

absl::StatusOr<Pair> OpenPair(const proto::Data& data, DataPart part, const LabelRules& rules,
                              NpyExtent extent) {
  const Paths paths = PathsOf(data, part);
  Pair pair;
  TETHYS_ASSIGN_OR_RETURN(pair.images, OpenNpyArray(paths.images, extent));
  TETHYS_ASSIGN_OR_RETURN(pair.labels, OpenNpyArray(paths.labels, extent));
  const Shape &images = pair.images.shape, &labels = pair.labels.shape;
  TETHYS_RETURN_IF_ERROR(CheckImages(paths.images, pair.images));
  TETHYS_RETURN_IF_ERROR(CheckLabels(paths.labels, pair.labels, rules));
  TETHYS_RETURN_IF_ERROR(CheckSameCount(paths.images, images[0], paths.labels, labels[0]));
  pair.spec = SpecOf(pair.images, {.shape = LabelShapeOf(labels), .targets = rules.targets});
  return pair;
}

class NpySource final : public SampleSource {
 public:
  // `labels` may be empty: then every label is 0.
  NpySource(SampleSpec spec, NpyArray images, std::vector<int32_t> labels)
      : SampleSource(std::move(spec), images.shape[0]),
        images_(std::move(images)),
        labels_(std::move(labels)) {}

  absl::Status Read(int64_t index, uint8_t* values, int32_t* labels) const override {
    if (labels != nullptr) {
      const int64_t each = spec().labels.elements();
      if (labels_.empty()) {
        std::fill_n(labels, each, 0);
      } else {
        std::copy_n(labels_.begin() + index * each, each, labels);
      }
    }
    if (values == nullptr) return absl::OkStatus();
    const int64_t each = spec().bytes();
    TETHYS_RETURN_IF_ERROR(
        images_.file->ReadAt(images_.begin + index * each, {values, static_cast<size_t>(each)}));
    if (spec().type == ValueType::kByte) return absl::OkStatus();
    const auto* floats = reinterpret_cast<const float*>(values);
    return CheckFinite({floats, static_cast<size_t>(spec().elements())},
                       [&] { return absl::StrCat(images_.file->name(), ", sample ", index); });
  }

 private:
  const NpyArray images_;
  const std::vector<int32_t> labels_;
};

template <typename Value>
int64_t ValueAt(const uint8_t* bytes) {
  Value value;
  std::memcpy(&value, bytes, sizeof(value));
  // A uint64 value that does not fit into int64 becomes a number that no job accepts.
  if (std::is_unsigned_v<Value> && sizeof(value) == 8 && static_cast<int64_t>(value) < 0) return INT64_MAX;
  return static_cast<int64_t>(value);
}

int64_t IntegerAt(const uint8_t* bytes, absl::string_view type) {
  const bool is_signed = type[1] == 'i';
  switch (type[2]) {
    case '1':
      return is_signed ? ValueAt<int8_t>(bytes) : ValueAt<uint8_t>(bytes);
    case '2':
      return is_signed ? ValueAt<int16_t>(bytes) : ValueAt<uint16_t>(bytes);
    case '4':
      return is_signed ? ValueAt<int32_t>(bytes) : ValueAt<uint32_t>(bytes);
    default:
      return is_signed ? ValueAt<int64_t>(bytes) : ValueAt<uint64_t>(bytes);
  }
}

// The label as the source holds it: the class, or the bits of the target. `sample` is the number of the
// sample, for errors.
absl::StatusOr<int32_t> LabelAt(const NpyArray& array, const uint8_t* bytes, int64_t sample,
                                const LabelRules& rules) {
  if (rules.targets) {
    float target;
    std::memcpy(&target, bytes, sizeof(target));
    int32_t bits;
    std::memcpy(&bits, bytes, sizeof(bits));
    if (std::isfinite(target)) return bits;
    return absl::InvalidArgumentError(absl::StrCat(array.file->name(), ": a target of sample ", sample,
                                                   " is ", target, ": targets must be finite"));
  }
  const int64_t label = IntegerAt(bytes, array.type);
  if (rules.Accepts(label)) return static_cast<int32_t>(label);
  return absl::InvalidArgumentError(absl::StrCat(array.file->name(), ": label ",
                                                 label == INT64_MAX ? "(too large)" : absl::StrCat(label),
                                                 " of sample ", sample, " is ", rules.OutsideText()));
}

absl::StatusOr<std::vector<int32_t>> ReadLabels(const NpyArray& array, const LabelRules& rules) {
  constexpr int64_t kBlock = 1 << 16;  // The number of values read at once.
  TETHYS_ASSIGN_OR_RETURN(const int64_t count, ElementCount(array.shape));
  const int64_t each = count / array.shape[0], bytes = array.value_bytes();
  std::vector<int32_t> labels;
  std::vector<uint8_t> block;
  for (int64_t first = 0; first < count; first += kBlock) {
    const int64_t values = std::min(kBlock, count - first);
    block.resize(values * bytes);
    TETHYS_RETURN_IF_ERROR(array.file->ReadAt(array.begin + first * bytes, absl::MakeSpan(block)));
    for (int64_t i = 0; i < values; ++i) {
      TETHYS_ASSIGN_OR_RETURN(const int32_t label,
                              LabelAt(array, block.data() + i * bytes, (first + i) / each, rules));
      labels.push_back(label);
    }
  }
  return labels;
}

absl::StatusOr<DataHeader> ReadHeader(const proto::Data& data, DataPart part, const LabelRules& rules) {
  TETHYS_ASSIGN_OR_RETURN(const Pair pair, OpenPair(data, part, rules, NpyExtent::kHeader));
  DataHeader header = {.samples = pair.images.shape[0],
                       .spec = pair.spec,
                       .values_name = pair.images.file->name(),
                       .labels_name = pair.labels.file->name()};
  header.open_labels = [spec = pair.spec, path = PathsOf(data, part).labels,
                        rules]() -> absl::StatusOr<std::shared_ptr<const SampleSource>> {
    TETHYS_ASSIGN_OR_RETURN(NpyArray labels, OpenNpyArray(path, NpyExtent::kValues));
    TETHYS_ASSIGN_OR_RETURN(std::vector<int32_t> values, ReadLabels(labels, rules));
    return std::make_shared<NpySource>(spec, std::move(labels), std::move(values));
  };
  return header;
}

absl::StatusOr<std::shared_ptr<const SampleSource>> Open(const proto::Data& data, DataPart part,
                                                         const LabelRules& rules) {
  TETHYS_ASSIGN_OR_RETURN(Pair pair, OpenPair(data, part, rules, NpyExtent::kValues));
  TETHYS_ASSIGN_OR_RETURN(std::vector<int32_t> labels, ReadLabels(pair.labels, rules));
  return std::make_shared<NpySource>(std::move(pair.spec), std::move(pair.images), std::move(labels));
}

absl::Status CheckLabels(const proto::Data& data, DataPart part, const LabelRules& rules) {
  const std::string& path = PathsOf(data, part).labels;
  TETHYS_ASSIGN_OR_RETURN(const NpyArray header, OpenNpyArray(path, NpyExtent::kHeader));
  TETHYS_ASSIGN_OR_RETURN(const int64_t count, ElementCount(header.shape));
  if (count * header.value_bytes() > kMostLabelsChecked) return absl::OkStatus();
  TETHYS_ASSIGN_OR_RETURN(const NpyArray labels, OpenNpyArray(path, NpyExtent::kValues));
  return ReadLabels(labels, rules).status();
}

}  // namespace

const DataFormat kNpyFormat = {.kind = proto::Data::kNpy,
                               .has = Has,
                               .files = Files,
                               .place = Place,
                               .bytes_held = BytesHeld,
                               .unpacks = Unpacks,
                               .check_labels = CheckLabels,
                               .read_header = ReadHeader,
                               .open = Open};

absl::StatusOr<std::shared_ptr<const SampleSource>> OpenNpySamples(const std::string& path,
                                                                   const LabelFormat& labels) {
  TETHYS_ASSIGN_OR_RETURN(NpyArray images, OpenNpyArray(path, NpyExtent::kValues));
  TETHYS_RETURN_IF_ERROR(CheckImages(path, images));
  SampleSpec spec = SpecOf(images, labels);
  return std::make_shared<NpySource>(std::move(spec), std::move(images), std::vector<int32_t>());
}

}  // namespace tethys
