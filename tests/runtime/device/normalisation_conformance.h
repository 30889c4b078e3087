// Tests of DeviceConformance for batch normalisation.
#ifndef TETHYS_TESTS_RUNTIME_DEVICE_NORMALISATION_CONFORMANCE_H_
#define TETHYS_TESTS_RUNTIME_DEVICE_NORMALISATION_CONFORMANCE_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "tests/runtime/device/conformance_fixture.h"

namespace tethys {

// Batch normalisation in double precision, value by value.
struct NormalisationReference {
  BatchNormalisationShape shape;
  int64_t samples;  // Rows that have a weight above 0.
  std::vector<float> x, dy, scale, offset;

  std::vector<double> y = {}, dx = {}, dscale = {}, doffset = {};
  std::vector<double> batch_mean = {}, batch_variance = {};  // The values that update moving statistics.

  int64_t At(int64_t row, int64_t position, int64_t c) const {
    return (row * shape.positions + position) * shape.channels + c;
  }

  void Compute() {
    y.assign(x.size(), 0);
    dx.assign(x.size(), 0);
    for (auto* sums : {&dscale, &doffset, &batch_mean, &batch_variance}) sums->assign(shape.channels, 0);
    int64_t begin = 0;
    for (int64_t g = 0; g < shape.groups; ++g) {
      const int64_t end = begin + samples / shape.groups + (g < samples % shape.groups ? 1 : 0);
      for (int64_t c = 0; c < shape.channels && begin < end; ++c) ComputeChannel(begin, end, c);
      begin = end;
    }
  }

 private:
  template <typename Use>
  void ForEach(int64_t begin, int64_t end, int64_t c, const Use& use) const {
    for (int64_t row = begin; row < end; ++row) {
      for (int64_t p = 0; p < shape.positions; ++p) use(At(row, p, c));
    }
  }

