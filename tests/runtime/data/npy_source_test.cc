// Arrays that NumPy wrote are read, and others refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "runtime/data/dataset.h"
#include "tests/runtime/data/reference_samples.h"
#include "tests/testing/temp_directory.h"

namespace tethys {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// A file of version 1 with this header.
std::string Npy(const std::string& descr, const std::string& shape, const std::string& values,
                const std::string& order = "False") {
  std::string header = "{'descr': '" + descr + "', 'fortran_order': " + order + ", 'shape': " + shape + ", }";
  header.resize(118, ' ');
  return std::string("\x93NUMPY\1\0", 8) + std::string("\x76\0", 2) + header + values;
}

class NpyTest : public ::testing::Test {
 protected:
  static proto::Job JobOf(const std::string& images, const std::string& labels) {
    proto::Job job;
    job.mutable_data()->set_classes(4);
    job.mutable_data()->mutable_npy()->set_train_images(images);
    job.mutable_data()->mutable_npy()->set_train_labels(labels);
    return job;
  }
  std::string ErrorOfImages(const std::string& content) {
    return ErrorOf(
        JobOf(directory_.Write("images.npy", content), testing::ReferenceFile("numpy_labels.npy")));
  }
  std::string ErrorOfLabels(const std::string& content) {
    return ErrorOf(
        JobOf(testing::ReferenceFile("numpy_images.npy"), directory_.Write("labels.npy", content)));
  }
  static std::string ErrorOf(const proto::Job& job) {
    return std::string(LoadDatasets(job).status().message());
  }

  const testing::TempDirectory directory_;
};

TEST_F(NpyTest, ArraysOfNumPyHaveItsSamples) {
  testing::ExpectReferenceSamples(*LoadDatasets(JobOf(testing::ReferenceFile("numpy_images.npy"),
                                                      testing::ReferenceFile("numpy_labels.npy")))
                                       .value()
                                       .train);
}

TEST_F(NpyTest, FloatsAreTargets) {
  proto::Job job =
      JobOf(testing::ReferenceFile("numpy_images.npy"), testing::ReferenceFile("numpy_floats.npy"));
  EXPECT_THAT(ErrorOf(job), AllOf(HasSubstr("values of type <f4"), HasSubstr("takes classes")));
  job.mutable_model()->mutable_loss()->mutable_mean_squared_error();
  const Datasets data = LoadDatasets(job).value();
  for (int i = 0; i < 4; ++i) {
    float target = -1;
    ASSERT_TRUE(data.train->ReadLabels(i, reinterpret_cast<int32_t*>(&target)).ok());
    EXPECT_EQ(target, static_cast<float>(i) / 2);
  }
}

TEST_F(NpyTest, IntegersOfEveryTypeAreLabels) {
  for (const auto& [type, bytes] : {std::pair{"|u1", 1},
                                    {"|i1", 1},
                                    {"<u2", 2},
                                    {"<i2", 2},
                                    {"<u4", 4},
                                    {"<i4", 4},
                                    {"<u8", 8},
                                    {"<i8", 8}}) {
    std::string values;
    for (const char label : {0, 1, 2, 3}) values += label + std::string(bytes - 1, '\0');
    EXPECT_EQ(ErrorOfLabels(Npy(type, "(4,)", values)), "") << type;
    values.back() = '\x7f';
    EXPECT_THAT(ErrorOfLabels(Npy(type, "(4,)", values)), HasSubstr("of sample 3 is outside the 4 classes"))
        << type;
    values = std::string(4 * bytes, '\xff');
    EXPECT_THAT(ErrorOfLabels(Npy(type, "(4,)", values)), HasSubstr("of sample 0 is outside")) << type;
  }
}

TEST_F(NpyTest, PicklesAreRefusedAndNeverRead) {
  EXPECT_THAT(
      ErrorOf(JobOf(testing::ReferenceFile("numpy_images.npy"), testing::ReferenceFile("numpy_pickle.npy"))),
      AllOf(HasSubstr("numpy_pickle.npy"), HasSubstr("pickled objects")));
}

TEST_F(NpyTest, FilesThatAreNoSuchArraysAreRefusedNamingThem) {
  const std::string values(4 * 6, 'x');
  EXPECT_EQ(ErrorOfImages(Npy("|u1", "(4, 2, 3)", values)), "");
  for (const auto& [content, message] : std::vector<std::pair<std::string, std::string>>{
           {"P", "not an .npy file"},
           {"PK\3\4 and more bytes", "an .npz archive"},
           {std::string("\x93NUMPY\7\0\1\0\0\0", 12), "version 7"},
           {std::string("\x93NUMPY\2\0\xff\xff\xff\xff", 12), "a header of 4294967295 bytes"},
           {Npy("|u1", "(4, 2, 3)", values + "x"), "25 bytes follow it"},
           {Npy("|u1", "(4, 2, 3)", values.substr(1)), "23 bytes follow it"},
           {Npy("|u1", "(4, 9223372036854775807, 3)", values), "truncated or damaged"},
           {Npy("|u1", "(4, 99999999999999999999, 3)", values), "its shape cannot be read"},
           {Npy("|u1", "(4, -2, 3)", values), "its shape cannot be read"},
           {Npy("|u1", "(0, 2, 3)", ""), "the array is empty"},
           {Npy("|u1", "()", "x"), "no axis of samples"},
           {Npy("|u1", "(1,1,1,1,1,1,1,1,1)", "x"), "more than 8 axes"},
           {Npy("|u1", "(4, 6)", values), "samples must be bytes (numpy.uint8)"},
           {Npy("<f4", "(1, 2, 3)", values), "samples must be bytes (numpy.uint8)"},
           {Npy("<f8", "(1, 1, 3)", values), "values of type <f8 are not read"},
           {Npy("|u1", "(4, 2, 3)", values, "True"), "Fortran's order"},
           {Npy("|u1", "(2, 4, 3)", values), "holds 2 samples but"}}) {
    EXPECT_THAT(ErrorOfImages(content), AllOf(HasSubstr("images.npy"), HasSubstr(message)));
  }
}

}  // namespace
}  // namespace tethys
