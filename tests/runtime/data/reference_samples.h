// Four samples of [4, 5, 3] bytes, in files written by TensorFlow 2.21 and NumPy 2.4: value k of sample i is
// 7 i + k, and the label of sample i is i.
#ifndef TETHYS_TESTS_RUNTIME_DATA_REFERENCE_SAMPLES_H_
#define TETHYS_TESTS_RUNTIME_DATA_REFERENCE_SAMPLES_H_

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "runtime/data/dataset.h"

namespace tethys::testing {

inline std::string ReferenceFile(const std::string& name) {
  return absl::StrCat(TETHYS_REFERENCE_DATA, "/", name);
}

inline void ExpectReferenceSamples(const Dataset& dataset) {
  ASSERT_EQ(dataset.size(), 4);
  ASSERT_EQ(dataset.sample_shape(), (Shape{4, 5, 3}));
  std::vector<uint8_t> values(60), expected(60);
  for (int i = 0; i < 4; ++i) {
    int32_t label = -1;
    const absl::Status status = dataset.Read(i, values.data(), &label);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(label, i);
    for (int k = 0; k < 60; ++k) expected[k] = static_cast<uint8_t>(7 * i + k);
    EXPECT_EQ(values, expected);
  }
}

}  // namespace tethys::testing

#endif  // TETHYS_TESTS_RUNTIME_DATA_REFERENCE_SAMPLES_H_
