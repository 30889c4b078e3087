#include <algorithm>
#include <cmath>
#include <vector>

#include "runtime/device/cpu/flush_denormals.h"
#include "runtime/device/cpu/parallel.h"
#include "runtime/device/cpu/primitives.h"
#include "runtime/device/normalisation_formulas.h"

namespace tethys::cpu {
namespace {

// For each channel, the mean and the sum of squared deviations of `count` values, in double precision.
struct Moments {
  int64_t count = 0;
  std::vector<double> means;
  std::vector<double> squares;

  explicit Moments(int64_t channels) : means(channels), squares(channels) {}

  void Clear() {
    count = 0;
    std::fill(means.begin(), means.end(), 0.0);
    std::fill(squares.begin(), squares.end(), 0.0);
  }

  void Merge(int64_t part_count, const float* part_means, const float* part_squares) {
    const auto before = static_cast<double>(count), part = static_cast<double>(part_count);
    count += part_count;
    for (size_t c = 0; c < means.size(); ++c) {
      MergeMoments(before, part, part_means[c], part_squares[c], means[c], squares[c]);
    }
  }
};

class BatchNormalisation final : public BatchNormalisationPrimitive {
 public:
  BatchNormalisation(const BatchNormalisationShape& shape, const Context& context)
      : shape_(shape),
        worker_sums_(shape.sums),
        threads_(context.threads),
        kernels_(context.kernels),
        block_(std::clamp<int64_t>(kBlockElements / shape.channels, kLeastBlock, kMostBlock)),
        moments_(shape.channels),
        group_begins_(shape.groups + 1),
        counts_(shape.groups),
        means_(shape.groups * shape.channels),
        variances_(means_.size()),
        inverse_deviations_(means_.size()),
        factors_(shape.channels),
        sums_(shape.channels),
        products_(shape.channels),
        block_sums_(AtOnce() * shape.channels),
        block_products_(block_sums_.size()),
        mean_dy_(shape.channels),
        slopes_(shape.channels),
        exchanged_(shape.sums == nullptr ? 0 : 2 * shape.channels) {}

  absl::Status Forward(Stream& stream, const void* x, const float* weights, const ScaleAndOffset& variables,
                       void* y) override {
    const FlushDenormals flush;
    FindGroups(weights);
    for (int64_t g = 0; g < shape_.groups; ++g) {
      MergeMoments(g, Floats(x));
      if (worker_sums_ != nullptr) TETHYS_RETURN_IF_ERROR(MergeWorkers(stream));
      KeepStatistics(g);
      Normalise(g, Floats(x), variables, Floats(y));
    }
    ClearBehindSamples(Floats(y));
    return absl::OkStatus();
  }

  absl::Status Repeat(Stream&, const void* x, const ScaleAndOffset& variables, void* y) override {
    const FlushDenormals flush;
    for (int64_t g = 0; g < shape_.groups; ++g) Normalise(g, Floats(x), variables, Floats(y));
    ClearBehindSamples(Floats(y));
    return absl::OkStatus();
  }

  absl::Status Backward(Stream& stream, const void* x, const ScaleAndOffset& variables, const void* dy,
                        void* dx, float* dscale, float* doffset) override {
    const FlushDenormals flush;
    std::fill_n(dscale, shape_.channels, 0.0f);
    std::fill_n(doffset, shape_.channels, 0.0f);
    for (int64_t g = 0; g < shape_.groups; ++g) {
      const Normalisation normalisation = GroupNormalisation(g, variables);
      SumGradients(g, normalisation, Floats(x), Floats(dy));
      for (int64_t c = 0; c < shape_.channels; ++c) {
        dscale[c] += static_cast<float>(products_[c] * OfGroup(inverse_deviations_, g)[c]);
        doffset[c] += static_cast<float>(sums_[c]);
      }
      if (dx == nullptr) continue;
      if (worker_sums_ != nullptr) TETHYS_RETURN_IF_ERROR(SumGradientsOfWorkers(stream));
      const double count = std::max(counts_[g], 1.0);
      for (int64_t c = 0; c < shape_.channels; ++c) {
        const double inverse = OfGroup(inverse_deviations_, g)[c];
        mean_dy_[c] = static_cast<float>(sums_[c] / count);
        slopes_[c] = static_cast<float>(products_[c] * inverse * inverse / count);
      }
      ForEachPosition(First(g), Positions(g), [&](int64_t first, int64_t positions) {
        kernels_.normalised_gradient(positions, normalisation, mean_dy_.data(), slopes_.data(),
                                     Floats(x) + first, Floats(dy) + first, Floats(dx) + first);
      });
    }
    if (dx != nullptr) ClearBehindSamples(Floats(dx));
    return absl::OkStatus();
  }

