#include "runtime/data/resized_source.h"

#include <utility>
#include <vector>

#include "runtime/data/picture.h"

namespace tethys {
namespace {

// True if the labels of a sample are a class for each pixel.
bool HasLabelMap(const SampleSpec& spec) {
  return !spec.labels.targets && spec.labels.shape == Shape{spec.shape[0], spec.shape[1]};
}

class ResizedSource final : public SampleSource {
 public:
  ResizedSource(std::shared_ptr<const SampleSource> source, const SampleSpec& spec)
      : SampleSource(spec, source->size()), source_(std::move(source)) {}

  absl::Status Read(int64_t index, uint8_t* values, int32_t* labels) const override {
    thread_local std::vector<uint8_t> own_values;
    thread_local std::vector<int32_t> own_labels;
    const SampleSpec& own = source_->spec();
    const bool maps = labels != nullptr && HasLabelMap(own);
    if (values != nullptr) own_values.resize(own.bytes());
    if (maps) own_labels.resize(own.labels.elements());
    TETHYS_RETURN_IF_ERROR(source_->Read(index, values != nullptr ? own_values.data() : nullptr,
                                         maps ? own_labels.data() : labels));
    if (values != nullptr) {
      const Shape from = WithChannels(own.shape), to = WithChannels(spec().shape);
      if (own.type == ValueType::kFloat) {
        ResizePixels(reinterpret_cast<const float*>(own_values.data()), from, to,
                     reinterpret_cast<float*>(values));
      } else {
        ResizePixels(own_values.data(), from, to, values);
      }
    }
    if (maps) ResizeLabels(own_labels.data(), own.labels.shape, spec().labels.shape, labels);
    return absl::OkStatus();
  }

 private:
  const std::shared_ptr<const SampleSource> source_;
};

}  // namespace

absl::StatusOr<SampleSpec> ResizedSpec(const proto::Data& data, const SampleSpec& spec) {
  if (!data.has_resize()) return spec;
  if (spec.shape.size() != 2 && spec.shape.size() != 3) {
    return absl::InvalidArgumentError(absl::StrCat(
        "data.resize is for images [height, width] or [height, width, channels], but samples are ",
        ShapeText(spec.shape), ": remove data.resize"));
  }
  SampleSpec resized = spec;
  resized.shape[0] = data.resize().height();
  resized.shape[1] = data.resize().width();
  if (HasLabelMap(spec)) resized.labels.shape = {resized.shape[0], resized.shape[1]};
  return resized;
}

std::shared_ptr<const SampleSource> Resized(std::shared_ptr<const SampleSource> source,
                                            const SampleSpec& spec) {
  if (source->spec() == spec) return source;
  return std::make_shared<ResizedSource>(std::move(source), spec);
}

}  // namespace tethys
