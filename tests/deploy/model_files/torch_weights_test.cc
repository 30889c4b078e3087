#include "deploy/model_files/torch_weights.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>

#include <numeric>

namespace tethys {
namespace {

using ::testing::HasSubstr;

struct Named {
  proto::Model config;
  Model model;
};

Named Parse(const std::string& text, const Shape& sample_shape, int64_t classes) {
  proto::Model config;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &config)) << text;
  return {config, Model::Create(config, sample_shape, classes).value()};
}

absl::StatusOr<std::vector<TorchTensor>> TensorsOf(const Named& named) {
  return TorchTensorsOf(named.config, named.model);
}

TEST(TorchWeights, ResnetHasTorchvisionsNamesAndShapes) {
  const auto tensors = TensorsOf(Parse("resnet { depth: 18 }", {64, 64, 3}, 1000));
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  // torchvision's resnet18 has 122 entries, of which 20 are num_batches_tracked.
  EXPECT_EQ(tensors->size(), 102u);
  EXPECT_EQ((*tensors)[0].name, "conv1.weight");
  EXPECT_EQ((*tensors)[0].shape, (Shape{64, 3, 7, 7}));
  EXPECT_EQ((*tensors)[1].name, "bn1.weight");
  EXPECT_EQ((*tensors)[3].name, "bn1.running_mean");
  EXPECT_TRUE((*tensors)[3].statistic);
  EXPECT_EQ(tensors->back().name, "fc.bias");
  EXPECT_EQ((*tensors)[tensors->size() - 2].shape, (Shape{1000, 512}));
}

// Element [out, c, h, w] of PyTorch's filters is element [out, h, w, c] of Tethys's filters.
TEST(TorchWeights, FiltersAreTransposed) {
  const auto tensors =
      TensorsOf(Parse("layer { name: 'a' convolution { filters: 2 kernel_size: 2 } } layer { flatten {} } "
                      "layer { dense { units: 3 } }",
                      {3, 3, 5}, 3));
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  const TorchTensor& filters = (*tensors)[0];
  ASSERT_EQ(filters.shape, (Shape{2, 5, 2, 2}));
  std::vector<float> ours(40), torch(40), back(40);
  std::iota(ours.begin(), ours.end(), 0.0f);
  ToTorchLayout(filters, ours, absl::MakeSpan(torch));
  for (int out = 0; out < 2; ++out) {
    for (int c = 0; c < 5; ++c) {
      for (int h = 0; h < 2; ++h) {
        for (int w = 0; w < 2; ++w) {
          EXPECT_EQ(torch[((out * 5 + c) * 2 + h) * 2 + w], ours[((out * 2 + h) * 2 + w) * 5 + c]);
        }
      }
    }
  }
  FromTorchLayout(filters, torch, absl::MakeSpan(back));
  EXPECT_EQ(back, ours);
}

// PyTorch flattens images in the order [c, h, w]. In this test a dropout and a second flatten come between
// the images and the weights.
TEST(TorchWeights, WeightsAfterAFlattenAreInPyTorchsOrder) {
  const auto tensors =
      TensorsOf(Parse("layer { name: 'a' convolution { filters: 4 kernel_size: 2 } } layer { flatten {} } "
                      "layer { dropout {} } layer { flatten {} } layer { name: 'fc' dense { units: 3 } } "
                      "layer { name: 'last' dense { units: 2 } }",
                      {3, 4}, 2));
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  const TorchTensor& weights = (*tensors)[2];
  ASSERT_EQ(weights.name, "fc.weight");
  ASSERT_EQ(weights.shape, (Shape{3, 24}));  // The image is [2, 3, 4].
  std::vector<float> ours(72), torch(72);
  std::iota(ours.begin(), ours.end(), 0.0f);
  ToTorchLayout(weights, ours, absl::MakeSpan(torch));
  for (int out = 0; out < 3; ++out) {
    for (int c = 0; c < 4; ++c) {
      for (int h = 0; h < 2; ++h) {
        for (int w = 0; w < 3; ++w) {
          EXPECT_EQ(torch[out * 24 + (c * 2 + h) * 3 + w], ours[((h * 3 + w) * 4 + c) * 3 + out]);
        }
      }
    }
  }
  // These weights come after a dense layer, not after a flatten, so they are only transposed.
  EXPECT_EQ((*tensors)[4].order, (std::vector<int>{1, 0}));
}

TEST(TorchWeights, BatchNormalisationOrConcatenationOfFlattenedImagesIsRefused) {
  for (const char* between : {"layer { name: 'x' batch_normalisation {} }",
                              "layer { name: 'x' input: 'flat' input: 'flat' concatenation {} }"}) {
    const auto tensors =
        TensorsOf(Parse(absl::StrCat("layer { name: 'a' convolution { filters: 4 kernel_size: 2 } } "
                                     "layer { name: 'flat' flatten {} } ",
                                     between, " layer { dense { units: 2 } }"),
                        {3, 4}, 2));
    EXPECT_TRUE(absl::IsInvalidArgument(tensors.status())) << between;
    EXPECT_THAT(std::string(tensors.status().message()), HasSubstr("layer 'x'"));
    EXPECT_THAT(std::string(tensors.status().message()), HasSubstr("[2, 3, 4]"));
  }
}

}  // namespace
}  // namespace tethys