  absl::Status Infer(Stream&, const void* x, const float* mean, const float* variance,
                     const ScaleAndOffset& variables, void* y) override {
    const FlushDenormals flush;
    for (int64_t c = 0; c < shape_.channels; ++c) {
      factors_[c] = variables.scale[c] / std::sqrt(variance[c] + shape_.epsilon);
    }
    const Normalisation normalisation = {.channels = shape_.channels,
                                         .mean = mean,
                                         .factor = factors_.data(),
                                         .offset = variables.offset,
                                         .relu = shape_.relu};
    ForEachPosition(0, shape_.rows * shape_.positions, [&](int64_t first, int64_t positions) {
      kernels_.normalise(positions, normalisation, Floats(x) + first, Floats(y) + first);
    });
    return absl::OkStatus();
  }

  absl::Status UpdateMovingStatistics(Stream&, const float* share, const int32_t* refused, float* mean,
                                      float* variance) override {
    if (refused != nullptr && *refused != 0) return absl::OkStatus();
    const double kept = shape_.later_part ? 1 : shape_.decay, added = (1.0 - shape_.decay) * *share;
    for (int64_t c = 0; c < shape_.channels; ++c) {
      double batch_mean = 0, batch_variance = 0;
      for (int64_t g = 0; g < shape_.groups; ++g) {
        const double weight = Weight(g);
        batch_mean += weight * OfGroup(means_, g)[c];
        batch_variance += weight * SampleFactor(counts_[g]) * OfGroup(variances_, g)[c];
      }
      mean[c] = static_cast<float>(kept * mean[c] + added * batch_mean);
      variance[c] = static_cast<float>(kept * variance[c] + added * batch_variance);
    }
    return absl::OkStatus();
  }

  int64_t workspace_bytes() const override { return 0; }

 private:
  // A block is so small that it fits into a cache and that single precision suffices for its sums.
  static constexpr int64_t kBlockElements = 16384;
  static constexpr int64_t kLeastBlock = 64;
  static constexpr int64_t kMostBlock = 256;

  void FindGroups(const float* weights) {
    const int64_t samples =
        std::find_if(weights, weights + shape_.rows, [](float w) { return !(w > 0); }) - weights;
    for (int64_t g = 0; g <= shape_.groups; ++g) group_begins_[g] = GroupBegin(samples, shape_.groups, g);
  }

