// Data in IDX files: one file has the images, another file has the labels. Both are held in memory.
#include "runtime/data/idx_source.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "runtime/data/finite_values.h"
#include "runtime/data/formats.h"
#include "runtime/data/idx.h"

namespace tethys {
namespace {

// A pair of files that the job names.
struct Files {
  const std::string& images;
  const std::string& labels;
};

Files FilesOf(const proto::Data& data, DataPart part) {
  const proto::Idx& idx = data.idx();
  return part == DataPart::kTrain ? Files{idx.train_images(), idx.train_labels()}
                                  : Files{idx.test_images(), idx.test_labels()};
}

IdxKind KindOf(const LabelRules& rules) { return rules.targets ? IdxKind::kTargets : IdxKind::kLabels; }

Shape ShapeOfOne(const Shape& all) { return Shape(all.begin() + 1, all.end()); }

SampleSpec SpecOf(const IdxHeader& images, const IdxHeader& labels, const LabelRules& rules) {
  return {.shape = ShapeOfOne(images.shape),
          .labels = {.shape = ShapeOfOne(labels.shape), .targets = rules.targets},
          .type = images.type};
}

absl::Status CheckClasses(const Files& files, const IdxArray& labels, const LabelRules& rules) {
  const int64_t each = labels.values.size() / labels.header.shape[0];
  for (int64_t i = 0; i < labels.values.size(); ++i) {
    const int label = labels.values.data()[i];
    if (rules.Accepts(label)) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        files.labels, ": label ", label, " of sample ", i / each, " is ", rules.OutsideText(),
        each > 1
            ? "; if the loss is to ignore this label, name the label in softmax_cross_entropy.ignore_label"
            : ""));
  }
  return absl::OkStatus();
}

absl::Status CheckTargets(const Files& files, const IdxArray& labels) {
  const auto* values = reinterpret_cast<const float*>(labels.values.data());
  const int64_t count = labels.values.size() / static_cast<int64_t>(sizeof(float));
  const float* const bad = std::find_if(values, values + count, [](float v) { return !std::isfinite(v); });
  if (bad == values + count) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(files.labels, ": a target of sample ",
                                                 (bad - values) / (count / labels.header.shape[0]), " is ",
                                                 *bad, ": targets must be finite"));
}

// Checks that the values of the samples are finite, if they are floats.
absl::Status CheckValues(const std::string& path, const IdxArray& images) {
  if (images.header.type == ValueType::kByte) return absl::OkStatus();
  const int64_t samples = images.header.shape[0];
  const int64_t each = images.values.size() / samples / static_cast<int64_t>(sizeof(float));
  const auto* values = reinterpret_cast<const float*>(images.values.data());
  for (int64_t i = 0; i < samples; ++i) {
    TETHYS_RETURN_IF_ERROR(CheckFinite({values + i * each, static_cast<size_t>(each)},
                                       [&] { return absl::StrCat(path, ", sample ", i); }));
  }
  return absl::OkStatus();
}

class IdxSource final : public SampleSource {
 public:
  // `labels` may be empty: then every label is 0.
  IdxSource(SampleSpec spec, IdxArray images, ByteBuffer labels)
      : SampleSource(std::move(spec), images.header.shape[0]),
        bytes_(this->spec().bytes()),
        label_elements_(this->spec().labels.elements()),
        images_(std::move(images.values)),
        labels_(std::move(labels)) {}

  absl::Status Read(int64_t index, uint8_t* values, int32_t* labels) const override {
    if (values != nullptr) std::memcpy(values, images_.data() + index * bytes_, bytes_);
    if (labels == nullptr) return absl::OkStatus();
    if (labels_.size() == 0) {
      std::fill_n(labels, label_elements_, 0);
    } else if (spec().labels.targets) {
      const auto bytes = label_elements_ * static_cast<int64_t>(sizeof(float));
      std::memcpy(labels, labels_.data() + index * bytes, bytes);
    } else {
      std::copy_n(labels_.data() + index * label_elements_, label_elements_, labels);
    }
    return absl::OkStatus();
  }

 private:
  const int64_t bytes_, label_elements_;
  const ByteBuffer images_;  // [size, sample bytes]
  const ByteBuffer labels_;  // [size, label elements]: bytes or float32 targets.
};

// A source of labels without values.
class LabelSource final : public SampleSource {
 public:
  LabelSource(SampleSpec spec, IdxArray labels)
      : SampleSource(std::move(spec), labels.header.shape[0]), labels_(std::move(labels.values)) {}

  absl::Status Read(int64_t index, uint8_t*, int32_t* labels) const override {
    const int64_t each = labels_.size() / size();
    std::copy_n(labels_.data() + index * each, each, labels);
    return absl::OkStatus();
  }

