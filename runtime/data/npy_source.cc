// NumPy arrays in .npy files (numpy.lib.format, versions 1 to 3):
//
//   "\x93NUMPY", u8 major, u8 minor, u16 or (from version 2) u32 length, little-endian, of the header,
//   the header: "{'descr': '|u1', 'fortran_order': False, 'shape': (60000, 28, 28), }", then the values
//
// Values of samples stay in their file; labels are held in memory.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <iterator>
#include <type_traits>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "runtime/data/byte_source.h"
#include "runtime/data/formats.h"

namespace tethys {
namespace {

constexpr absl::string_view kMagic = "\x93NUMPY";
constexpr int64_t kMaxHeader = 1 << 16;
constexpr int kMaxAxes = 8;

// An array, whose values begin at byte `begin` of its file.
struct Array {
  std::shared_ptr<const ByteSource> file;
  std::string type;  // NumPy's, such as "<i8".
  Shape shape;
  int64_t begin = 0;

  int64_t value_bytes() const { return type.back() - '0'; }
};

absl::Status NotAnArray(const std::string& path, absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": ", why, ": write the array with numpy.save(path, array)"));
}

// What follows "'key':" in the header; empty if the key is not there.
absl::string_view After(absl::string_view header, absl::string_view key) {
  const size_t at = header.find(absl::StrCat("'", key, "':"));
  if (at == absl::string_view::npos) return {};
  return absl::StripLeadingAsciiWhitespace(header.substr(at + key.size() + 3));
}

// What lies between the first character, which must be `open`, and the next `close`.
absl::string_view Between(absl::string_view text, char open, char close) {
  if (text.empty() || text[0] != open) return {};
  const size_t end = text.find(close, 1);
  return end == absl::string_view::npos ? absl::string_view() : text.substr(1, end - 1);
}

absl::StatusOr<Shape> ParseShape(const std::string& path, absl::string_view header) {
  Shape shape;
  const absl::string_view tuple = Between(After(header, "shape"), '(', ')');
  for (const absl::string_view word : absl::StrSplit(tuple, ',', absl::SkipWhitespace())) {
    int64_t axis = 0;
    if (!absl::SimpleAtoi(word, &axis) || axis < 0) return NotAnArray(path, "its shape cannot be read");
    if (axis == 0) return NotAnArray(path, "the array is empty");
    shape.push_back(axis);
  }
  if (shape.empty()) return NotAnArray(path, "the array has no axis of samples");
  if (shape.size() > kMaxAxes) return NotAnArray(path, "the array has more than 8 axes");
  return shape;
}

// Checks that the file holds the values, no more and no fewer.
absl::Status CheckSize(const Array& array) {
  const absl::StatusOr<int64_t> count = ElementCount(array.shape);
  const int64_t held = array.file->size() - array.begin;
  if (count.ok() && held % array.value_bytes() == 0 && *count == held / array.value_bytes()) {
    return absl::OkStatus();
  }
  return absl::DataLossError(absl::StrCat(
      array.file->name(), ": the header announces ", ShapeText(array.shape), " of ", array.value_bytes(),
      " bytes each, but ", held, " bytes follow it: the file is truncated or damaged"));
}

absl::StatusOr<Array> OpenArray(const std::string& path) {
  Array array;
  TETHYS_ASSIGN_OR_RETURN(array.file, OpenFile(path));
  std::array<uint8_t, 12> start = {};
  const auto given = std::min<int64_t>(array.file->size(), start.size());
  TETHYS_RETURN_IF_ERROR(array.file->ReadAt(0, {start.data(), static_cast<size_t>(given)}));
  if (given < 10 || std::memcmp(start.data(), kMagic.data(), kMagic.size()) != 0) {
    return NotAnArray(
        path, start[0] == 'P' && start[1] == 'K' ? "an .npz archive, not an .npy file" : "not an .npy file");
  }
  const int major = start[6];
  if (major < 1 || major > 3)
    return NotAnArray(path, absl::StrCat("version ", major, " of the format is unknown"));
  array.begin = major == 1 ? 10 : 12;
  int64_t length = start[8] | start[9] << 8;
  if (major > 1) length |= int64_t{start[10]} << 16 | int64_t{start[11]} << 24;
  if (length > kMaxHeader || length > array.file->size() - array.begin) {
    return NotAnArray(path,
                      absl::StrCat("a header of ", length, " bytes is longer than the file or than any"));
  }
  std::string header(static_cast<size_t>(length), '\0');
  TETHYS_RETURN_IF_ERROR(
      array.file->ReadAt(array.begin, {reinterpret_cast<uint8_t*>(header.data()), header.size()}));
  array.begin += length;
  array.type = std::string(Between(After(header, "descr"), '\'', '\''));
  if (array.type.find('O') != std::string::npos) {
    return NotAnArray(path, "it holds pickled objects, which can run programs when they are read");
  }
  static constexpr const char* kTypes[] = {"|u1", "|i1", "<u2", "<i2", "<u4", "<i4", "<u8", "<i8", "<f4"};
  if (std::find(std::begin(kTypes), std::end(kTypes), array.type) == std::end(kTypes)) {
    return NotAnArray(path, absl::StrCat("values of type ", array.type.empty() ? "(none)" : array.type,
                                         " are not read (integers or '<f4' are)"));
  }
  if (!absl::StartsWith(After(header, "fortran_order"), "False")) {
    return NotAnArray(path, "the array is in Fortran's order (convert it with numpy.ascontiguousarray)");
  }
  TETHYS_ASSIGN_OR_RETURN(array.shape, ParseShape(path, header));
  TETHYS_RETURN_IF_ERROR(CheckSize(array));
  return array;
}

