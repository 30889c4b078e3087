#include "deploy/model_files/onnx_model.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>

#include <cstring>
#include <set>

namespace tethys {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatEq;
using ::testing::HasSubstr;

// A network with every kind of layer.
constexpr char kEveryKind[] = R"(
  layer { name: 'a' convolution { filters: 4 kernel_size: 3 stride: 2 padding: SAME activation: RELU6 } }
  layer { name: 'norm' batch_normalisation { epsilon: 0.01 } }
  layer { input: 'a' input: 'norm' add {} }
  layer { name: 'c' activate { activation: TANH } }
  layer { name: 'max' max_pooling { size: 3 stride: 1 padding: SAME } }
  layer { name: 'mean' input: 'c' average_pooling { size: 3 stride: 1 pad: 1 count_padding: true } }
  layer { input: 'max' input: 'mean' concatenation {} }
  layer { name: 'joined' dropout {} }
  layer { name: 'up' transposed_convolution { filters: 2 kernel_size: 5 stride: 2 padding: SAME } }
  layer { name: 'global' global_average_pooling {} }
  layer { name: 'flat' input: 'joined' flatten {} }
  layer { name: 'logits' dense { units: 3 activation: SIGMOID } }
  layer { input: 'global' input: 'logits' concatenation {} }
  layer { name: 'last' dense { units: 2 } }
)";

// Gives every element of a variable its own index as its value.
absl::Status Positions(const Variable&, bool, absl::Span<float> values) {
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  return absl::OkStatus();
}

proto::Model Parse(const std::string& text) {
  proto::Model config;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &config)) << text;
  return config;
}

absl::StatusOr<proto::onnx::ModelProto> Export(const std::string& text, const Shape& sample_shape,
                                               int64_t classes, const InputScaling& scaling = {}) {
  const proto::Model config = Parse(text);
  TETHYS_ASSIGN_OR_RETURN(const Model model, Model::Create(config, sample_shape, classes));
  return MakeOnnxModel(config, model, scaling, Positions);
}

const proto::onnx::NodeProto& Node(const proto::onnx::ModelProto& file, const char* output) {
  for (const proto::onnx::NodeProto& node : file.graph().node()) {
    if (node.output(0) == output) return node;
  }
  ADD_FAILURE() << "no node gives " << output;
  return proto::onnx::NodeProto::default_instance();
}

const proto::onnx::AttributeProto& Attribute(const proto::onnx::NodeProto& node, const std::string& name) {
  for (const proto::onnx::AttributeProto& attribute : node.attribute()) {
    if (attribute.name() == name) return attribute;
  }
  ADD_FAILURE() << node.name() << " has no " << name;
  return proto::onnx::AttributeProto::default_instance();
}

std::vector<float> Values(const proto::onnx::ModelProto& file, const std::string& name) {
  std::vector<float> values;
  for (const proto::onnx::TensorProto& tensor : file.graph().initializer()) {
    if (tensor.name() != name) continue;
    values.resize(tensor.raw_data().size() / sizeof(float));
    std::memcpy(values.data(), tensor.raw_data().data(), tensor.raw_data().size());
  }
  return values;
}

std::vector<int64_t> Dimensions(const proto::onnx::ModelProto& file, const std::string& name) {
  for (const proto::onnx::TensorProto& tensor : file.graph().initializer()) {
    if (tensor.name() == name) return {tensor.dims().begin(), tensor.dims().end()};
  }
  return {};
}

TEST(OnnxModel, ModelWithEveryKindOfLayerIsExported) {
  const proto::Model config = Parse(kEveryKind);
  std::set<int> kinds;
  for (const proto::Layer& layer : config.layer()) kinds.insert(layer.kind_case());
  ASSERT_EQ(static_cast<int>(kinds.size()),
            proto::Layer::descriptor()->FindOneofByName("kind")->field_count())
      << "a kind of layer is missing in this test";
  const auto file = Export(kEveryKind, {8, 9, 3}, 2);
  ASSERT_TRUE(file.ok()) << file.status();
  // Each node reads the input, an initializer, or the output of an earlier node.
  std::set<std::string> known = {"input"};
  for (const auto& tensor : file->graph().initializer()) known.insert(tensor.name());
  for (const proto::onnx::NodeProto& node : file->graph().node()) {
    for (const std::string& input : node.input()) EXPECT_EQ(known.count(input), 1u) << input;
    EXPECT_TRUE(known.insert(node.output(0)).second) << node.output(0) << " is given twice";
  }
  EXPECT_EQ(Node(*file, "logits").input(0), "concatenation_12");
  EXPECT_EQ(Node(*file, "logits:layer").op_type(), "Sigmoid");
}