 private:
  const ByteBuffer labels_;  // The labels, which are classes.
};

bool Has(const proto::Data& data, DataPart part) { return !FilesOf(data, part).images.empty(); }

absl::StatusOr<std::vector<std::string>> Paths(const proto::Data& data, DataPart part) {
  const Files files = FilesOf(data, part);
  return std::vector<std::string>{files.images, files.labels};
}

absl::StatusOr<DataHeader> ReadHeader(const proto::Data& data, DataPart part, const LabelRules& rules) {
  const Files files = FilesOf(data, part);
  TETHYS_ASSIGN_OR_RETURN(const IdxHeader images, ReadIdxHeader(files.images, IdxKind::kImages));
  TETHYS_ASSIGN_OR_RETURN(const IdxHeader labels, ReadIdxHeader(files.labels, KindOf(rules)));
  TETHYS_RETURN_IF_ERROR(CheckSameCount(files.images, images.shape[0], files.labels, labels.shape[0]));
  DataHeader header = {.samples = images.shape[0],
                       .spec = SpecOf(images, labels, rules),
                       .values_name = files.images,
                       .labels_name = files.labels};
  header.open_labels = [spec = header.spec, path = files.labels,
                        rules]() -> absl::StatusOr<std::shared_ptr<const SampleSource>> {
    TETHYS_ASSIGN_OR_RETURN(IdxArray array, ReadIdx(path, KindOf(rules)));
    return std::make_shared<LabelSource>(spec, std::move(array));
  };
  return header;
}

int64_t BytesHeld(const proto::Data&, const SampleSpec& spec) {
  const auto label_bytes = static_cast<int64_t>(spec.labels.targets ? sizeof(float) : sizeof(uint8_t));
  return spec.bytes() + spec.labels.elements() * label_bytes;
}

// IDX files count as files to be unpacked, because most are gzipped, and their values are held in memory.
bool Unpacks(const proto::Data&, DataPart) { return true; }

std::string Place(const proto::Data& data) { return FolderOf(data.idx().train_images()); }

absl::StatusOr<std::shared_ptr<const SampleSource>> Open(const proto::Data& data, DataPart part,
                                                         const LabelRules& rules) {
  const Files files = FilesOf(data, part);
  // Labels are read first: their file is small, and a mistake in it is found before the large file is read.
  TETHYS_ASSIGN_OR_RETURN(IdxArray labels, ReadIdx(files.labels, KindOf(rules)));
  TETHYS_RETURN_IF_ERROR(rules.targets ? CheckTargets(files, labels) : CheckClasses(files, labels, rules));
  TETHYS_ASSIGN_OR_RETURN(IdxArray images, ReadIdx(files.images, IdxKind::kImages));
  TETHYS_RETURN_IF_ERROR(
      CheckSameCount(files.images, images.header.shape[0], files.labels, labels.header.shape[0]));
  TETHYS_RETURN_IF_ERROR(CheckValues(files.images, images));
  SampleSpec spec = SpecOf(images.header, labels.header, rules);
  return std::make_shared<IdxSource>(std::move(spec), std::move(images), std::move(labels.values));
}

absl::Status CheckLabels(const proto::Data& data, DataPart part, const LabelRules& rules) {
  const Files files = FilesOf(data, part);
  TETHYS_ASSIGN_OR_RETURN(const IdxHeader header, ReadIdxHeader(files.labels, KindOf(rules)));
  TETHYS_ASSIGN_OR_RETURN(const int64_t count, ElementCount(header.shape));
  if (count * BytesOf(header.type) > kMostLabelsChecked) return absl::OkStatus();
  TETHYS_ASSIGN_OR_RETURN(const IdxArray labels, ReadIdx(files.labels, KindOf(rules)));
  return rules.targets ? CheckTargets(files, labels) : CheckClasses(files, labels, rules);
}

}  // namespace

const DataFormat kIdxFormat = {.kind = proto::Data::kIdx,
                               .has = Has,
                               .files = Paths,
                               .place = Place,
                               .bytes_held = BytesHeld,
                               .unpacks = Unpacks,
                               .check_labels = CheckLabels,
                               .read_header = ReadHeader,
                               .open = Open};

absl::StatusOr<std::shared_ptr<const SampleSource>> OpenIdxImages(const std::string& path,
                                                                  const LabelFormat& labels) {
  TETHYS_ASSIGN_OR_RETURN(IdxArray images, ReadIdx(path, IdxKind::kImages));
  TETHYS_RETURN_IF_ERROR(CheckValues(path, images));
  SampleSpec spec = {.shape = ShapeOfOne(images.header.shape), .labels = labels, .type = images.header.type};
  return std::make_shared<IdxSource>(std::move(spec), std::move(images), ByteBuffer());
}

}  // namespace tethys
