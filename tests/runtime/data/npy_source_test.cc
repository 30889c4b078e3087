// Tests that arrays written by NumPy are read, and that other files are refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <tuple>
#include <vector>

#include "runtime/base/file.h"
#include "runtime/data/data_format.h"
#include "runtime/data/dataset.h"
#include "tests/runtime/data/reference_samples.h"
#include "tests/testing/temp_directory.h"

namespace tethys {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// A .npy file of format version 1 whose header has the given parts.
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

TEST_F(NpyTest, ArraysWrittenByNumPyAreRead) {
  testing::ExpectReferenceSamples(*LoadDatasets(JobOf(testing::ReferenceFile("numpy_images.npy"),
                                                      testing::ReferenceFile("numpy_labels.npy")))
                                       .value()
                                       .train);
}

TEST_F(NpyTest, FloatLabelsAreReadAsTargetsOfMeanSquaredError) {
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

TEST_F(NpyTest, FloatImagesAreReadAsFloatsWithoutScaling) {
  proto::Job job =
      JobOf(testing::ReferenceFile("numpy_float_images.npy"), testing::ReferenceFile("numpy_labels.npy"));
  EXPECT_EQ(ReadDatasetSizes(job)->type, ValueType::kFloat);
  const Datasets data = LoadDatasets(job).value();
  EXPECT_EQ(data.train->spec(), (SampleSpec{.shape = {4, 5, 3}, .type = ValueType::kFloat}));
  std::vector<float> values(60);
  ASSERT_TRUE(data.train->ReadValues(3, reinterpret_cast<uint8_t*>(values.data())).ok());
  for (int k = 0; k < 60; ++k) EXPECT_EQ(values[k], 21 + k);
}

TEST_F(NpyTest, ValuesThatAreNotFiniteAreRefusedNamingFileAndSample) {
  for (const float wrong : {std::nanf(""), HUGE_VALF, -HUGE_VALF}) {
    std::vector<float> values(4 * 3, 1e38f);  // The sum of these values is not finite.
    const auto content = [&] {
      return Npy("<f4", "(4, 3)",
                 std::string(reinterpret_cast<const char*>(values.data()), 4 * values.size()));
    };
    const auto read = [&] {
      const Datasets data = LoadDatasets(JobOf(directory_.Write("images.npy", content()),
                                               testing::ReferenceFile("numpy_labels.npy")))
                                .value();
      std::vector<float> sample(3);
      return data.train->ReadValues(2, reinterpret_cast<uint8_t*>(sample.data()));
    };
    EXPECT_TRUE(read().ok());
    values[7] = wrong;
    EXPECT_THAT(std::string(read().message()),
                AllOf(HasSubstr("images.npy, sample 2: value 1 is "), HasSubstr("must be finite")));
  }
}

TEST_F(NpyTest, NoteSaysThatImagesSeemToHaveChannelsFirst) {
  const std::string labels = testing::ReferenceFile("numpy_labels.npy");
  for (const auto& [shape, bytes, noted] :
       std::vector<std::tuple<const char*, int, bool>>{{"(4, 3, 32, 32)", 4 * 3 * 32 * 32, true},
                                                       {"(4, 1, 8, 8)", 4 * 64, true},
                                                       {"(4, 3, 20, 30)", 4 * 3 * 600, true},
                                                       {"(4, 32, 32, 3)", 4 * 3 * 32 * 32, false},
                                                       {"(4, 1, 128, 9)", 4 * 128 * 9, false}}) {
    const proto::Job job =
        JobOf(directory_.Write("images.npy", Npy("|u1", shape, std::string(bytes, 1))), labels);
    const std::vector<std::string> notes = ReadDatasetSizes(job).value().notes;
    ASSERT_EQ(notes.size(), noted ? 1 : 0) << shape;
    if (!noted) continue;
    EXPECT_THAT(notes[0], AllOf(HasSubstr("images.npy: samples ["), HasSubstr("if the channels come first")));
  }
}

TEST_F(NpyTest, ArraysInArchivesAreRead) {
  for (const char* archive : {"numpy_stored.npz", "numpy_deflated.npz"}) {
    const std::string path = testing::ReferenceFile(archive);
    const proto::Job job = JobOf(path + "#images", path + "#labels.npy");
    testing::ExpectReferenceSamples(*LoadDatasets(job).value().train);
    EXPECT_THAT(DataFiles(job.data()).value(), ::testing::ElementsAre(path));
    // Arrays of compressed archives are unpacked into memory.
    const bool deflated = archive == std::string("numpy_deflated.npz");
    EXPECT_EQ(FormatOf(job.data()).bytes_held(job.data(), {.shape = {4, 5, 3}}), deflated ? 64 : 4);
  }
  const std::string path = testing::ReferenceFile("numpy_deflated.npz");
  EXPECT_EQ(ReadDatasetSizes(JobOf(path + "#floats", path + "#labels"))->type, ValueType::kFloat);
}

TEST_F(NpyTest, ArrayMissingInAnArchiveIsRefusedListingItsArrays) {
  const std::string path = testing::ReferenceFile("numpy_deflated.npz");
  EXPECT_THAT(ErrorOf(JobOf(path + "#x_train", path + "#labels")),
              AllOf(HasSubstr("numpy_deflated.npz has no array \"x_train\""),
                    HasSubstr("images, labels, floats, names")));
  EXPECT_THAT(ErrorOf(JobOf(path + "#", path + "#labels")), HasSubstr("has no array \"\""));
  EXPECT_THAT(ErrorOf(JobOf(path + "#images", path + "#names")), HasSubstr("pickled objects"));
  EXPECT_THAT(ErrorOf(JobOf(path, path + "#labels")), HasSubstr("name one of its arrays as FILE.npz#ARRAY"));
  EXPECT_THAT(ErrorOf(JobOf(testing::ReferenceFile("numpy_images.npy"), directory_.Path("none.npz#labels"))),
              HasSubstr("none.npz"));
}

// Bytes to change in an archive written by NumPy, and the error that the change causes. If `entry`, `offset`
// counts from the first directory entry, otherwise from the beginning of the file.
struct Damage {
  bool entry;
  size_t offset;
  std::string bytes;
  const char* message;
};

TEST_F(NpyTest, DamagedArchiveIsRefusedNamingTheFile) {
  const std::string good = ReadFile(testing::ReferenceFile("numpy_deflated.npz")).value();
  const size_t entry = good.find("PK\1\2");
  ASSERT_NE(entry, std::string::npos);
  for (const Damage& damage :
       {Damage{true, 16, std::string(1, static_cast<char>(good[entry + 16] ^ 1)), "its checksum is wrong"},
        {true, 24, std::string("\x6f\x01\0\0", 4), "it holds more than the 367 bytes"},
        {true, 24, std::string("\0\x10\0\0", 4), "its directory announces more"},
        {true, 24, std::string("\0\0\0\x7f", 4), "announces more than the file can hold"},
        {true, 20, std::string("\0\x08\0\0", 4), "announces more than the file can hold"},
        {true, 42, std::string("\xff\xff\xff\xff", 4), "announces more than the file can hold"},
        {true, 42, std::string("\1\0\0\0", 4), "its header is not where the directory says"},
        {true, 10, std::string("\x0e\0", 2), "images.npy: the file is packed by method 14"},
        {true, 8, std::string("\1\0", 2), "images.npy: the file is encrypted"},
        {true, 0, "XXXX", "fewer entries than announced"},
        {false, good.size() - 4, std::string("\xff\xff", 2), "its directory lies beyond the end of the file"},
        {false, good.size() - 22, "XXXX", "no zip archive, or a truncated one"},
        {false, 80, "\x12\x34\x56\x78", "images.npy"}}) {
    std::string content = good;
    const size_t at = (damage.entry ? entry : 0) + damage.offset;
    content.replace(at, damage.bytes.size(), damage.bytes);
    const std::string path = directory_.Write("bad.npz", content);
    EXPECT_THAT(ErrorOf(JobOf(path + "#images", testing::ReferenceFile("numpy_labels.npy"))),
                AllOf(HasSubstr("bad.npz"), HasSubstr(damage.message)))
        << damage.message;
  }
  const std::string cut = directory_.Write("bad.npz", good.substr(0, good.size() - 30));
  EXPECT_THAT(ErrorOf(JobOf(cut + "#images", cut + "#labels")),
              HasSubstr("no zip archive, or a truncated one"));
}

TEST_F(NpyTest, IntegersOfEveryTypeCanBeLabels) {
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

TEST_F(NpyTest, ColumnOfLabelsGivesOneLabelPerSample) {
  const std::string labels("\0\1\2\3", 4);
  const proto::Job job = JobOf(testing::ReferenceFile("numpy_images.npy"),
                               directory_.Write("labels.npy", Npy("|u1", "(4, 1)", labels)));
  const absl::StatusOr<Datasets> data = LoadDatasets(job);
  ASSERT_TRUE(data.ok()) << data.status();
  testing::ExpectReferenceSamples(*data->train);
  proto::Job targets = JobOf(testing::ReferenceFile("numpy_images.npy"),
                             directory_.Write("labels.npy", Npy("<f4", "(4, 1)", std::string(16, '\0'))));
  targets.mutable_model()->mutable_loss()->mutable_mean_squared_error();
  EXPECT_EQ(ReadDatasetSizes(targets)->labels, (LabelFormat{.targets = true}));
}

TEST_F(NpyTest, OneHotLabelsAreRefusedWithTheRemedy) {
  for (const auto& [type, bytes] : {std::pair{"|u1", 1}, {"<i8", 8}, {"<f4", 4}}) {
    EXPECT_THAT(ErrorOfLabels(Npy(type, "(4, 4)", std::string(16 * bytes, '\0'))),
                AllOf(HasSubstr("labels.npy: labels [4, 4] of 4 classes look like one-hot"),
                      HasSubstr("write numpy.argmax(labels, 1)")));
  }
}

TEST_F(NpyTest, UnsupportedTypesAreRefusedWithTheRemedy) {
  const std::string values(48, 'x');
  for (const auto& [type, message] : std::vector<std::pair<std::string, std::string>>{
           {"<f8", "values of type <f8 (float64) are not read: write array.astype('float32')"},
           {"<f2", "values of type <f2 (float16) are not read: write array.astype('float32')"},
           {">f4", "values of type >f4 (float32, big-endian) are not read: write array.astype('float32')"},
           {">i4", "values of type >i4 (int32, big-endian) are not read: write array.astype('<i4')"},
           {"|b1", "values of type |b1 (bool) are not read: write array.astype('uint8')"},
           {"<U3", "values of type <U3 (words) are not read: if these are labels, number the classes"},
           {"|S3", "values of type |S3 (words) are not read: if these are labels, number the classes"},
           {"<c8", "values of type <c8 are not read: write an array of integers or of float32"},
           {"", "values of type (none) are not read"},
           {"<i8", "samples of type <i8 (int64) are not read: write array.astype('uint8') if"}}) {
    EXPECT_THAT(ErrorOfImages(Npy(type, "(6, 1)", values)),
                AllOf(HasSubstr("images.npy: " + message), Not(HasSubstr("numpy.save"))));
  }
  for (const std::string& content : {Npy("|u1", "(4, 2, 3)", values, "True"), Npy("|u1", "(0, 2, 3)", "")}) {
    EXPECT_THAT(ErrorOfImages(content), Not(HasSubstr("numpy.save")));
  }
}

TEST_F(NpyTest, FileWithPickledObjectsIsRefused) {
  EXPECT_THAT(
      ErrorOf(JobOf(testing::ReferenceFile("numpy_images.npy"), testing::ReferenceFile("numpy_pickle.npy"))),
      AllOf(HasSubstr("numpy_pickle.npy"), HasSubstr("pickled objects")));
}

TEST_F(NpyTest, FilesThatAreNoUsableNumPyArraysAreRefusedNamingFileAndFault) {
  const std::string values(4 * 6, 'x');
  EXPECT_EQ(ErrorOfImages(Npy("|u1", "(4, 2, 3)", values)), "");
  for (const auto& [content, message] : std::vector<std::pair<std::string, std::string>>{
           {"P", "not an .npy file"},
           {"\x89HDF\r\n\x1a\n and more", "not an .npy file; it is an HDF5 file"},
           {"<html><body>", "not an .npy file; it is an HTML page"},
           {"PK\3\4 and more bytes", "an .npz archive, not an .npy file: name one of its arrays"},
           {std::string("\x93NUMPY\7\0\1\0\0\0", 12), "version 7"},
           {std::string("\x93NUMPY\2\0\xff\xff\xff\xff", 12), "a header of 4294967295 bytes"},
           {Npy("|u1", "(4, 2, 3)", values + "x"), "25 bytes follow it"},
           {Npy("|u1", "(4, 2, 3)", values.substr(1)), "23 bytes follow it"},
           {Npy("|u1", "(4, 9223372036854775807, 3)", values), "truncated or damaged"},
           {Npy("|u1", "(4, 99999999999999999999, 3)", values), "its shape cannot be read"},
           {Npy("|u1", "(4, -2, 3)", values), "its shape cannot be read"},
           {Npy("|u1", "(0, 2, 3)", ""), "the array is empty"},
           {Npy("|u1", "()", "x"), "the array has no axes"},
           {Npy("|u1", "(1,1,1,1,1,1,1,1,1)", "x"), "more than 8 axes"},
           {Npy("|u1", "(24,)", values), "an array [24]: the shape must be [samples, values]"},
           {Npy("|u1", "(4, 2, 3)", values, "True"), "Fortran order"},
           {Npy("|u1", "(2, 4, 3)", values), "holds 2 samples but"}}) {
    EXPECT_THAT(ErrorOfImages(content), AllOf(HasSubstr("images.npy"), HasSubstr(message)));
  }
}

}  // namespace
}  // namespace tethys