  void ComputeChannel(int64_t begin, int64_t end, int64_t c) {
    const auto count = static_cast<double>((end - begin) * shape.positions);
    double mean = 0, variance = 0;
    ForEach(begin, end, c, [&](int64_t i) { mean += x[i] / count; });
    ForEach(begin, end, c, [&](int64_t i) { variance += (x[i] - mean) * (x[i] - mean) / count; });
    const double deviation = std::sqrt(variance + shape.epsilon);
    const double weight = static_cast<double>(end - begin) / static_cast<double>(samples);
    batch_mean[c] += weight * mean;
    batch_variance[c] += weight * variance * (count < 2 ? 1 : count / (count - 1));
    double gradients = 0, products = 0;
    const auto gradient = [&](int64_t i) { return shape.relu && !(y[i] > 0) ? 0.0 : double{dy[i]}; };
    ForEach(begin, end, c, [&](int64_t i) {
      y[i] = (x[i] - mean) / deviation * scale[c] + offset[c];
      if (shape.relu) y[i] = std::max(y[i], 0.0);
      gradients += gradient(i);
      products += gradient(i) * (x[i] - mean) / deviation;
    });
    dscale[c] += products;
    doffset[c] += gradients;
    ForEach(begin, end, c, [&](int64_t i) {
      const double normalised = (x[i] - mean) / deviation;
      dx[i] = scale[c] / deviation * (gradient(i) - gradients / count - normalised * products / count);
    });
  }
};

inline NormalisationReference RandomNormalisation(const Arithmetic& arithmetic,
                                                  const BatchNormalisationShape& shape, int64_t samples) {
  NormalisationReference reference{.shape = shape,
                                   .samples = samples,
                                   .x = RandomFloats(shape.elements(), 1),
                                   .dy = arithmetic.Stored(RandomFloats(shape.elements(), 2)),
                                   .scale = RandomFloats(shape.channels, 3),
                                   .offset = RandomFloats(shape.channels, 4)};
  for (int64_t i = 0; i < shape.elements(); ++i) {
    const auto c = static_cast<float>(i % shape.channels);
    reference.x[i] = arithmetic.Stored((1 + c) * reference.x[i] + 3 * c);
  }
  reference.Compute();
  return reference;
}

struct NormalisationCase {
  BatchNormalisationShape shape;
  int64_t samples;
};
inline std::vector<NormalisationCase> NormalisationCases() {
  return {{{.rows = 7, .positions = 1, .channels = 5}, 7},
          {{.rows = 7, .positions = 1, .channels = 5, .relu = true}, 4},
          {{.rows = 6, .positions = 35, .channels = 3, .relu = true}, 6},
          {{.rows = 6, .positions = 100, .channels = 17, .epsilon = 1e-3f, .decay = 0.99f}, 5},
          {{.rows = 7, .positions = 9, .channels = 4, .groups = 3, .relu = true}, 7},
          {{.rows = 7, .positions = 9, .channels = 4, .groups = 3}, 5},
          {{.rows = 7, .positions = 9, .channels = 4, .groups = 3}, 2},  // The last group has no samples.
          {{.rows = 7, .positions = 9, .channels = 16, .groups = 3, .relu = true}, 5},
          {{.rows = 3, .positions = 2, .channels = 600}, 3},
          // There is one value for each channel, so its variance is 0.
          {{.rows = 2, .positions = 1, .channels = 2}, 1},
          {{.rows = 5, .positions = 301, .channels = 1}, 5},
          {{.rows = 2, .positions = 11000, .channels = 40}, 2}};  // The tiles need several blocks.
}

TEST_P(DeviceConformance, BatchNormalisationAgreesWithDoublePrecision) {
  for (const auto& [shape, samples] : NormalisationCases()) {
    SCOPED_TRACE(::testing::Message() << shape.rows << " x " << shape.positions << " x " << shape.channels
                                      << " in " << shape.groups << ", " << samples << " samples");
    const NormalisationReference expected = RandomNormalisation(arithmetic_, shape, samples);
    std::vector<float> row_weights(shape.rows, 0);
    std::fill_n(row_weights.begin(), samples, 1.0f);
    auto normalisation = device_->Create(shape).value();
    auto x = Activations(expected.x), dy = Activations(expected.dy),
         y = PoisonedActivations(expected.x.size()), dx = PoisonedActivations(expected.x.size());
    auto weights = Floats(row_weights), scale = Floats(expected.scale), offset = Floats(expected.offset),
         dscale = Poisoned(shape.channels), doffset = Poisoned(shape.channels);
    const ScaleAndOffset variables = {scale.data(), offset.data()};
    ASSERT_TRUE(normalisation->Forward(*stream_, x.data(), weights.data(), variables, y.data()).ok());
    EXPECT_LE(RelativeError(y.Host(), expected.y), arithmetic_.StoredTolerance(2e-6));
    ASSERT_TRUE(
        normalisation
            ->Backward(*stream_, x.data(), variables, dy.data(), dx.data(), dscale.data(), doffset.data())
            .ok());
    EXPECT_LE(RelativeError(dx.Host(), expected.dx), arithmetic_.StoredTolerance(5e-6));
    EXPECT_LE(RelativeError(dscale.Host(), expected.dscale), 5e-6);
    EXPECT_LE(RelativeError(doffset.Host(), expected.doffset), 5e-6);

    const std::vector<float> dx_host = dx.Host();
    ASSERT_TRUE(
        normalisation
            ->Backward(*stream_, x.data(), variables, dy.data(), dy.data(), dscale.data(), doffset.data())
            .ok());
    EXPECT_EQ(dy.Host(), dx_host) << "in place";
  }
}

TEST_P(DeviceConformance, BatchNormalisationInputGradientIsOptional) {
  const BatchNormalisationShape shape = {.rows = 6, .positions = 4, .channels = 3, .relu = true};
  const NormalisationReference expected = RandomNormalisation(arithmetic_, shape, 6);
  auto normalisation = device_->Create(shape).value();
  auto x = Activations(expected.x), dy = Activations(expected.dy), y = PoisonedActivations(expected.x.size());
  auto weights = Floats(std::vector<float>(6, 1)), scale = Floats(expected.scale),
       offset = Floats(expected.offset), dscale = Poisoned(3), doffset = Poisoned(3);
  const ScaleAndOffset variables = {scale.data(), offset.data()};
  ASSERT_TRUE(normalisation->Forward(*stream_, x.data(), weights.data(), variables, y.data()).ok());
  ASSERT_TRUE(normalisation
                  ->Backward(*stream_, x.data(), variables, dy.data(), nullptr, dscale.data(), doffset.data())
                  .ok());
  EXPECT_LE(RelativeError(dscale.Host(), expected.dscale), 5e-6);
  EXPECT_LE(RelativeError(doffset.Host(), expected.doffset), 5e-6);
}

TEST_P(DeviceConformance, MovingStatisticsFollowTheBatchUnlessTheStepIsRefused) {
  for (const auto& [shape, samples] : NormalisationCases()) {
    const NormalisationReference expected = RandomNormalisation(arithmetic_, shape, samples);
    std::vector<float> row_weights(shape.rows, 0);
    std::fill_n(row_weights.begin(), samples, 1.0f);
    auto normalisation = device_->Create(shape).value();
    auto x = Activations(expected.x), y = PoisonedActivations(expected.x.size());
    auto weights = Floats(row_weights), scale = Floats(expected.scale), offset = Floats(expected.offset);
    ASSERT_TRUE(
        normalisation->Forward(*stream_, x.data(), weights.data(), {scale.data(), offset.data()}, y.data())
            .ok());
    const std::vector<float> start = RandomFloats(shape.channels, 7);
    auto mean = Floats(start), variance = Floats(start), share = Floats({0.75f});
    Array<int32_t> refused(*this, {1});
    ASSERT_TRUE(
        normalisation
            ->UpdateMovingStatistics(*stream_, share.data(), refused.data(), mean.data(), variance.data())
            .ok());
    EXPECT_EQ(mean.Host(), start);
    EXPECT_EQ(variance.Host(), start);
    Array<int32_t> accepted(*this, {0});
    for (int32_t* flag : {accepted.data(), static_cast<int32_t*>(nullptr)}) {
      auto m = Floats(start), v = Floats(start);
      ASSERT_TRUE(
          normalisation->UpdateMovingStatistics(*stream_, share.data(), flag, m.data(), v.data()).ok());
      const double kept = shape.decay, added = (1 - kept) * 0.75;
      std::vector<double> means(shape.channels), variances(shape.channels);
      for (int64_t c = 0; c < shape.channels; ++c) {
        means[c] = kept * start[c] + added * expected.batch_mean[c];
        variances[c] = kept * start[c] + added * expected.batch_variance[c];
      }
      EXPECT_LE(RelativeError(m.Host(), means), 1e-6);
      EXPECT_LE(RelativeError(v.Host(), variances), 2e-6);
    }
  }
}

TEST_P(DeviceConformance, LaterPartOfABatchDoesNotDecayTheMovingStatistics) {
  BatchNormalisationShape shape = {.rows = 4, .positions = 2, .channels = 3};
  std::vector<std::vector<float>> changes;
  for (const bool later_part : {false, true}) {
    shape.later_part = later_part;
    auto normalisation = device_->Create(shape).value();
    auto x = Activations(RandomFloats(shape.elements(), 3)), y = PoisonedActivations(shape.elements());
    auto weights = Floats(std::vector<float>(4, 1)), scale = Floats({1, 1, 1}), offset = Floats({0, 0, 0});
    ASSERT_TRUE(
        normalisation->Forward(*stream_, x.data(), weights.data(), {scale.data(), offset.data()}, y.data())
            .ok());
    auto share = Floats({0.5f}), mean = Floats({10, 20, 30}), variance = Floats({40, 50, 60});
    ASSERT_TRUE(
        normalisation->UpdateMovingStatistics(*stream_, share.data(), nullptr, mean.data(), variance.data())
            .ok());
    changes.push_back(mean.Host());
    const std::vector<float> variances = variance.Host();
    changes.back().insert(changes.back().end(), variances.begin(), variances.end());
  }
  // The first part of a batch decays the old values by a tenth. A later part must not decay them.
  for (int i = 0; i < 6; ++i) {
    EXPECT_NEAR(changes[1][i] - changes[0][i], static_cast<float>(i + 1), 1e-4) << i;
  }
}

TEST_P(DeviceConformance, BatchWithoutSamplesOnlyDecaysMovingStatistics) {
  const BatchNormalisationShape shape = {.rows = 4, .positions = 3, .channels = 2, .groups = 2};
  auto normalisation = device_->Create(shape).value();
  auto x = PoisonedActivations(shape.elements()), y = PoisonedActivations(shape.elements());
  auto weights = Floats(std::vector<float>(4, 0)), scale = Floats({1, 2}), offset = Floats({3, 4}),
       dscale = Poisoned(2), doffset = Poisoned(2);
  const ScaleAndOffset variables = {scale.data(), offset.data()};
  ASSERT_TRUE(normalisation->Forward(*stream_, x.data(), weights.data(), variables, y.data()).ok());
  EXPECT_EQ(y.Host(), std::vector<float>(shape.elements(), 0));
  auto dy = Activations(std::vector<float>(shape.elements(), 0));
  ASSERT_TRUE(
      normalisation
          ->Backward(*stream_, x.data(), variables, dy.data(), dy.data(), dscale.data(), doffset.data())
          .ok());
  EXPECT_EQ(dscale.Host(), std::vector<float>(2, 0));
  EXPECT_EQ(doffset.Host(), std::vector<float>(2, 0));
  EXPECT_EQ(dy.Host(), std::vector<float>(shape.elements(), 0));
  auto share = Floats({0}), mean = Floats({1, 2}), variance = Floats({3, 4});
  ASSERT_TRUE(
      normalisation->UpdateMovingStatistics(*stream_, share.data(), nullptr, mean.data(), variance.data())
          .ok());
  EXPECT_LE(RelativeError(mean.Host(), {0.9, 1.8}), 1e-6);
  EXPECT_LE(RelativeError(variance.Host(), {2.7, 3.6}), 1e-6);
}

// Simulates all-reduces among workers that run one after the other in one process. All workers run again in
// each round. If the sum of a call is known from earlier rounds, the call returns the sum. Otherwise the call
// adds the worker's part, and the sum is known from the next round on.
class SumsOfRounds final : public StreamReducer {
 public:
  explicit SumsOfRounds(Device& device) : device_(device) {}

