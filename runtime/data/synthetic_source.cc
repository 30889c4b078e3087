// Samples that are computed from their numbers, so that no sample is read from a file or held in memory. All
// arithmetic is in integers, so that every machine computes the same bytes.
#include <algorithm>
#include <cstring>
#include <vector>

#include "runtime/base/philox.h"
#include "runtime/data/formats.h"

namespace tethys {
namespace {

constexpr char kName[] = "data.synthetic";

// Random numbers that are a function of the data's seed, the part and the sample.
class Draws {
 public:
  Draws(PhiloxKey key, int64_t sample) : key_(key), sample_(sample) {}

  uint32_t Next() {
    if (used_ == 4) {
      block_ = Philox4x32(key_, static_cast<uint64_t>(sample_), next_block_++);
      used_ = 0;
    }
    return block_.words[used_++];
  }
  // A number that is uniform in [low, high].
  int64_t Between(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(uint64_t{Next()} * static_cast<uint64_t>(high - low + 1) >> 32);
  }
  void Fill(uint8_t* out, int64_t size) {
    for (int64_t done = 0; done < size; done += sizeof(PhiloxBlock)) {
      const PhiloxBlock block = Philox4x32(key_, static_cast<uint64_t>(sample_), next_block_++);
      std::memcpy(out + done, block.words, std::min<int64_t>(size - done, sizeof(block)));
    }
  }

 private:
  const PhiloxKey key_;
  const int64_t sample_;
  uint64_t next_block_ = 0;
  PhiloxBlock block_ = {};
  int used_ = 4;
};

PhiloxKey KeyOf(const proto::Synthetic& fields, DataPart part) {
  return {.low = fields.seed(), .high = part == DataPart::kTrain ? 0x7261696eu : 0x74657374u};
}

// ------------------------------------------------------------------------------------------ noise

class NoiseSource final : public SampleSource {
 public:
  NoiseSource(SampleSpec spec, int64_t samples, PhiloxKey key, int64_t classes)
      : SampleSource(std::move(spec), samples), key_(key), classes_(classes) {}

  absl::Status Read(int64_t index, uint8_t* values, int32_t* labels) const override {
    Draws draws(key_, index);
    const int64_t label = draws.Between(0, classes_ - 1);
    if (labels != nullptr) *labels = static_cast<int32_t>(label);
    if (values != nullptr) draws.Fill(values, spec().elements());
    return absl::OkStatus();
  }

 private:
  const PhiloxKey key_;
  const int64_t classes_;
};

// ------------------------------------------------------------------------------------------ sections

constexpr int64_t kUnit = 256;  // Depths are in 1/256 of a pixel.

// The layers of one section: beds of random thickness, folded, tilted and cut by a fault.
class Geology {
 public:
  Geology(Draws& draws, int64_t height, int64_t width, int64_t classes)
      : width_(width), first_class_(draws.Between(0, classes - 1)), classes_(classes) {
    int64_t bottom = 0;
    const int64_t thinnest = height * kUnit / (2 * classes), thickest = 3 * thinnest;
    for (int64_t layer = 0; layer < classes; ++layer) {
      bottom += std::max(draws.Between(thinnest, thickest), kUnit);
      bottoms_.push_back(bottom);
    }
    start_ = draws.Between(0, bottom - 1);
    tilt_ = draws.Between(-height * kUnit / 4, height * kUnit / 4);
    fold_ = draws.Between(0, height * kUnit / 8);
    folds_ = draws.Between(1, 3);
    phase_ = draws.Between(0, kTurn - 1);
    fault_ = draws.Between(width / 4, width - width / 4);
    slope_ = draws.Between(-kUnit, kUnit);
    throw_ = draws.Between(height * kUnit / 16, height * kUnit / 4) * (draws.Next() % 2 == 0 ? 1 : -1);
  }

  int32_t ClassAt(int64_t y, int64_t x) const {
    int64_t depth = start_ + y * kUnit + tilt_ * x / width_ + fold_ * Wave(x) / kUnit;
    if (x * kUnit > fault_ * kUnit + slope_ * y) depth += throw_;
    depth = (depth % bottoms_.back() + bottoms_.back()) % bottoms_.back();
    const auto layer = std::upper_bound(bottoms_.begin(), bottoms_.end(), depth) - bottoms_.begin();
    return static_cast<int32_t>((first_class_ + layer) % classes_);
  }

