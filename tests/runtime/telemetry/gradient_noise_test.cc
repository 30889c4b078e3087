#include "runtime/telemetry/gradient_noise.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace tethys {
namespace {

proto::StepRecord Record(int rank, int64_t step, int64_t samples, double own_square, double sum_square) {
  proto::StepRecord record;
  record.set_rank(rank);
  record.set_step(step);
  record.set_samples(samples);
  record.set_own_square(own_square);
  record.set_sum_square(sum_square);
  return record;
}

proto::RunSummary SummaryOf(const GradientNoise& noise) {
  proto::RunSummary summary;
  noise.FillSummary(summary);
  return summary;
}

// The records of a step in which each of 64 elements of a sample's gradient is normal, with mean 0.25 and
// deviation 2.5: |G|^2 is 4, S is 400.
std::vector<proto::StepRecord> DrawnStep(int64_t step, const std::vector<int64_t>& batches,
                                         std::mt19937& random) {
  constexpr int kElements = 64;
  std::vector<double> sums(kElements), squares;
  for (const int64_t batch : batches) {
    std::normal_distribution<double> own(0.25 * static_cast<double>(batch), 2.5 * std::sqrt(batch));
    squares.push_back(0);
    for (double& sum : sums) {
      const double element = own(random);
      squares.back() += element * element;
      sum += element;
    }
  }
  double sum_square = 0;
  for (const double sum : sums) sum_square += sum * sum;
  std::vector<proto::StepRecord> records;
  for (size_t rank = 0; rank < batches.size(); ++rank) {
    records.push_back(Record(static_cast<int>(rank), step, batches[rank], squares[rank], sum_square));
  }
  return records;
}

TEST(GradientNoise, EstimateFindsTheNoiseScaleOfRandomGradientsOfUnequalBatches) {
  std::mt19937 random(7);
  GradientNoise noise;
  for (int64_t step = 0; step < 500; ++step) {
    for (const proto::StepRecord& record : DrawnStep(step, {8, 24, 9}, random)) noise.Add(record, 3);
  }
  const proto::RunSummary summary = SummaryOf(noise);
  ASSERT_EQ(summary.gradient_noise_size(), 1);
  EXPECT_EQ(summary.gradient_noise(0).steps(), 500);
  EXPECT_NEAR(summary.gradient_noise(0).variance(), 400, 20);
  EXPECT_NEAR(summary.gradient_noise(0).gradient_square(), 4, 0.6);
  EXPECT_NEAR(summary.gradient_noise(0).samples(), 100, 20);
}

TEST(GradientNoise, EqualGradientsHaveNoNoiseScale) {
  GradientNoise noise;
  // The gradient of every sample is 3, so the sums over batches of 2 and 4 are 6 and 12.
  noise.Add(Record(0, 0, 2, 36, 324), 2);
  noise.Add(Record(1, 0, 4, 144, 324), 2);
  const proto::RunSummary summary = SummaryOf(noise);
  ASSERT_EQ(summary.gradient_noise_size(), 1);
  EXPECT_NEAR(summary.gradient_noise(0).gradient_square(), 9, 1e-12);
  EXPECT_FALSE(summary.gradient_noise(0).has_samples());
}

TEST(GradientNoise, StepsThatAreIncompleteOrNotMeasuredDoNotCount) {
  GradientNoise noise;
  noise.Add(Record(0, 0, 2, 36, 324), 2);  // The other worker's record never comes.
  noise.Add(Record(0, 16, 2, 0, 0), 2);    // The record of a step that is not measured.
  noise.Add(Record(1, 16, 4, 0, 0), 2);
  noise.Add(Record(0, 32, 0, 0, 324), 2);  // A worker without samples.
  noise.Add(Record(1, 32, 4, 144, 324), 2);
  noise.Add(Record(0, 48, 2, NAN, NAN), 2);  // A gradient that is not finite.
  EXPECT_EQ(SummaryOf(noise).gradient_noise_size(), 0);
  GradientNoise alone;
  alone.Add(Record(0, 0, 2, 36, 36), 1);
  EXPECT_EQ(SummaryOf(alone).gradient_noise_size(), 0);
}

}  // namespace
}  // namespace tethys