TEST(OnnxModel, TransposedConvolutionsAndFeatureMapsHaveChannelsFirst) {
  const auto file = Export(
      "layer { name: 'up' transposed_convolution { filters: 2 kernel_size: 2 stride: 3 padding: SAME } }",
      {4, 5, 3}, 2);
  ASSERT_TRUE(file.ok()) << file.status();
  const proto::onnx::NodeProto& node = file->graph().node(file->graph().node_size() - 1);
  EXPECT_EQ(node.op_type(), "ConvTranspose");
  EXPECT_EQ(Dimensions(*file, "up/filters"), (std::vector<int64_t>{3, 2, 2, 2}));
  EXPECT_THAT(Attribute(node, "strides").ints(), ElementsAre(3, 3));
  EXPECT_THAT(Attribute(node, "pads").ints(), ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(Attribute(node, "output_padding").ints(), ElementsAre(1, 1))
      << "no window reaches the last pixels";
  std::vector<int64_t> shape;
  for (const auto& axis : file->graph().output(0).type().tensor_type().shape().dim()) {
    shape.push_back(axis.dim_value());
  }
  EXPECT_EQ(shape, (std::vector<int64_t>{0, 2, 12, 15}));
}

TEST(OnnxModel, AttributesFollowTheFieldsOfTheLayers) {
  const auto file = Export(kEveryKind, {8, 9, 3}, 2);
  ASSERT_TRUE(file.ok()) << file.status();
  const proto::onnx::NodeProto& convolution = Node(*file, "a:linear");
  EXPECT_EQ(convolution.op_type(), "Conv");
  EXPECT_THAT(convolution.input(), ElementsAre("input:standardised", "a/filters", "a/bias"));
  EXPECT_THAT(Attribute(convolution, "kernel_shape").ints(), ElementsAre(3, 3));
  EXPECT_THAT(Attribute(convolution, "strides").ints(), ElementsAre(2, 2));
  // 8 rows become 4 rows, with one row of padding at the end. 9 columns become 5 columns, with one column of
  // padding on each side.
  EXPECT_THAT(Attribute(convolution, "pads").ints(), ElementsAre(0, 1, 1, 1));
  EXPECT_FLOAT_EQ(Attribute(Node(*file, "norm"), "epsilon").f(), 0.01f);
  EXPECT_THAT(Node(*file, "norm").input(),
              ElementsAre("a", "norm/scale", "norm/offset", "norm/moving_mean", "norm/moving_variance"));
  EXPECT_EQ(Attribute(Node(*file, "mean"), "count_include_pad").i(), 1);
  EXPECT_THAT(Attribute(Node(*file, "flat:pixels"), "perm").ints(), ElementsAre(0, 2, 3, 1));
  EXPECT_EQ(Node(*file, "joined").op_type(), "Identity");
}

TEST(OnnxModel, ConvolutionHasGroupsDilationAndPad) {
  const auto file = Export(
      "layer { name: 'a' convolution { filters: 8 kernel_size: 3 pad: 2 dilation: 2 groups: 4 bias: false } }"
      "layer { name: 'b' convolution { filters: 2 kernel_size: 2 stride: 2 } } layer { flatten {} }"
      "layer { name: 'c' dense { units: 2 } }",
      {6, 5, 4}, 2);
  ASSERT_TRUE(file.ok()) << file.status();
  const proto::onnx::NodeProto& a = Node(*file, "a");
  EXPECT_THAT(a.input(), ElementsAre("input:standardised", "a/filters"));
  EXPECT_EQ(Attribute(a, "group").i(), 4);
  EXPECT_THAT(Attribute(a, "dilations").ints(), ElementsAre(2, 2));
  EXPECT_THAT(Attribute(a, "pads").ints(), ElementsAre(2, 2, 2, 2));
  EXPECT_THAT(Dimensions(*file, "a/filters"), ElementsAre(8, 1, 3, 3));
  const proto::onnx::NodeProto& b = Node(*file, "b");
  EXPECT_EQ(Attribute(b, "group").i(), 1);
  EXPECT_THAT(Attribute(b, "strides").ints(), ElementsAre(2, 2));
  EXPECT_THAT(Attribute(b, "pads").ints(), ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(Dimensions(*file, "b/filters"), ElementsAre(2, 8, 2, 2));
  EXPECT_THAT(Dimensions(*file, "c/weights"), ElementsAre(3 * 2 * 2, 2));
}

TEST(OnnxModel, OddPixelOfPoolingPaddingGoesToTheEnd) {
  const auto file = Export(
      "layer { name: 'max' max_pooling { padding: SAME } }"
      "layer { name: 'mean' average_pooling { stride: 1 padding: SAME } }"
      "layer { flatten {} } layer { dense { units: 2 } }",
      {5, 4, 3}, 2);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(Node(*file, "max").op_type(), "MaxPool");
  EXPECT_THAT(Attribute(Node(*file, "max"), "pads").ints(), ElementsAre(0, 0, 1, 0));
  EXPECT_EQ(Node(*file, "mean").op_type(), "AveragePool");
  EXPECT_THAT(Attribute(Node(*file, "mean"), "kernel_shape").ints(), ElementsAre(2, 2));
  EXPECT_THAT(Attribute(Node(*file, "mean"), "strides").ints(), ElementsAre(1, 1));
  EXPECT_THAT(Attribute(Node(*file, "mean"), "pads").ints(), ElementsAre(0, 0, 1, 1));
  EXPECT_EQ(Attribute(Node(*file, "mean"), "count_include_pad").i(), 0);
}

TEST(OnnxModel, ConcatenationJoinsTheChannelAxis) {
  const auto axis = [](const std::string& layers, const Shape& shape) {
    const auto file = Export(layers +
                                 "layer { name: 'joined' input: 'x' input: 'x' concatenation {} }"
                                 "layer { flatten {} } layer { dense { units: 2 } }",
                             shape, 2);
    EXPECT_TRUE(file.ok()) << file.status();
    return file.ok() ? Attribute(Node(*file, "joined"), "axis").i() : -1;
  };
  const std::string image = "layer { name: 'x' activate { activation: TANH } }";
  EXPECT_EQ(axis(image, {4, 5, 3}), 1) << "channels";
  EXPECT_EQ(axis(image, {4, 5}), 3) << "width";
  EXPECT_EQ(axis("layer { name: 'x' flatten {} }", {4, 5, 3}), 1) << "features";
}

TEST(OnnxModel, EveryActivationIsWritten) {
  std::set<std::string> operators = {"Identity"};
  const auto* const activations = google::protobuf::GetEnumDescriptor<proto::Activation>();
  for (int i = 0; i < activations->value_count(); ++i) {
    if (activations->value(i)->number() == proto::ACTIVATION_NONE) continue;
    const std::string& name = activations->value(i)->name();
    const auto file = Export("layer { name: 'a' activate { activation: " + name +
                                 " } } layer { flatten {} } layer { dense { units: 2 } }",
                             {2, 2, 1}, 2);
    ASSERT_TRUE(file.ok()) << file.status();
    EXPECT_TRUE(operators.insert(Node(*file, "a").op_type()).second) << name;
    if (name != "RELU6") continue;
    EXPECT_THAT(Node(*file, "a").input(), ElementsAre("input:standardised", "a:least", "a:most"));
    EXPECT_THAT(Values(*file, "a:least"), ElementsAre(0));
    EXPECT_THAT(Values(*file, "a:most"), ElementsAre(6));
  }
}

TEST(OnnxModel, InputChannelsAreTheSecondAxisOfFilters) {
  const auto file = Export(
      "layer { name: 'a' convolution { filters: 1 kernel_size: 2 } } layer { flatten {} } "
      "layer { name: 'b' dense { units: 2 } }",
      {2, 2, 3}, 2);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_THAT(Values(*file, "a/filters"), ElementsAre(0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11));
  EXPECT_THAT(Values(*file, "b/weights"), ElementsAre(0, 1));
}

TEST(OnnxModel, EachInputChannelIsStandardisedWithItsOwnMeanAndDeviation) {
  const auto file = Export("layer { flatten {} } layer { dense { units: 2 } }", {4, 5, 2}, 2,
                           {.mean = {0.5f, 0.25f}, .deviation = {0.25f, 0.5f}});
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_THAT(Values(*file, "input:slope"), ElementsAre(FloatEq(4.0f / 255), FloatEq(2.0f / 255)));
  EXPECT_THAT(Values(*file, "input:offset"), ElementsAre(-2, -0.5f));
  for (const auto& tensor : file->graph().initializer()) {
    if (tensor.name() != "input:slope") continue;
    EXPECT_THAT(tensor.dims(), ElementsAre(2, 1, 1));
  }
}

TEST(OnnxModel, FloatInputIsNotDividedBy255) {
  const auto file = Export("layer { flatten {} } layer { dense { units: 2 } }", {4, 5, 2}, 2,
                           {.mean = {0.5f, 0.25f}, .deviation = {0.25f, 0.5f}, .type = ValueType::kFloat});
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_THAT(Values(*file, "input:slope"), ElementsAre(4, 2));
  EXPECT_THAT(Values(*file, "input:offset"), ElementsAre(-2, -0.5f));
}

TEST(OnnxModel, InputIsStandardisedInTheGraph) {
  const auto file = Export("layer { flatten {} } layer { dense { units: 2 } }", {4, 5}, 2,
                           {.mean = {0.5f}, .deviation = {0.25f}});
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_FLOAT_EQ(Values(*file, "input:slope")[0], 4.0f / 255);
  EXPECT_FLOAT_EQ(Values(*file, "input:offset")[0], -2);
  const auto& shape = file->graph().input(0).type().tensor_type().shape();
  EXPECT_EQ(shape.dim(0).dim_param(), "N");
  EXPECT_EQ(shape.dim(1).dim_value(), 1);
  EXPECT_EQ(shape.dim(2).dim_value(), 4);
  EXPECT_EQ(shape.dim(3).dim_value(), 5);
}

TEST(OnnxModel, NormalisationOfVolumesIsRefused) {
  const auto file = Export(
      "layer { name: 'norm' batch_normalisation {} } layer { flatten {} } layer { dense { units: 2 } }",
      {2, 2, 2, 3}, 2);
  EXPECT_TRUE(absl::IsInvalidArgument(file.status()));
  EXPECT_THAT(std::string(file.status().message()), HasSubstr("layer 'norm'"));
}

}  // namespace
}  // namespace tethys
