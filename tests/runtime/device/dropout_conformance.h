// Tests of DeviceConformance for dropout. graph_conformance.h tests dropout in graphs.
#ifndef TETHYS_TESTS_RUNTIME_DEVICE_DROPOUT_CONFORMANCE_H_
#define TETHYS_TESTS_RUNTIME_DEVICE_DROPOUT_CONFORMANCE_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "tests/runtime/device/conformance_fixture.h"

namespace tethys {

// Computes the result that the contract requires, one number at a time, with the host's random stream.
inline std::vector<float> Dropped(const Arithmetic& arithmetic, const DropoutShape& shape, uint64_t first_row,
                                  const std::vector<float>& in) {
  const RandomStream stream(shape.seed, RandomPurpose::kDropout, shape.layer);
  std::vector<float> out(in.size());
  for (size_t i = 0; i < in.size(); ++i) {
    const uint64_t number = first_row * static_cast<uint64_t>(shape.elements) + i;
    const bool kept = ToUnitFloat(stream.Block(number / 4)[number % 4]) >= shape.rate;
    out[i] = kept ? arithmetic.Stored(in[i] * (1 / (1 - shape.rate))) : 0;
  }
  return out;
}

inline std::vector<float> DeviceConformance::Drop(const DropoutShape& shape, uint64_t first_row,
                                                  const std::vector<float>& in) {
  auto dropout = device_->Create(shape).value();
  Array<uint64_t> first(*this, {first_row});
  auto in_device = Activations(in), out = PoisonedActivations(in.size() + 1);
  EXPECT_TRUE(dropout->Run(*stream_, first.data(), in_device.data(), out.data()).ok());
  std::vector<float> host = out.Host();
  EXPECT_TRUE(std::isnan(host.back())) << "was written after the " << in.size() << " elements";
  host.pop_back();
  EXPECT_TRUE(dropout->Run(*stream_, first.data(), in_device.data(), in_device.data()).ok());
  EXPECT_EQ(in_device.Host(), host) << "in place";
  return host;
}

TEST_P(DeviceConformance, DropoutAgreesWithTheHostsRandomStream) {
  for (const int64_t elements : {0, 1, 3, 4, 5, 97, 1500}) {
    for (const uint64_t first_row : {uint64_t{0}, uint64_t{5}, uint64_t{1} << 40}) {
      const DropoutShape shape = {
          .rows = 3, .elements = elements, .rate = 0.3f, .seed = kSeed, .layer = 0x9876543210fedcba};
      const std::vector<float> in = RandomActivations(3 * elements, 1);
      EXPECT_EQ(Drop(shape, first_row, in), Dropped(arithmetic_, shape, first_row, in))
          << elements << ", " << first_row;
    }
  }
}

// A worker with the second half of a batch must drop the same elements of that half as a worker with the
// whole batch.
TEST_P(DeviceConformance, DropoutOfPartsOfABatchDropsTheSameElementsAsOfTheWholeBatch) {
  const std::vector<float> in(8 * 10, 1.0f);
  const std::vector<float> whole = Drop({.rows = 8, .elements = 10, .seed = kSeed}, 100, in);
  for (const int64_t begin : {0, 3, 5}) {
    const std::vector<float> part =
        Drop({.rows = 3, .elements = 10, .seed = kSeed}, 100 + begin, std::vector<float>(30, 1.0f));
    EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + begin * 10)) << begin;
  }
}

TEST_P(DeviceConformance, DropoutDropsAtItsRateAndDiffersByLayerAndSeed) {
  const int64_t count = 20000;
  const std::vector<float> in(count, 1.0f);
  DropoutShape shape = {.rows = 20, .elements = count / 20, .rate = 0.2f, .seed = kSeed, .layer = 1};
  const std::vector<float> first = Drop(shape, 0, in);
  const auto dropped = std::count(first.begin(), first.end(), 0.0f);
  EXPECT_NEAR(static_cast<double>(dropped) / count, 0.2, 5 * std::sqrt(0.16 / count));
  shape.layer = 2;
  EXPECT_NE(Drop(shape, 0, in), first);
  shape.layer = 1;
  shape.seed = kSeed + 1;
  EXPECT_NE(Drop(shape, 0, in), first);
  EXPECT_NE(Drop(shape, 20, in), Drop(shape, 0, in));
  EXPECT_EQ(Drop(shape, 20, in), Drop(shape, 20, in));
  shape.rate = 0;
  EXPECT_EQ(Drop(shape, 0, in), in);
}

TEST_P(DeviceConformance, DropoutOfInvalidShapesIsRefused) {
  for (const DropoutShape& shape :
       {DropoutShape{.rows = -1, .elements = 1}, DropoutShape{.rows = 1, .elements = -1},
        DropoutShape{.rows = 1 << 30, .elements = 1 << 30}, DropoutShape{.rows = 1, .elements = 1, .rate = 1},
        DropoutShape{.rows = 1, .elements = 1, .rate = -0.1f},
        DropoutShape{.rows = 1, .elements = 1, .rate = NAN}}) {
    EXPECT_EQ(device_->Create(shape).status().code(), absl::StatusCode::kInvalidArgument);
  }
}

}  // namespace tethys

#endif  // TETHYS_TESTS_RUNTIME_DEVICE_DROPOUT_CONFORMANCE_H_