  void BeginRound() { known_ = sums_.size(); }
  void BeginWorker() { call_ = 0; }

  absl::Status AllReduce(Stream& stream, float* data, int64_t count) override {
    const int64_t bytes = count * static_cast<int64_t>(sizeof(float));
    const size_t call = call_++;
    if (call < known_) return device_.CopyToDevice(stream, data, sums_[call].data(), bytes);
    if (call > known_) return absl::OkStatus();  // The call depends on a sum that is not known yet.
    std::vector<float> part(count);
    TETHYS_RETURN_IF_ERROR(device_.CopyToHost(stream, part.data(), data, bytes));
    TETHYS_RETURN_IF_ERROR(stream.Synchronize());
    sums_.resize(known_ + 1);
    sums_[call].resize(count);
    for (int64_t i = 0; i < count; ++i) sums_[call][i] += part[i];
    return absl::OkStatus();
  }

 private:
  Device& device_;
  std::vector<std::vector<float>> sums_;
  size_t known_ = 0;
  size_t call_ = 0;  // The index of this worker's next call.
};

TEST_P(DeviceConformance, BatchNormalisationOverWorkersEqualsThatOfOneWholeBatch) {
  for (const bool relu : {false, true}) {
    const BatchNormalisationShape all = {.rows = 9, .positions = 6, .channels = 5, .relu = relu};
    const NormalisationReference expected = RandomNormalisation(arithmetic_, all, 9);
    const int64_t row = all.positions * all.channels;
    // The second worker has a short batch, the third worker none.
    const std::vector<int64_t> begins = {0, 6, 9, 9};
    BatchNormalisationShape own = all;
    own.rows = 6;
    SumsOfRounds sums(*device_);
    own.sums = &sums;
    std::vector<float> y, dx;
    std::vector<double> dscale, doffset, mean, variance;
    // Each of the three sums is known one round after the sums before it.
    for (int round = 0; round < 4; ++round) {
      sums.BeginRound();
      y.clear(), dx.clear();
      for (auto* total : {&dscale, &doffset, &mean, &variance}) total->assign(all.channels, 0.0);
      for (int worker = 0; worker < 3; ++worker) {
        sums.BeginWorker();
        const int64_t samples = begins[worker + 1] - begins[worker], first = begins[worker] * row;
        std::vector<float> own_x(own.elements(), 7), own_dy(own.elements(), 0), own_weights(own.rows, 0);
        std::copy_n(expected.x.begin() + first, samples * row, own_x.begin());
        std::copy_n(expected.dy.begin() + first, samples * row, own_dy.begin());
        std::fill_n(own_weights.begin(), samples, 1.0f);
        auto created = device_->Create(own);
        if (absl::IsUnimplemented(created.status())) GTEST_SKIP() << created.status();
        const auto normalisation = *std::move(created);
        auto x = Activations(own_x), dy = Activations(own_dy), y_own = PoisonedActivations(own.elements()),
             again = PoisonedActivations(own.elements());
        auto weights = Floats(own_weights), scale = Floats(expected.scale), offset = Floats(expected.offset),
             dscale_own = Poisoned(all.channels), doffset_own = Poisoned(all.channels);
        const ScaleAndOffset variables = {scale.data(), offset.data()};
        ASSERT_TRUE(normalisation->Forward(*stream_, x.data(), weights.data(), variables, y_own.data()).ok());
        ASSERT_TRUE(normalisation->Repeat(*stream_, x.data(), variables, again.data()).ok());
        EXPECT_EQ(again.Host(), y_own.Host());
        ASSERT_TRUE(normalisation
                        ->Backward(*stream_, x.data(), variables, dy.data(), dy.data(), dscale_own.data(),
                                   doffset_own.data())
                        .ok());
        auto share = Floats({static_cast<float>(samples) / 9}), m = Floats(std::vector<float>(5, 0)),
             v = Floats(std::vector<float>(5, 0));
        ASSERT_TRUE(
            normalisation->UpdateMovingStatistics(*stream_, share.data(), nullptr, m.data(), v.data()).ok());
        const std::vector<float> y_host = y_own.Host(), dx_host = dy.Host();
        y.insert(y.end(), y_host.begin(), y_host.begin() + samples * row);
        dx.insert(dx.end(), dx_host.begin(), dx_host.begin() + samples * row);
        EXPECT_TRUE(
            std::all_of(y_host.begin() + samples * row, y_host.end(), [](float e) { return e == 0; }));
        const std::vector<float> of_worker[] = {dscale_own.Host(), doffset_own.Host(), m.Host(), v.Host()};
        std::vector<double>* const totals[] = {&dscale, &doffset, &mean, &variance};
        for (int i = 0; i < 4; ++i) {
          for (int64_t c = 0; c < all.channels; ++c) (*totals[i])[c] += of_worker[i][c];
        }
      }
    }
    EXPECT_LE(RelativeError(y, expected.y), arithmetic_.StoredTolerance(2e-6));
    EXPECT_LE(RelativeError(dx, expected.dx), arithmetic_.StoredTolerance(5e-6));
    const auto floats = [](const std::vector<double>& values, double factor = 1) {
      std::vector<float> rounded;
      for (const double value : values) rounded.push_back(static_cast<float>(value / factor));
      return rounded;
    };
    EXPECT_LE(RelativeError(floats(dscale), expected.dscale), 5e-6);
    EXPECT_LE(RelativeError(floats(doffset), expected.doffset), 5e-6);
    const double added = 1 - static_cast<double>(all.decay);
    EXPECT_LE(RelativeError(floats(mean, added), expected.batch_mean), 5e-6);
    EXPECT_LE(RelativeError(floats(variance, added), expected.batch_variance), 5e-6);
  }
}

TEST_P(DeviceConformance, InferenceNormalisesByTheGivenMeanAndVariance) {
  for (const bool relu : {false, true}) {
    const BatchNormalisationShape shape = {.rows = 5, .positions = 6, .channels = 3, .relu = relu};
    const std::vector<float> x = RandomActivations(shape.elements(), 1), scale = RandomFloats(3, 2),
                             offset = RandomFloats(3, 3), mean = RandomFloats(3, 4);
    const std::vector<float> variance = {0.25f, 1, 9};
    auto normalisation = device_->Create(shape).value();
    auto x_device = Activations(x);
    auto scale_device = Floats(scale), offset_device = Floats(offset), mean_device = Floats(mean),
         variance_device = Floats(variance);
    ASSERT_TRUE(normalisation
                    ->Infer(*stream_, x_device.data(), mean_device.data(), variance_device.data(),
                            {scale_device.data(), offset_device.data()}, x_device.data())
                    .ok());
    std::vector<double> expected(x.size());
    for (size_t i = 0; i < x.size(); ++i) {
      const size_t c = i % 3;
      expected[i] = (x[i] - mean[c]) / std::sqrt(variance[c] + shape.epsilon) * scale[c] + offset[c];
      if (relu) expected[i] = std::max(expected[i], 0.0);
    }
    EXPECT_LE(RelativeError(x_device.Host(), expected), arithmetic_.StoredTolerance(1e-6));
  }
}

TEST_P(DeviceConformance, BatchNormalisationOfInvalidShapesIsRefused) {
  const BatchNormalisationShape good = {.rows = 4, .positions = 3, .channels = 2};
  ASSERT_TRUE(device_->Create(good).ok());
  const auto refused = [&](auto change) {
    BatchNormalisationShape shape = good;
    change(shape);
    return device_->Create(shape).status().code() == absl::StatusCode::kInvalidArgument;
  };
  EXPECT_TRUE(refused([](auto& shape) { shape.rows = 0; }));
  EXPECT_TRUE(refused([](auto& shape) { shape.channels = -1; }));
  EXPECT_TRUE(refused([](auto& shape) { shape.groups = 0; }));
  EXPECT_TRUE(refused([](auto& shape) { shape.rows = shape.positions = int64_t{1} << 31; }));
  EXPECT_TRUE(refused([](auto& shape) { shape.epsilon = 0; }));
  EXPECT_TRUE(refused([](auto& shape) { shape.decay = 1; }));
  EXPECT_TRUE(refused([](auto& shape) { shape.decay = 0; }));
}

}  // namespace tethys

#endif  // TETHYS_TESTS_RUNTIME_DEVICE_NORMALISATION_CONFORMANCE_H_