  int64_t Rows(int64_t group) const { return group_begins_[group + 1] - group_begins_[group]; }
  int64_t Positions(int64_t group) const { return Rows(group) * shape_.positions; }
  // The group's first element.
  int64_t First(int64_t group) const { return group_begins_[group] * shape_.positions * shape_.channels; }
  const float* OfGroup(const std::vector<float>& values, int64_t group) const {
    return values.data() + group * shape_.channels;
  }
  // The group's samples as a share of the batch's samples.
  double Weight(int64_t group) const {
    const int64_t samples = group_begins_[shape_.groups];
    return samples == 0 ? 0 : static_cast<double>(Rows(group)) / static_cast<double>(samples);
  }
  // The number of blocks whose sums are kept until they are merged.
  int64_t AtOnce() const { return threads_ == 1 ? 1 : 16 * threads_; }
  // Calls sum(first element, positions, sums, products) for blocks of the group, on the device's threads, and
  // then merge(positions, sums, products) in the order of the blocks, so that the result has the same bits
  // with any number of threads.
  template <typename Sum, typename Merge>
  void ForEachBlock(int64_t group, const Sum& sum, const Merge& merge) {
    const int64_t channels = shape_.channels, positions = Positions(group);
    const auto in_block = [&](int64_t block) { return std::min(block_, positions - block * block_); };
    const int64_t blocks = (positions + block_ - 1) / block_;
    for (int64_t first = 0; first < blocks; first += AtOnce()) {
      const int64_t count = std::min(AtOnce(), blocks - first);
      ForEachPart(threads_, count, 1, [&](int64_t begin, int64_t end) {
        for (int64_t k = begin; k < end; ++k) {
          sum(First(group) + (first + k) * block_ * channels, in_block(first + k),
              block_sums_.data() + k * channels, block_products_.data() + k * channels);
        }
      });
      for (int64_t k = 0; k < count; ++k) {
        merge(in_block(first + k), block_sums_.data() + k * channels, block_products_.data() + k * channels);
      }
    }
  }
  // Calls use(first element, positions) for parts of the `positions` positions that begin at element `first`.
  template <typename Use>
  void ForEachPosition(int64_t first, int64_t positions, const Use& use) const {
    ForEachPart(threads_, positions, std::max<int64_t>(1, kLeastElements / shape_.channels),
                [&](int64_t begin, int64_t end) { use(first + begin * shape_.channels, end - begin); });
  }

  void MergeMoments(int64_t group, const float* x) {
    moments_.Clear();
    ForEachBlock(
        group,
        [&](int64_t first, int64_t positions, float* means, float* squares) {
          kernels_.channel_moments(positions, shape_.channels, x + first, means, squares);
        },
        [&](int64_t positions, const float* means, const float* squares) {
          moments_.Merge(positions, means, squares);
        });
  }

  // Merges moments_ with the moments of the other workers: first the means, then the squared deviations from
  // the common mean. In this order, the single precision of the exchanged sums costs no more accuracy than
  // the single precision of the results. Workers exchange their numbers of rows, not of positions, so that
  // the sum of these numbers is exact.
  absl::Status MergeWorkers(Stream& stream) {
    const int64_t channels = shape_.channels;
    const auto own_rows = static_cast<double>(Rows(0)), own_count = static_cast<double>(moments_.count);
    for (int64_t c = 0; c < channels; ++c) {
      exchanged_[c] = static_cast<float>(moments_.means[c] * own_rows);
    }
    exchanged_[channels] = static_cast<float>(own_rows);
    TETHYS_RETURN_IF_ERROR(worker_sums_->AllReduce(stream, exchanged_.data(), channels + 1));
    const double rows = exchanged_[channels];
    for (int64_t c = 0; c < channels; ++c) {
      const double mean = exchanged_[c] / std::max(rows, 1.0), difference = moments_.means[c] - mean;
      exchanged_[c] = static_cast<float>(moments_.squares[c] + own_count * difference * difference);
      moments_.means[c] = mean;
    }
    TETHYS_RETURN_IF_ERROR(worker_sums_->AllReduce(stream, exchanged_.data(), channels));
    std::copy_n(exchanged_.begin(), channels, moments_.squares.begin());
    moments_.count = static_cast<int64_t>(rows) * shape_.positions;
    return absl::OkStatus();
  }

  // Turns moments_ into the statistics of the group.
  void KeepStatistics(int64_t group) {
    counts_[group] = static_cast<double>(moments_.count);
    const double count = std::max(counts_[group], 1.0);
    const int64_t first = group * shape_.channels;
    for (int64_t c = 0; c < shape_.channels; ++c) {
      const double variance = moments_.squares[c] / count;
      means_[first + c] = static_cast<float>(moments_.means[c]);
      variances_[first + c] = static_cast<float>(variance);
      inverse_deviations_[first + c] = static_cast<float>(1 / std::sqrt(variance + shape_.epsilon));
    }
  }

