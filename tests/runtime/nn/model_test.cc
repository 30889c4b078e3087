#include "runtime/nn/model.h"

#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace tethys {
namespace {

using testing::HasSubstr;

absl::StatusOr<Model> Create(const std::string& text, const Shape& sample_shape = {28, 28},
                             int64_t classes = 10) {
  proto::Model config;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &config));
  return Model::Create(config, sample_shape, classes);
}

void ExpectRefused(const std::string& text, const std::string& message) {
  const absl::StatusOr<Model> model = Create(text);
  EXPECT_EQ(model.status().code(), absl::StatusCode::kInvalidArgument) << text;
  EXPECT_THAT(StatusText(model.status()), HasSubstr(message));
}

TEST(Model, NamesVariablesByLayerAndLaysThemOutInOrder) {
  const Model model = Create(
                          "layer { flatten {} } layer { dense { units: 100 activation: RELU } } "
                          "layer { name: 'logits' dense { units: 10 } }")
                          .value();
  const auto variables = model.variables().variables();
  ASSERT_EQ(variables.size(), 4u);
  EXPECT_EQ(variables[0].name, "dense_1/weights");
  EXPECT_EQ(variables[0].shape, (Shape{784, 100}));
  EXPECT_EQ(variables[0].initial_value, InitialValue::kHeNormal);
  EXPECT_EQ(variables[1].name, "dense_1/bias");
  EXPECT_EQ(variables[1].initial_value, InitialValue::kZeros);
  EXPECT_EQ(variables[2].name, "logits/weights");
  EXPECT_EQ(variables[2].initial_value, InitialValue::kGlorotUniform);
  EXPECT_EQ(model.variables().element_count(), 784 * 100 + 100 + 1000 + 10);
}

TEST(Model, ReadyOrderIsFromTheLastLayerToTheFirst) {
  const Model model =
      Create("layer { flatten {} } layer { dense { units: 5 } } layer { dense { units: 10 } }").value();
  const auto& layers = model.layers();
  const std::vector<Range> order = model.ready_order();
  ASSERT_EQ(order.size(), 2u);
  EXPECT_EQ(order[0].begin, layers[1].weights.begin);
  EXPECT_EQ(order[0].end(), layers[1].bias.end());
  EXPECT_EQ(order[1].begin, 0);
  EXPECT_EQ(order[1].end(), layers[0].bias.end());
}

constexpr char kLenet[] =
    "layer { convolution { filters: 6 kernel_size: 5 padding: SAME activation: RELU } } "
    "layer { max_pooling {} } layer { convolution { filters: 16 kernel_size: 5 } } "
    "layer { max_pooling { size: 3 stride: 2 padding: SAME } } layer { flatten {} } "
    "layer { dense { units: 10 } }";

TEST(Model, FiltersAreLaidOutByOutputAndGreyImagesHaveOneChannel) {
  const Model model = Create(kLenet).value();
  const auto variables = model.variables().variables();
  ASSERT_EQ(variables.size(), 6u);
  EXPECT_EQ(variables[0].name, "convolution_0/filters");
  EXPECT_EQ(variables[0].shape, (Shape{6, 5, 5, 1}));
  EXPECT_EQ(variables[0].layout, "out,height,width,in");
  EXPECT_EQ(variables[0].initial_value, InitialValue::kHeNormal);
  EXPECT_EQ(variables[2].name, "convolution_2/filters");
  EXPECT_EQ(variables[2].shape, (Shape{16, 5, 5, 6}));
  EXPECT_EQ(variables[2].fan_in, 5 * 5 * 6);
  EXPECT_EQ(variables[2].fan_out, 5 * 5 * 16);
  EXPECT_EQ(variables[4].shape, (Shape{5 * 5 * 16, 10}));
  EXPECT_EQ(model.ready_order().size(), 3u);
}

TEST(Model, SplitsPaddingAsTensorFlowDoes) {
  const Model model = Create(kLenet).value();
  const Window even = std::get<ConvolutionShape>(model.layers()[0].shape).window;
  EXPECT_EQ(even.height, (Window::Axis{.size = 5, .stride = 1, .before = 2, .after = 2}));
  const MaxPoolingShape pooling = std::get<MaxPoolingShape>(model.layers()[3].shape);
  EXPECT_EQ(pooling.window.width, (Window::Axis{.size = 3, .stride = 2, .before = 0, .after = 1}));
  EXPECT_EQ(pooling.output(), (ImageShape{5, 5, 16}));
}

TEST(Model, RefusesImageLayersThatDoNotFitTheirInput) {
  ExpectRefused("layer { flatten {} } layer { convolution { filters: 2 kernel_size: 3 } }",
                "layer[1] 'convolution_1': its input has shape [784], but a convolution needs images");
  ExpectRefused("layer { flatten {} } layer { max_pooling {} }", "put it before the flatten");
  ExpectRefused("layer { convolution { filters: 2 kernel_size: 29 } }",
                "layer[0] 'convolution_0': its window of 29 is larger than the height 28");
  ExpectRefused("layer { max_pooling { size: 15 } } layer { max_pooling {} }", "layer[1] 'max_pooling_1'");
  ExpectRefused("layer { convolution { filters: 0 kernel_size: 3 } }", "filters is 0");
  ExpectRefused("layer { convolution { filters: 2 } }", "the window's size is 0");
  ExpectRefused("layer { max_pooling { stride: -1 } }", "stride is -1");
  ExpectRefused("layer { convolution { filters: 9223372036854775807 kernel_size: 3 } }", "exceeds");
  ExpectRefused("layer { convolution { filters: 2 kernel_size: 4611686018427387904 padding: SAME } }",
                "exceeds");
  ExpectRefused("layer { convolution { filters: 2 kernel_size: 3 } } layer { dense { units: 10 } }",
                "[26, 26, 2], but a dense layer needs one axis");
}

TEST(Model, UsesTheConfiguredInitializer) {
  const Model model =
      Create("layer { flatten {} } layer { dense { units: 10 initializer: HE_NORMAL } }").value();
  EXPECT_EQ(model.variables().variables()[0].initial_value, InitialValue::kHeNormal);
}

TEST(Model, RefusesUntrainableModels) {
  ExpectRefused("", "no dense layer");
  ExpectRefused("layer { flatten {} }", "no dense layer");
  ExpectRefused("layer { name: 'a' }", "layer[0] 'a'");
  ExpectRefused("layer { name: '' flatten {} }", "layer[0]: its name is empty");
  ExpectRefused("layer { dense { units: 10 } }", "put a flatten before it");
  ExpectRefused("layer { flatten {} } layer { dense { units: 0 } }", "units is 0");
  ExpectRefused("layer { flatten {} } layer { dense { units: -3 } }", "units is -3");
  ExpectRefused("layer { flatten {} } layer { dense { units: 9 } }", "data.classes is 10");
  ExpectRefused("layer { flatten {} } layer { dense { units: 9223372036854775807 } }", "exceeds");
  ExpectRefused(
      "layer { flatten {} } layer { name: 'a' dense { units: 5 } } layer { name: 'a' dense { units: 10 } }",
      "layer[2] 'a'");
  EXPECT_FALSE(Create("layer { flatten {} } layer { dense { units: 10 } }", {0, 28}).ok());
  EXPECT_FALSE(
      Create("layer { flatten {} } layer { dense { units: 10 } }", {int64_t{1} << 40, int64_t{1} << 40})
          .ok());
}

}  // namespace
}  // namespace tethys
