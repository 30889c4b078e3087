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
  EXPECT_EQ(model.flops_per_sample(), 2 * (2 * 784 * 100 + 3 * 100 * 10));
}

TEST(Model, IsReadyFromTheLastLayerToTheFirst) {
  const Model model =
      Create("layer { flatten {} } layer { dense { units: 5 } } layer { dense { units: 10 } }").value();
  const auto& layers = model.dense_layers();
  const std::vector<Range> order = model.ready_order();
  ASSERT_EQ(order.size(), 2u);
  EXPECT_EQ(order[0].begin, layers[1].weights.begin);
  EXPECT_EQ(order[0].end(), layers[1].bias.end());
  EXPECT_EQ(order[1].begin, 0);
  EXPECT_EQ(order[1].end(), layers[0].bias.end());
}

TEST(Model, TakesTheInitializerItIsTold) {
  const Model model =
      Create("layer { flatten {} } layer { dense { units: 10 initializer: HE_NORMAL } }").value();
  EXPECT_EQ(model.variables().variables()[0].initial_value, InitialValue::kHeNormal);
}

TEST(Model, RefusesWhatItCannotTrain) {
  ExpectRefused("", "no dense layer");
  ExpectRefused("layer { flatten {} }", "no dense layer");
  ExpectRefused("layer { name: 'a' }", "layer[0] 'a'");
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