  // Adds up over the group: dy, and the products of dy with x - mean.
  void SumGradients(int64_t group, const Normalisation& normalisation, const float* x, const float* dy) {
    std::fill(sums_.begin(), sums_.end(), 0.0);
    std::fill(products_.begin(), products_.end(), 0.0);
    ForEachBlock(
        group,
        [&](int64_t first, int64_t positions, float* sums, float* products) {
          kernels_.normalised_gradient_sums(positions, normalisation, x + first, dy + first, sums, products);
        },
        [&](int64_t, const float* sums, const float* products) {
          for (int64_t c = 0; c < shape_.channels; ++c) {
            sums_[c] += sums[c];
            products_[c] += products[c];
          }
        });
  }

  absl::Status SumGradientsOfWorkers(Stream& stream) {
    const auto products = exchanged_.begin() + shape_.channels;
    const auto rounded = [](double sum) { return static_cast<float>(sum); };
    std::transform(sums_.begin(), sums_.end(), exchanged_.begin(), rounded);
    std::transform(products_.begin(), products_.end(), products, rounded);
    TETHYS_RETURN_IF_ERROR(worker_sums_->AllReduce(stream, exchanged_.data(), 2 * shape_.channels));
    std::copy_n(exchanged_.begin(), shape_.channels, sums_.begin());
    std::copy_n(products, shape_.channels, products_.begin());
    return absl::OkStatus();
  }

  void Normalise(int64_t group, const float* x, const ScaleAndOffset& variables, float* y) {
    const Normalisation normalisation = GroupNormalisation(group, variables);
    ForEachPosition(First(group), Positions(group), [&](int64_t first, int64_t positions) {
      kernels_.normalise(positions, normalisation, x + first, y + first);
    });
  }

  // The result is valid until the next call of this function.
  Normalisation GroupNormalisation(int64_t group, const ScaleAndOffset& variables) {
    for (int64_t c = 0; c < shape_.channels; ++c) {
      factors_[c] = variables.scale[c] * OfGroup(inverse_deviations_, group)[c];
    }
    return {.channels = shape_.channels,
            .mean = OfGroup(means_, group),
            .factor = factors_.data(),
            .offset = variables.offset,
            .relu = shape_.relu};
  }

  void ClearBehindSamples(float* values) const {
    const int64_t row = shape_.positions * shape_.channels, samples = group_begins_[shape_.groups];
    std::fill(values + samples * row, values + shape_.rows * row, 0.0f);
  }

  const BatchNormalisationShape shape_;
  StreamReducer* const worker_sums_;  // Null: statistics are over this worker's batch alone.
  const int threads_;
  const Kernels& kernels_;
  const int64_t block_;  // The number of positions in a block.

  // Results of the last Forward.
  Moments moments_;
  std::vector<int64_t> group_begins_;  // The first row of each group; then the number of samples.
  // [groups]: the number of values of each channel in the group; with worker_sums_, over all workers.
  std::vector<double> counts_;
  std::vector<float> means_, variances_, inverse_deviations_;  // [groups, channels]

  // Scratch memory, [channels].
  std::vector<float> factors_;
  std::vector<double> sums_, products_;
  std::vector<float> block_sums_, block_products_;  // [AtOnce(), channels]
  std::vector<float> mean_dy_, slopes_;
  std::vector<float> exchanged_;  // [2, channels]; empty without worker_sums_.
};

}  // namespace

Created<BatchNormalisationShape> Create(const BatchNormalisationShape& shape, const Context& context) {
  return std::make_unique<BatchNormalisation>(shape, context);
}

}  // namespace tethys::cpu
