#include "runtime/data/augmentation.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "runtime/base/random.h"
#include "runtime/data/label_rules.h"

namespace tethys {
namespace {

// An image, or a map of labels, that is changed in place.
template <typename T>
struct Image {
  T* values;  // [height, width, channels]
  int64_t height, width, channels;

  T* At(int64_t y, int64_t x) const { return values + (y * width + x) * channels; }
};

// Moves the image so that pixel (y, x) gets the value of pixel (y + down, x + right). If that pixel lies
// outside the image, the value becomes `fill`.
template <typename T>
void Shift(const Image<T>& image, int64_t down, int64_t right, T fill) {
  const int64_t kept = image.width - std::abs(right);
  const auto shift_row = [&](int64_t y) {
    if (y + down < 0 || y + down >= image.height) {
      std::fill(image.At(y, 0), image.At(y + 1, 0), fill);
      return;
    }
    T* const to = image.At(y, std::max<int64_t>(0, -right));
    std::memmove(to, image.At(y + down, std::max<int64_t>(0, right)), kept * image.channels * sizeof(T));
    std::fill(image.At(y, 0), to, fill);
    std::fill(to + kept * image.channels, image.At(y + 1, 0), fill);
  };
  // Shifts the rows in an order in which no row is overwritten before it is read.
  if (down >= 0) {
    for (int64_t y = 0; y < image.height; ++y) shift_row(y);
  } else {
    for (int64_t y = image.height - 1; y >= 0; --y) shift_row(y);
  }
}

template <typename T>
void Mirror(const Image<T>& image) {
  for (int64_t y = 0; y < image.height; ++y) {
    for (int64_t x = 0; x < image.width / 2; ++x) {
      std::swap_ranges(image.At(y, x), image.At(y, x + 1), image.At(y, image.width - 1 - x));
    }
  }
}

// Fills the square around (y, x), as far as the square lies in the image. If `size` is even, the square has
// one more row above (y, x) than below, and one more column left of (y, x) than right of it.
template <typename T>
void Cut(const Image<T>& image, int64_t y, int64_t x, int64_t size, const std::vector<float>& fill) {
  const int64_t left = std::max<int64_t>(0, x - size / 2);
  const int64_t right = std::min(image.width, x - size / 2 + size);
  const int64_t bottom = std::min(image.height, y - size / 2 + size);
  for (int64_t row = std::max<int64_t>(0, y - size / 2); row < bottom; ++row) {
    for (int64_t column = left; column < right; ++column) {
      std::transform(fill.begin(), fill.end(), image.At(row, column),
                     [](float v) { return static_cast<T>(v); });
    }
  }
}

absl::Status CheckLabels(const proto::Job& job, const SampleSpec& spec) {
  const LabelRules rules = LabelRulesOf(job);
  if (rules.targets) {
    return absl::InvalidArgumentError(
        "data.augment changes images, but model.loss is the mean squared error, and its targets cannot be "
        "changed with the images: remove augment");
  }
  if (spec.labels.shape.empty()) return absl::OkStatus();
  if (!std::equal(spec.labels.shape.begin(), spec.labels.shape.end(), spec.shape.begin(),
                  spec.shape.begin() + 2)) {
    return absl::InvalidArgumentError(absl::StrCat("data.augment: the maps of labels are ",
                                                   ShapeText(spec.labels.shape), ", but the images are ",
                                                   ShapeText(spec.shape), ": remove augment"));
  }
  if (!job.data().augment().has_random_crop() || rules.ignored >= 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "data.augment.random_crop pads maps of labels, too: name the label that the loss ignores, "
      "model.loss.softmax_cross_entropy.ignore_label");
}

}  // namespace

absl::Status CheckAugmentation(const proto::Job& job, const SampleSpec& spec) {
  if (!job.data().has_augment()) return absl::OkStatus();
  if (spec.shape.size() != 2 && spec.shape.size() != 3) {
    return absl::InvalidArgumentError(absl::StrCat("data.augment changes images, but the samples are ",
                                                   ShapeText(spec.shape), ": remove augment"));
  }
  const proto::Augment& augment = job.data().augment();
  const int64_t side = std::min(spec.shape[0], spec.shape[1]);
  const auto too_large = [&](absl::string_view field, int64_t value, int64_t most) {
    return absl::InvalidArgumentError(absl::StrCat("data.augment.", field, " is ", value, ", but images are ",
                                                   ShapeText(spec.shape), ": it may be at most ", most));
  };
  if (augment.random_crop().pad() > side / 2) {
    return too_large("random_crop.pad", augment.random_crop().pad(), side / 2);
  }
  if (augment.cutout().size() > side) return too_large("cutout.size", augment.cutout().size(), side);
  return CheckLabels(job, spec);
}

Augmentation::Augmentation(const proto::Job& job, const SampleSpec& spec, const InputScaling& scaling)
    : config_(job.data().augment()),
      seed_(job.seed()),
      type_(spec.type),
      height_(spec.shape[0]),
      width_(spec.shape[1]),
      channels_(spec.channels()),
      label_maps_(!spec.labels.shape.empty()),
      ignored_label_(LabelRulesOf(job).ignored) {
  for (int64_t channel = 0; channel < channels_; ++channel) {
    const float mean = scaling.mean[channel % scaling.channels()];
    const bool bytes = type_ == ValueType::kByte;
    mean_.push_back(bytes ? std::clamp(std::round(mean * 255), 0.0f, 255.0f) : mean);
  }
}

void Augmentation::Apply(int64_t job_position, uint8_t* values, int32_t* labels) const {
  if (type_ == ValueType::kFloat) return ApplyTo(job_position, reinterpret_cast<float*>(values), labels);
  ApplyTo(job_position, values, labels);
}

template <typename T>
void Augmentation::ApplyTo(int64_t job_position, T* values, int32_t* labels) const {
  RandomStream random(seed_, RandomPurpose::kAugment, job_position);
  const Image<T> image = {values, height_, width_, channels_};
  const Image<int32_t> map = {labels, height_, width_, 1};
  if (config_.has_random_crop()) {
    const int32_t pad = config_.random_crop().pad();
    const int64_t down = int64_t{random.NextBelow(2 * pad + 1)} - pad;
    const int64_t right = int64_t{random.NextBelow(2 * pad + 1)} - pad;
    Shift<T>(image, down, right, 0);
    if (label_maps_) Shift(map, down, right, ignored_label_);
  }
  if (config_.flip_horizontal() && random.NextBelow(2) == 1) {
    Mirror(image);
    if (label_maps_) Mirror(map);
  }
  if (config_.has_cutout()) {
    const int64_t y = random.NextBelow(static_cast<uint32_t>(height_));
    const int64_t x = random.NextBelow(static_cast<uint32_t>(width_));
    Cut(image, y, x, config_.cutout().size(), mean_);
  }
}

}  // namespace tethys
