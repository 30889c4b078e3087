#include "runtime/checkpoint/model_description.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

namespace tethys {
namespace {

using ::testing::HasSubstr;

proto::Model Model(const std::string& text) {
  proto::Model model;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &model)) << text;
  return model;
}

proto::ModelDescription Saved() {
  proto::ModelDescription saved;
  *saved.mutable_model() = Model(
      "layer { name: 'a' flatten {} } layer { name: 'b' dense { units: 5 activation: RELU initializer: "
      "HE_NORMAL } }");
  saved.mutable_scaling()->add_mean(0.25);
  saved.mutable_scaling()->add_deviation(0.5);
  return saved;
}

TEST(ModelDescriptionTest, ModelsThatDifferOnlyInNamesAndInitializers_CountAsTheSame) {
  EXPECT_TRUE(CheckSameModel(Saved(),
                             Model("layer { flatten {} } layer { dense { units: 5 activation: RELU } }"), "c")
                  .ok());
}

TEST(ModelDescriptionTest, DescriptionHasTheClassNamesOfThePlan) {
  proto::JobPlan plan;
  plan.add_class_name("cat");
  plan.add_class_name("dog");
  const proto::ModelDescription description = DescribeModel(plan, {});
  ASSERT_EQ(description.class_name_size(), 2);
  EXPECT_EQ(description.class_name(1), "dog");
}

TEST(ModelDescriptionTest, InputsOfLayersAreComparedByPositionAndNotByName) {
  const std::string joined = "layer { input: 'p' input: 'q' concatenation {} } layer { flatten {} }";
  const std::string largest = " max_pooling {} input: 'input' }",
                    mean = " average_pooling {} input: 'input' }";
  proto::ModelDescription saved;
  *saved.mutable_model() = Model("layer { name: 'p'" + largest + " layer { name: 'q'" + mean + joined);
  const proto::Model renamed = Model("layer { name: 'a'" + largest + " layer { name: 'b'" + mean +
                                     "layer { input: 'a' input: 'b' concatenation {} name: 'c' } "
                                     "layer { input: 'c' flatten {} }");
  EXPECT_TRUE(CheckSameModel(saved, renamed, "c").ok());
  const proto::Model swapped = Model("layer { name: 'q'" + largest + " layer { name: 'p'" + mean + joined);
  EXPECT_THAT(std::string(CheckSameModel(saved, swapped, "c").message()),
              HasSubstr("layer 2 is concatenation"));
}

TEST(ModelDescriptionTest, AbsentFieldsOfLayersCountAsTheirDefaults) {
  proto::ModelDescription saved;
  *saved.mutable_model() = Model("layer { convolution { filters: 2 kernel_size: 3 stride: 1 } }");
  EXPECT_TRUE(CheckSameModel(saved,
                             Model("layer { convolution { filters: 2 kernel_size: 3 groups: 1 bias: true "
                                   "dilation: 1 } }"),
                             "c")
                  .ok());
}

TEST(ModelDescriptionTest, ModelWithAnotherActivation_IsRefused) {
  const absl::Status status =
      CheckSameModel(Saved(), Model("layer { flatten {} } layer { dense { units: 5 } }"), "step-3");
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("step-3 is of another model: layer 1 is dense"));
}

TEST(ModelDescriptionTest, ModelThatLacksALayer_IsRefused) {
  EXPECT_THAT(std::string(CheckSameModel(Saved(), Model("layer { flatten {} }"), "c").message()),
              HasSubstr("and nothing in the job"));
}

TEST(ModelDescriptionTest, JobWithAnotherInputScaling_IsRefusedNamingBothScalings) {
  InputScaling scaling = ScalingOf(Saved().scaling(), false);
  EXPECT_TRUE(CheckSameScaling(Saved(), scaling, "c").ok());
  scaling.mean[0] = 0.125f;
  EXPECT_THAT(
      std::string(CheckSameScaling(Saved(), scaling, "c").message()),
      HasSubstr("by mean 0.25 and deviation 0.5, but the job standardises by mean 0.125 and deviation 0.5"));
}

TEST(ModelDescriptionTest, JobWithInputsOfAnotherType_IsRefused) {
  proto::ModelDescription saved = Saved();
  saved.set_float_inputs(true);
  EXPECT_TRUE(CheckSameScaling(saved, ScalingOf(saved.scaling(), true), "c").ok());
  EXPECT_THAT(std::string(CheckSameScaling(saved, ScalingOf(saved.scaling(), false), "c").message()),
              HasSubstr("on inputs standardised by (float32) mean 0.25 and deviation 0.5, but the job "
                        "standardises by mean"));
}

TEST(ModelDescriptionTest, CheckpointWithoutADescription_MatchesAnyJob) {
  EXPECT_TRUE(CheckSameModel({}, Model("layer { flatten {} }"), "c").ok());
  EXPECT_TRUE(CheckSameScaling({}, InputScaling(), "c").ok());
}

}  // namespace
}  // namespace tethys