// ------------------------------------------------------------------------------------------ the format

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

std::string Place(const proto::Data& data) { return FolderOf(data.npy().train_images()); }

absl::StatusOr<std::vector<std::string>> Files(const proto::Data& data, DataPart part) {
  const Paths paths = PathsOf(data, part);
  return std::vector<std::string>{paths.images, paths.labels};
}

int64_t BytesHeld(const SampleSpec& spec) {
  return spec.labels.elements() * static_cast<int64_t>(sizeof(int32_t));
}

// Samples and their labels, whose types are checked.
struct Pair {
  Array images, labels;
  SampleSpec spec;
};

absl::StatusOr<Pair> OpenPair(const proto::Data& data, DataPart part, const LabelRules& rules) {
  const Paths paths = PathsOf(data, part);
  Pair pair;
  TETHYS_ASSIGN_OR_RETURN(pair.images, OpenArray(paths.images));
  TETHYS_ASSIGN_OR_RETURN(pair.labels, OpenArray(paths.labels));
  const Shape &images = pair.images.shape, &labels = pair.labels.shape;
  if (pair.images.type != "|u1" || images.size() < 3) {
    return absl::InvalidArgumentError(absl::StrCat(
        paths.images, ": an array ", ShapeText(images), " of type ", pair.images.type,
        ": samples must be bytes (numpy.uint8), [samples, height, width] or with channels behind these"));
  }
  if ((pair.labels.type == "<f4") != rules.targets) {
    return absl::InvalidArgumentError(absl::StrCat(
        paths.labels, ": values of type ", pair.labels.type, ", but model.loss takes ",
        rules.targets ? "targets: store them as numpy.float32" : "classes: store them as integers"));
  }
  if (images[0] != labels[0]) {
    return absl::InvalidArgumentError(absl::StrCat(paths.images, " holds ", images[0], " samples but ",
                                                   paths.labels, " ", labels[0],
                                                   " labels: the two files do not belong together"));
  }
  pair.spec = {.shape = Shape(images.begin() + 1, images.end()),
               .labels = {.shape = Shape(labels.begin() + 1, labels.end()), .targets = rules.targets}};
  return pair;
}

class NpySource final : public SampleSource {
 public:
  NpySource(Pair pair, std::vector<int32_t> labels)
      : SampleSource(std::move(pair.spec), pair.images.shape[0]),
        images_(std::move(pair.images)),
        labels_(std::move(labels)) {}

  absl::Status Read(int64_t index, uint8_t* values, int32_t* labels) const override {
    if (labels != nullptr) {
      const int64_t each = spec().labels.elements();
      std::copy_n(labels_.begin() + index * each, each, labels);
    }
    if (values == nullptr) return absl::OkStatus();
    const int64_t each = spec().elements();
    return images_.file->ReadAt(images_.begin + index * each, {values, static_cast<size_t>(each)});
  }

 private:
  const Array images_;
  const std::vector<int32_t> labels_;
};

template <typename Value>
int64_t ValueAt(const uint8_t* bytes) {
  Value value;
  std::memcpy(&value, bytes, sizeof(value));
  // What does not fit becomes a number that no job accepts.
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

// The label as the source holds it. `sample` is for errors.
absl::StatusOr<int32_t> LabelAt(const Array& array, const uint8_t* bytes, int64_t sample,
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
  return absl::InvalidArgumentError(absl::StrCat(
      array.file->name(), ": label ", label == INT64_MAX ? "(too large)" : absl::StrCat(label), " of sample ",
      sample, " is outside the ", rules.classes, " classes of data.classes (0 to ", rules.classes - 1, ")"));
}

absl::StatusOr<std::vector<int32_t>> ReadLabels(const Array& array, const LabelRules& rules) {
  constexpr int64_t kBlock = 1 << 16;  // Values.
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
  TETHYS_ASSIGN_OR_RETURN(const Pair pair, OpenPair(data, part, rules));
  return DataHeader{.samples = pair.images.shape[0],
                    .spec = pair.spec,
                    .values_name = pair.images.file->name(),
                    .labels_name = pair.labels.file->name()};
}

absl::StatusOr<std::shared_ptr<const SampleSource>> Open(const proto::Data& data, DataPart part,
                                                         const LabelRules& rules) {
  TETHYS_ASSIGN_OR_RETURN(Pair pair, OpenPair(data, part, rules));
  TETHYS_ASSIGN_OR_RETURN(std::vector<int32_t> labels, ReadLabels(pair.labels, rules));
  return std::make_shared<NpySource>(std::move(pair), std::move(labels));
}

}  // namespace

const DataFormat kNpyFormat = {.kind = proto::Data::kNpy,
                               .has = Has,
                               .files = Files,
                               .place = Place,
                               .bytes_held = BytesHeld,
                               .read_header = ReadHeader,
                               .open = Open};

}  // namespace tethys
