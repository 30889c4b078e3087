#include "runtime/data/input_scaling.h"

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <vector>

namespace tethys {
namespace {

constexpr int64_t kReported = 1024;  // The number of samples between two reports of progress.

// The sums over the training split, by channel, from which the standardisation is computed. `Sum` is the type
// of the sums, whose terms are values minus an origin.
template <typename Sum>
struct Moments {
  std::vector<Sum> values, squares;
};

// Adds bytes to the sums of the only channel. The sums of a block fit into 32 bits, and the length of a block
// is a constant, so the compiler uses vector instructions.
void AddBytes(const uint8_t* bytes, int64_t count, uint64_t& values, uint64_t& squares) {
  constexpr int kBlock = 64;
  for (; count >= kBlock; count -= kBlock, bytes += kBlock) {
    uint32_t sum = 0, sum_of_squares = 0;
    for (int i = 0; i < kBlock; ++i) {
      const uint32_t value = bytes[i];
      sum += value;
      sum_of_squares += value * value;
    }
    values += sum;
    squares += sum_of_squares;
  }
  for (int64_t i = 0; i < count; ++i) {
    values += bytes[i];
    squares += uint64_t{bytes[i]} * bytes[i];
  }
}

// Sums the values of the training split by channel. `Value` is the type of the values. With one channel, the
// sums are over all values. Floats are summed as distances from `origins`, which are near the mean.
template <typename Value, typename Sum>
absl::StatusOr<Moments<Sum>> SumOf(const Dataset& train, const std::vector<Value>& origins,
                                   absl::FunctionRef<void()> progressed) {
  const size_t channels = origins.size();
  std::vector<Value> sample(train.sample_elements());
  Moments<Sum> sums = {.values = std::vector<Sum>(channels), .squares = std::vector<Sum>(channels)};
  for (int64_t i = 0; i < train.size(); ++i) {
    if (i % kReported == 0) progressed();
    TETHYS_RETURN_IF_ERROR(train.ReadValues(i, reinterpret_cast<uint8_t*>(sample.data())));
    if constexpr (std::is_same_v<Value, uint8_t>) {
      if (channels == 1) {
        AddBytes(sample.data(), static_cast<int64_t>(sample.size()), sums.values[0], sums.squares[0]);
        continue;
      }
    }
    for (size_t begin = 0; begin < sample.size(); begin += channels) {
      for (size_t channel = 0; channel < channels; ++channel) {
        const Sum value = static_cast<Sum>(sample[begin + channel]) - static_cast<Sum>(origins[channel]);
        sums.values[channel] += value;
        sums.squares[channel] += value * value;
      }
    }
  }
  return sums;
}

// The first values of the first sample, one for each channel. Floats are summed as distances from these
// values: sums of floats far from 0 would lose digits.
absl::StatusOr<std::vector<float>> OriginsOf(const Dataset& train, int64_t channels) {
  std::vector<float> sample(train.sample_elements());
  TETHYS_RETURN_IF_ERROR(train.ReadValues(0, reinterpret_cast<uint8_t*>(sample.data())));
  sample.resize(channels);
  return sample;
}

// The scaling from the moments of `values` values per channel; mean and deviation are divided by `unit`. In a
// table, channels are features.
template <typename Sum, typename Value>
absl::StatusOr<InputScaling> ScalingOfMoments(const Moments<Sum>& sums, const std::vector<Value>& origins,
                                              int64_t values, double unit, bool table) {
  const auto count = static_cast<double>(values);
  InputScaling scaling = {.mean = {}, .deviation = {}};
  for (size_t channel = 0; channel < origins.size(); ++channel) {
    const double mean = static_cast<double>(sums.values[channel]) / count;
    const double variance = static_cast<double>(sums.squares[channel]) / count - mean * mean;
    auto deviation = static_cast<float>(std::sqrt(std::max(variance, 0.0)) / unit);
    // A constant feature, which tables often have, becomes 0, as in scikit-learn.
    if (table && !(deviation > 0)) deviation = 1;
    if (!(deviation > 0)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "all pixels of the training split", origins.size() > 1 ? absl::StrCat(" in channel ", channel) : "",
          " are equal, so they cannot be standardised: check the data, or set data.compute_standardisation "
          "to false"));
    }
    scaling.mean.push_back(static_cast<float>((mean + static_cast<double>(origins[channel])) / unit));
    scaling.deviation.push_back(deviation);
  }
  return scaling;
}

}  // namespace

absl::StatusOr<InputScaling> ComputeScaling(const Dataset& train, int64_t channels,
                                            absl::FunctionRef<void()> progressed) {
  const int64_t count = train.size() * train.sample_elements() / channels;
  const bool table = channels > 1 && train.sample_shape().size() == 1;
  if (train.spec().type == ValueType::kByte) {
    const std::vector<uint8_t> zeros(channels);
    TETHYS_ASSIGN_OR_RETURN(const auto sums, (SumOf<uint8_t, uint64_t>(train, zeros, progressed)));
    return ScalingOfMoments(sums, zeros, count, 255, table);
  }
  TETHYS_ASSIGN_OR_RETURN(const std::vector<float> origins, OriginsOf(train, channels));
  TETHYS_ASSIGN_OR_RETURN(const auto sums, (SumOf<float, double>(train, origins, progressed)));
  TETHYS_ASSIGN_OR_RETURN(InputScaling scaling, ScalingOfMoments(sums, origins, count, 1, table));
  scaling.type = ValueType::kFloat;
  return scaling;
}

InputScaling SpecifiedScaling(const proto::Data& data, ValueType type) {
  InputScaling scaling;
  scaling.type = type;
  if (data.mean_size() > 0) scaling.mean.assign(data.mean().begin(), data.mean().end());
  if (data.deviation_size() > 0) scaling.deviation.assign(data.deviation().begin(), data.deviation().end());
  // If there is a single mean or a single deviation, it is used for every channel.
  scaling.mean.resize(std::max(scaling.mean.size(), scaling.deviation.size()), scaling.mean.front());
  scaling.deviation.resize(scaling.mean.size(), scaling.deviation.front());
  return scaling;
}

}  // namespace tethys