 private:
  static constexpr int64_t kTurn = 4 * kUnit;

  // A wave of parabolas from -kUnit to kUnit, close to a sine.
  int64_t Wave(int64_t x) const {
    const int64_t angle = (phase_ + folds_ * kTurn * x / width_) % kTurn;
    const int64_t half = angle % (kTurn / 2);
    const int64_t height = 4 * half * (kTurn / 2 - half) / (kTurn / 2) * kUnit / (kTurn / 2);
    return angle < kTurn / 2 ? height : -height;
  }

  const int64_t width_, first_class_, classes_;
  std::vector<int64_t> bottoms_;
  int64_t start_ = 0, tilt_ = 0, fold_ = 0, folds_ = 1, phase_ = 0, fault_ = 0, slope_ = 0, throw_ = 0;
};

class SectionsSource final : public SampleSource {
 public:
  SectionsSource(SampleSpec spec, int64_t samples, PhiloxKey key, int64_t classes)
      : SampleSource(std::move(spec), samples), key_(key), classes_(classes) {}

  absl::Status Read(int64_t index, uint8_t* values, int32_t* labels) const override {
    Draws draws(key_, index);
    const int64_t height = spec().shape[0], width = spec().shape[1];
    const Geology geology(draws, height, width, classes_);
    if (values != nullptr) draws.Fill(values, height * width);
    for (int64_t pixel = 0; pixel < height * width; ++pixel) {
      const int32_t label = geology.ClassAt(pixel / width, pixel % width);
      if (labels != nullptr) labels[pixel] = label;
      // Grey values from 32 to 223, one step per class, with noise of -32 to 31: the values of neighbouring
      // classes overlap.
      if (values != nullptr) {
        const int64_t grey = 32 + label * 191 / std::max<int64_t>(classes_ - 1, 1);
        values[pixel] = static_cast<uint8_t>(grey + values[pixel] / 4 - 32);
      }
    }
    return absl::OkStatus();
  }

 private:
  const PhiloxKey key_;
  const int64_t classes_;
};

// ------------------------------------------------------------------------------------------ the format

int64_t SamplesOf(const proto::Data& data, DataPart part) {
  return part == DataPart::kTrain ? data.synthetic().train_samples() : data.synthetic().test_samples();
}

bool Has(const proto::Data& data, DataPart part) { return SamplesOf(data, part) > 0; }

absl::StatusOr<std::vector<std::string>> Files(const proto::Data&, DataPart) {
  return std::vector<std::string>();
}

std::string Place(const proto::Data& data) {
  return data.synthetic().has_sections() ? "synthetic sections" : "synthetic noise";
}

int64_t BytesHeld(const proto::Data&, const SampleSpec&) { return 0; }

SampleSpec SpecOf(const proto::Synthetic& fields) {
  if (!fields.has_sections()) {
    const auto& shape = fields.noise().shape();
    return {.shape = Shape(shape.begin(), shape.end()), .labels = {}};
  }
  const Shape shape = {fields.sections().height(), fields.sections().width()};
  return {.shape = shape, .labels = {.shape = shape}};
}

absl::StatusOr<DataHeader> ReadHeader(const proto::Data& data, DataPart part, const LabelRules& rules) {
  TETHYS_RETURN_IF_ERROR(rules.CheckTakeClasses("data.synthetic"));
  return DataHeader{.samples = SamplesOf(data, part),
                    .spec = SpecOf(data.synthetic()),
                    .values_name = kName,
                    .labels_name = kName};
}

absl::StatusOr<std::shared_ptr<const SampleSource>> Open(const proto::Data& data, DataPart part,
                                                         const LabelRules& rules) {
  TETHYS_ASSIGN_OR_RETURN(DataHeader header, ReadHeader(data, part, rules));
  const PhiloxKey key = KeyOf(data.synthetic(), part);
  if (data.synthetic().has_sections()) {
    return std::make_shared<SectionsSource>(std::move(header.spec), header.samples, key, rules.classes);
  }
  return std::make_shared<NoiseSource>(std::move(header.spec), header.samples, key, rules.classes);
}

}  // namespace

const DataFormat kSyntheticFormat = {.kind = proto::Data::kSynthetic,
                                     .has = Has,
                                     .files = Files,
                                     .place = Place,
                                     .bytes_held = BytesHeld,
                                     .read_header = ReadHeader,
                                     .open = Open};

}  // namespace tethys
