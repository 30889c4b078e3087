#include "runtime/nn/model.h"

#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "runtime/nn/layers/layer_defaults.h"
#include "runtime/nn/layers/window.h"

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

TEST(LayerNumbers, EachNumberRuleNamesAScalarFieldOfItsLayerKind) {
  int numbers = 0;
  ForEachLayerNumber([&](const std::string& path, const NumberRule& rule) {
    ++numbers;
    const std::string kind = path.substr(0, path.find('.'));
    const auto* const field =
        proto::Layer::descriptor()->FindFieldByName(kind)->message_type()->FindFieldByName(rule.field);
    ASSERT_NE(field, nullptr) << path;
    EXPECT_EQ(field->message_type(), nullptr) << path;
  });
  EXPECT_GT(numbers, 20);
}

TEST(Model, VariablesAreNamedByLayerAndLaidOutInOrderOfLayers) {
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

TEST(Model, GradientsBecomeReadyFromTheLastLayerToTheFirst) {
  const Model model =
      Create("layer { flatten {} } layer { dense { units: 5 } } layer { dense { units: 10 } }").value();
  const auto& layers = model.layers();
  const std::vector<Range> order = model.ready_order();
  ASSERT_EQ(order.size(), 2u);
  EXPECT_EQ(order[0].begin, layers[1].variables[0].begin);
  EXPECT_EQ(order[0].end(), layers[1].variables[1].end());
  EXPECT_EQ(order[1].begin, 0);
  EXPECT_EQ(order[1].end(), layers[0].variables[1].end());
}

constexpr char kLenet[] =
    "layer { convolution { filters: 6 kernel_size: 5 padding: SAME activation: RELU } } "
    "layer { max_pooling {} } layer { convolution { filters: 16 kernel_size: 5 } } "
    "layer { max_pooling { size: 3 stride: 2 padding: SAME } } layer { flatten {} } "
    "layer { dense { units: 10 } }";

TEST(Model, FiltersHaveTheOutputAxisFirstAndGreyImagesOneChannel) {
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

TEST(Model, PaddingIsSplitAsInTensorFlow) {
  const Window even = MakeWindow({28, 28, 1}, {.size = 5, .padding = proto::SAME}).value();
  EXPECT_EQ(even.height, (Window::Axis{.size = 5, .stride = 1, .before = 2, .after = 2}));
  const Window odd = MakeWindow({10, 10, 16}, {.size = 3, .stride = 2, .padding = proto::SAME}).value();
  EXPECT_EQ(odd.width, (Window::Axis{.size = 3, .stride = 2, .before = 0, .after = 1}));
  EXPECT_EQ(Create(kLenet).value().layers()[3].output, (Shape{5, 5, 16}));
}

// A block with a shortcut, as in ResNet, and two branches that are joined.
constexpr char kBranches[] =
    "layer { name: 'a' convolution { filters: 4 kernel_size: 3 padding: SAME } } "
    "layer { name: 'b' convolution { filters: 4 kernel_size: 3 padding: SAME activation: TANH } } "
    "layer { name: 'sum' input: 'a' input: 'b' add {} } "
    "layer { name: 'joined' input: 'sum' input: 'a' concatenation {} } "
    "layer { global_average_pooling {} } layer { dense { units: 10 } }";

TEST(Model, LayersReadTheLayersNamedAsTheirInputs) {
  const Model model = Create(kBranches).value();
  const std::vector<std::pair<std::string, std::vector<int>>> expected = {
      {"a", {0}},      {"b", {1}},         {"b/activation", {2}},
      {"sum", {1, 3}}, {"joined", {4, 1}}, {"global_average_pooling_4", {5}},
      {"dense_5", {6}}};
  ASSERT_EQ(model.layers().size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(model.layers()[i].name(), expected[i].first);
    EXPECT_EQ(model.graph().layers()[i].inputs, expected[i].second) << expected[i].first;
  }
  EXPECT_EQ(model.layers()[4].output, (Shape{28, 28, 8}));
  EXPECT_EQ(model.layers()[5].output, Shape{8});
  EXPECT_EQ(model.variables().variables()[2].initial_value, InitialValue::kGlorotUniform);
}

TEST(Model, InputAndOutputOfFlattenAreOneValueInTheGraph) {
  const Model model = Create(
                          "layer { name: 'image' max_pooling {} } layer { name: 'row' flatten {} } "
                          "layer { name: 'a' dense { units: 10 } } layer { name: 'mean' input: 'image' "
                          "average_pooling { size: 14 } } layer { name: 'b' flatten {} } "
                          "layer { name: 'c' dense { units: 10 } } layer { input: 'a' input: 'c' add {} }")
                          .value();
  EXPECT_EQ(model.graph().layers()[1].inputs, std::vector<int>{1});
  EXPECT_EQ(model.graph().layers()[2].inputs, std::vector<int>{1});
  EXPECT_EQ(model.layers()[2].inputs[0], (Shape{14, 14, 1}));
}

TEST(Model, RefusesLayersWithInvalidInputs) {
  const std::string dense = "layer { name: 'd' dense { units: 10 } }";
  ExpectRefused("layer { flatten { } input: 'd' } " + dense,
                "layer[0] 'flatten_0': has the input 'd', which is model.layer[1]");
  ExpectRefused("layer { name: 'x' flatten {} input: 'x' } " + dense, "has itself as its input");
  ExpectRefused("layer { flatten {} input: 'y' } " + dense, "has the input 'y', which is no layer");
  ExpectRefused(
      "layer { flatten {} } layer { name: 'e' dense { units: 3 } } layer { name: 'd' input: "
      "'flatten_0' dense { units: 10 } }",
      "layer[1] 'e': has no reader");
  ExpectRefused("layer { name: 'input' flatten {} } " + dense, "has the name of the batch, 'input'");
  ExpectRefused("layer { flatten {} } layer { input: 'flatten_0' input: 'input' dense { units: 10 } }",
                "layer[1] 'dense_1': has 2 inputs; this kind of layer takes at most 1");
  ExpectRefused("layer { flatten {} } layer { add {} }",
                "layer[1] 'add_1': has one input, but add needs two");
  ExpectRefused("layer { flatten {} } layer { input: 'flatten_0' input: 'input' add {} }",
                "its inputs have shapes [784] and [28, 28]");
  ExpectRefused("layer { name: 'p' max_pooling {} } layer { input: 'p' input: 'input' concatenation {} }",
                "shapes [14, 14, 1] and [28, 28], but concatenation joins");
  ExpectRefused("layer { activate {} }", "activation is ACTIVATION_NONE");
  ExpectRefused("layer { flatten {} } layer { average_pooling {} }", "average pooling needs images");
  ExpectRefused("layer { average_pooling { size: 29 } }", "window of 29 is larger than the height 28");
  ExpectRefused("layer { flatten {} } layer { global_average_pooling {} }", "needs images");
}

TEST(Model, ConvolutionHasTheShapesOfItsGroupsDilationAndPad) {
  const Model model =
      Create(
          "layer { convolution { filters: 6 kernel_size: 3 pad: 2 dilation: 2 bias: false } } "
          "layer { convolution { filters: 12 kernel_size: 3 stride: 2 pad: 1 groups: 6 } } "
          "layer { max_pooling { size: 3 stride: 2 pad: 1 } } layer { flatten {} } "
          "layer { dense { units: 10 } }")
          .value();
  EXPECT_EQ(model.layers()[0].output, (Shape{28, 28, 6}));
  EXPECT_EQ(model.layers()[0].variables.size(), 1u);
  EXPECT_EQ(model.layers()[1].output, (Shape{14, 14, 12}));
  EXPECT_EQ(model.layers()[2].output, (Shape{7, 7, 12}));
  EXPECT_EQ(model.variables().Find("convolution_0/bias"), nullptr);
  const Variable& filters = *model.variables().Find("convolution_1/filters");
  EXPECT_EQ(filters.shape, (Shape{12, 3, 3, 1}));
  EXPECT_EQ(filters.fan_in, 9);
  EXPECT_EQ(filters.fan_out, 9 * 12);
  EXPECT_EQ(model.ready_order().back(), model.variables().variables()[0].range);
}

TEST(Model, RefusesImpossibleConvolutions) {
  const auto convolution = [](const std::string& fields) {
    return "layer { convolution { filters: 4 kernel_size: 3 " + fields + " } }";
  };
  ExpectRefused(convolution("groups: 3"),
                "groups is 3, which does not divide both the 1 channels of its input");
  ExpectRefused(convolution("") + convolution("groups: 8"), "layer[1] 'convolution_1': groups is 8");
  ExpectRefused(convolution("pad: 1 padding: SAME"), "has both pad and padding: SAME");
  ExpectRefused(convolution("pad: 3"), "pad is 3; it must be at least 0 and less than the window of 3");
  ExpectRefused(convolution("pad: -1"), "pad is -1");
  ExpectRefused(convolution("dilation: 0"), "dilation is 0");
  ExpectRefused(convolution("initializer: BILINEAR"), "BILINEAR, which is for transposed convolutions");
  ExpectRefused(convolution("dilation: 14"), "its window of 29 (with dilation) is larger than the height 28");
  ExpectRefused("layer { convolution { filters: 4 kernel_size: 31 pad: 1 } }", "or a larger pad");
  ExpectRefused(convolution("dilation: 9223372036854775807"), "is larger than any image can be");
  ExpectRefused("layer { max_pooling { pad: 2 } }",
                "pad is 2; it must be at least 0 and less than the window of 2");
}

TEST(Model, RefusesImageLayersThatDoNotFitTheirInput) {
  ExpectRefused("layer { flatten {} } layer { convolution { filters: 2 kernel_size: 3 } }",
                "layer[1] 'convolution_1': its input has shape [784], but a convolution needs images");
  ExpectRefused("layer { flatten {} } layer { max_pooling {} }", "place this layer before any flatten");
  ExpectRefused("layer { convolution { filters: 2 kernel_size: 29 } }",
                "layer[0] 'convolution_0': its window of 29 is larger than the height 28");
  ExpectRefused("layer { max_pooling { size: 15 } } layer { max_pooling {} }", "layer[1] 'max_pooling_1'");
  ExpectRefused("layer { convolution { filters: 0 kernel_size: 3 } }", "filters is 0");
  ExpectRefused("layer { convolution { filters: 2 } }", "the window's size is 0");
  ExpectRefused("layer { max_pooling { stride: -1 } }", "stride is -1");
  ExpectRefused("layer { convolution { filters: 9223372036854775807 kernel_size: 3 } }", "exceeds");
  ExpectRefused("layer { convolution { filters: 2 kernel_size: 4611686018427387904 padding: SAME } }",
                "is larger than any image can be");
  ExpectRefused("layer { convolution { filters: 2 kernel_size: 3 } } layer { dense { units: 10 } }",
                "[26, 26, 2], but a dense layer needs one axis");
}

TEST(Model, ParametersAreInitialisedByTheConfiguredInitializer) {
  const Model model =
      Create("layer { flatten {} } layer { dense { units: 10 initializer: HE_NORMAL } }").value();
  EXPECT_EQ(model.variables().variables()[0].initial_value, InitialValue::kHeNormal);
}

TEST(Model, RefusesUntrainableModels) {
  ExpectRefused("", "no layer with variables");
  ExpectRefused("layer { flatten {} }", "no layer with variables");
  ExpectRefused("layer { name: 'a' }", "layer[0] 'a'");
  ExpectRefused("layer { name: '' flatten {} }", "layer[0]: has an empty name");
  ExpectRefused("layer { dense { units: 10 } }", "put a flatten layer before this layer");
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

TEST(Model, BatchNormalisationAddsVariablesAndStatistics) {
  const Model model = Create(
                          "layer { convolution { filters: 6 kernel_size: 5 } } "
                          "layer { name: 'norm' batch_normalisation { activation: TANH } } "
                          "layer { flatten {} } layer { dense { units: 10 } }")
                          .value();
  const auto variables = model.variables().variables();
  ASSERT_EQ(variables.size(), 6u);
  EXPECT_EQ(variables[2].name, "norm/scale");
  EXPECT_EQ(variables[2].shape, Shape{6});
  EXPECT_EQ(variables[2].initial_value, InitialValue::kOnes);
  EXPECT_EQ(variables[3].name, "norm/offset");
  EXPECT_EQ(variables[3].shape, Shape{6});
  EXPECT_EQ(variables[3].initial_value, InitialValue::kZeros);
  const auto statistics = model.statistics().variables();
  ASSERT_EQ(statistics.size(), 2u);
  EXPECT_EQ(statistics[0].name, "norm/moving_mean");
  EXPECT_EQ(statistics[0].shape, Shape{6});
  EXPECT_EQ(statistics[0].initial_value, InitialValue::kZeros);
  EXPECT_EQ(statistics[1].name, "norm/moving_variance");
  EXPECT_EQ(statistics[1].initial_value, InitialValue::kOnes);
  EXPECT_EQ(statistics[1].range, (Range{16, 6}));
  EXPECT_EQ(model.statistics().arena_size(), 32);
  EXPECT_EQ(model.layers()[1].statistics, (std::vector<Range>{statistics[0].range, statistics[1].range}));
  EXPECT_EQ(model.layers()[2].name(), "norm/activation");
}

TEST(Model, ModelWithoutBatchNormalisationHasNoStatistics) {
  EXPECT_EQ(Create(kLenet).value().statistics().arena_size(), 0);
}

TEST(Model, InitialScalesAndMovingVariancesAreOne) {
  const Model model = Create(
                          "layer { name: 'norm' batch_normalisation {} } layer { flatten {} } "
                          "layer { dense { units: 10 } }")
                          .value();
  std::vector<float> values(32);
  model.variables().FillInitialValues(7, {0, 32}, values.data());
  EXPECT_EQ(values[0], 1) << "scale";
  EXPECT_EQ(values[16], 0) << "offset";
  EXPECT_EQ(values[1], 0) << "padding";
  model.statistics().FillInitialValues(7, {0, 32}, values.data());
  EXPECT_EQ(values[0], 0) << "moving mean";
  EXPECT_EQ(values[16], 1) << "moving variance";
}

TEST(Model, ReadyRangeOfANormalisationSpansScaleAndOffset) {
  const Model model = Create(
                          "layer { convolution { filters: 20 kernel_size: 5 } } "
                          "layer { name: 'norm' batch_normalisation { activation: RELU } } "
                          "layer { flatten {} } layer { dense { units: 10 } }")
                          .value();
  const std::vector<Range> order = model.ready_order();
  ASSERT_EQ(order.size(), 3u);
  EXPECT_EQ(order[1].begin, model.variables().Find("norm/scale")->range.begin);
  EXPECT_EQ(order[1].end(), model.variables().Find("norm/offset")->range.end());
  EXPECT_EQ(order[1].count, 32 + 20);
}

TEST(Model, GreyImageIsNormalisedAsOneChannel) {
  const auto with_shape = [](const Shape& shape) {
    return Create("layer { batch_normalisation {} } layer { flatten {} } layer { dense { units: 10 } }",
                  shape)
        .value();
  };
  const Model grey = with_shape({28, 28}), image = with_shape({28, 28, 3}), vector = with_shape({28});
  EXPECT_EQ(grey.statistics().variables()[0].shape, Shape{1});
  EXPECT_EQ(grey.layers()[0].operation->Describe(), "batch normalisation of 784 x 1");
  EXPECT_EQ(grey.layers()[0].output, (Shape{28, 28}));
  EXPECT_EQ(image.statistics().variables()[0].shape, Shape{3});
  EXPECT_EQ(image.layers()[0].operation->Describe(), "batch normalisation of 784 x 3");
  EXPECT_EQ(vector.statistics().variables()[0].shape, Shape{28});
  EXPECT_EQ(vector.layers()[0].operation->Describe(), "batch normalisation of 1 x 28");
}

TEST(Model, BatchNormalisationOfVectorsButNotOfImagesNeedsTwoSamples) {
  const std::string norm = "layer { name: 'norm' batch_normalisation {} } ";
  const std::string dense = "layer { flatten {} } layer { dense { units: 10 } } ";
  const Model vectors = Create(dense + norm).value(), images = Create(norm + dense).value();
  const absl::Status status = vectors.CheckBatch(1);
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("layer 'norm' (batch normalisation of 1 x 10)"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("at least 2 samples"));
  EXPECT_TRUE(vectors.CheckBatch(2).ok());
  EXPECT_TRUE(images.CheckBatch(1).ok());
  EXPECT_TRUE(Create(dense).value().CheckBatch(1).ok());
  EXPECT_FALSE(Create(norm + dense, {1, 1, 3}).value().CheckBatch(1).ok()) << "images of one pixel";
}

TEST(Model, RefusesTooManyStatistics) {
  const std::string layers = "layer { name: 'norm' batch_normalisation {} } layer { dense { units: 2 } }";
  constexpr int64_t kMost = int64_t{1} << 18;  // A model may have 2^19 statistics; a channel has two.
  EXPECT_EQ(Create(layers, {kMost}, 2).value().statistics().arena_size(), int64_t{1} << 19);
  const absl::Status status = Create(layers, {kMost + 1}, 2).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("layer[0] 'norm': with moving_variance [262145] the model exceeds 524288 elements"));
  EXPECT_FALSE(Create(layers, {2 * kMost + 1}, 2).ok());
}

TEST(Model, RefusesImpossibleDecayAndEpsilon) {
  for (const char* fields : {"decay: 0", "decay: 1", "decay: 1.5", "decay: -0.5", "decay: nan",
                             "decay: 0.999999999", "epsilon: 0", "epsilon: -1", "epsilon: nan"}) {
    ExpectRefused(absl::StrCat("layer { name: 'norm' batch_normalisation { ", fields,
                               " } } layer { flatten {} } layer { dense { units: 10 } }"),
                  "layer[0] 'norm': batch normalisation has epsilon ");
  }
}

constexpr char kTwoBlocks[] =
    "layer { name: 'a' convolution { filters: 2 kernel_size: 3 } } "
    "layer { name: 'norm' batch_normalisation {} } layer { flatten {} } layer { name: 'head' dense { units: "
    "10 } }";

TEST(Model, ReadyOrderOfGradientsLeavesOutFrozenLayers) {
  const Model model = Create(absl::StrCat(kTwoBlocks, " frozen: 'a' frozen: 'norm'")).value();
  EXPECT_EQ(model.ready_order().size(), 1u);
  EXPECT_EQ(model.ready_order()[0].begin, model.variables().Find("head/weights")->range.begin);
  const std::vector<Range> frozen = model.variables().frozen();
  ASSERT_EQ(frozen.size(), 4u);
  EXPECT_EQ(frozen[0], model.variables().Find("a/filters")->range);
  EXPECT_EQ(frozen[3], model.variables().Find("norm/offset")->range);
  EXPECT_FALSE(model.graph().runs_backward(1));
  EXPECT_TRUE(model.graph().runs_backward(2));
}

TEST(Model, FrozenLayersBetweenTrainedLayersPassGradientsOn) {
  const Model model =
      Create(
          "layer { flatten {} } layer { name: 'a' dense { units: 5 } } "
          "layer { name: 'b' dense { units: 5 } trainable: false } layer { name: 'c' dense { units: 10 } }")
          .value();
  EXPECT_EQ(model.ready_order().size(), 2u);
  EXPECT_TRUE(model.graph().runs_backward(1));
}

TEST(Model, RefusesToFreezeAllLayersOrANormalisationAfterATrainedLayer) {
  ExpectRefused(absl::StrCat(kTwoBlocks, " frozen: 'norm'"), "layer 'norm'");
  ExpectRefused(absl::StrCat(kTwoBlocks, " frozen: 'norm'"),
                "gradients do not pass through moving statistics");
  ExpectRefused(absl::StrCat(kTwoBlocks, " frozen: ''"), "nothing to train");
}

TEST(ModelTest, ImpossibleTransposedConvolutionsAreRefused) {
  const auto layers = [](const std::string& fields) {
    return "layer { transposed_convolution { filters: 2 " + fields + " } } layer { flatten {} } " +
           "layer { dense { units: 10 } }";
  };
  ExpectRefused(layers("kernel_size: 3 pad: 1 padding: SAME"), "has both pad and padding: SAME");
  ExpectRefused(layers("kernel_size: 3 pad: 3"), "pad is 3; it must be at least 0 and less than the window");
  ExpectRefused(layers("kernel_size: 0"), "the window's size is 0");
  ExpectRefused(layers("kernel_size: 3 stride: 0"), "stride is 0");
  ExpectRefused("layer { flatten {} } " + layers("kernel_size: 3"), "a transposed convolution needs images");
  ExpectRefused("layer { global_average_pooling {} } " + layers("kernel_size: 3"), "needs images");
  ExpectRefused("layer { max_pooling { size: 28 } } " + layers("kernel_size: 2 pad: 1"),
                "pad 1 leaves nothing of the output of 2 pixels");
}

}  // namespace
}  // namespace tethys
