#include "runtime/nn/zoo/zoo.h"

#include <gmock/gmock.h>

#include "absl/strings/match.h"
#include "google/protobuf/text_format.h"
#include "runtime/nn/model.h"

namespace tethys {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

proto::Model Parse(const std::string& text) {
  proto::Model model;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &model)) << text;
  CompleteFamily(model);
  return model;
}

absl::StatusOr<Model> Build(const std::string& text, const Shape& sample = {224, 224, 3},
                            int64_t classes = 1000) {
  return Model::Create(Parse(text), sample, classes);
}

// The expected counts are the parameters of torchvision's models, and the trainable parameters of the models
// in keras.applications.
TEST(Zoo, FamiliesHaveTheirPublishedParameterCounts) {
  const std::pair<const char*, int64_t> counts[] = {
      {"resnet { depth: 18 }", 11'689'512},
      {"resnet { depth: 34 }", 21'797'672},
      {"resnet {}", 25'557'032},
      {"resnet { depth: 101 }", 44'549'160},
      {"resnet { depth: 152 }", 60'192'808},
      {"resnet { style: KERAS }", 25'583'592},
      {"resnet { style: KERAS depth: 101 }", 44'601'832},
      {"vgg { depth: 11 }", 132'863'336},
      {"vgg { depth: 13 }", 133'047'848},
      {"vgg {}", 138'357'544},
      {"vgg { depth: 19 }", 143'667'240},
      {"vgg { batch_normalisation: true }", 138'365'992},
      {"mobilenet {}", 4'231'976},
  };
  for (const auto& [text, count] : counts) {
    const absl::StatusOr<Model> model = Build(text);
    ASSERT_TRUE(model.ok()) << text << ": " << model.status();
    EXPECT_EQ(model->variables().element_count(), count) << text;
  }
  EXPECT_EQ(Build("lenet {}", {28, 28}, 10)->variables().element_count(), 61'706);
}

// VGG16's features have 14,714,688 parameters. The layers fc6, fc7 and score have 102,764,544, 16,781,312 and
// 86,037. The paper gives 134 million for all of them together.
TEST(Zoo, FcnHasTheParameterCountsOfItsPaper) {
  constexpr int64_t kTrunk = 134'346'581, kClasses = 21, kPairs = kClasses * kClasses;
  constexpr int64_t kPool4 = 512 * kClasses + kClasses, kPool3 = 256 * kClasses + kClasses;
  const std::pair<const char*, int64_t> counts[] = {
      {"fcn {}", kTrunk + 64 * 64 * kPairs},
      {"fcn { stride: 16 }", kTrunk + 4 * 4 * kPairs + kPool4 + 32 * 32 * kPairs},
      {"fcn { stride: 8 }", kTrunk + 2 * 4 * 4 * kPairs + kPool4 + kPool3 + 16 * 16 * kPairs}};
  for (const auto& [text, count] : counts) {
    const absl::StatusOr<Model> model = Build(text, {96, 64, 3}, kClasses);
    ASSERT_TRUE(model.ok()) << text << ": " << model.status();
    EXPECT_EQ(model->variables().element_count(), count) << text;
    EXPECT_EQ(model->output_shape(), (Shape{96, 64, kClasses})) << text;
  }
}

TEST(Zoo, FcnWithWrongStrideOrBackboneIsRefused) {
  EXPECT_THAT(FamilyProblem(Parse("fcn { stride: 4 }")),
              HasSubstr("fcn.stride is 4: it must be 32, 16 or 8"));
  EXPECT_THAT(FamilyProblem(Parse("fcn { backbone { convolutions: [1, 1] } }")),
              HasSubstr("fcn.backbone.convolutions has 2 blocks: it must have 5"));
  EXPECT_THAT(FamilyProblem(Parse("fcn { backbone { dense_units: 64 } }")),
              HasSubstr("fcn.backbone.dense_units has 1 layers: it must have 2"));
  EXPECT_THAT(FamilyProblem(Parse("fcn { backbone { depth: 12 } }")), HasSubstr("fcn.backbone.depth is 12"));
}

TEST(Zoo, MovingStatisticsHaveTheirPublishedCounts) {
  EXPECT_EQ(Build("resnet {}")->statistics().element_count(), 53'120);
  EXPECT_EQ(Build("mobilenet {}")->statistics().element_count(), 21'888);
}

TEST(Zoo, LayersHaveTorchvisionsNames) {
  const Model resnet = Build("resnet {}").value(), vgg = Build("vgg { batch_normalisation: true }").value();
  for (const char* name :
       {"conv1/filters", "bn1/scale", "layer1.0.downsample.0/filters", "layer1.0.downsample.1/offset",
        "layer3.5.conv3/filters", "layer4.2.bn3/scale", "fc/weights", "fc/bias"}) {
    EXPECT_NE(resnet.variables().Find(name), nullptr) << name;
  }
  for (const char* name :
       {"features.0/filters", "features.1/scale", "features.40/filters", "features.41/scale",
        "classifier.0/weights", "classifier.3/bias", "classifier.6/weights"}) {
    EXPECT_NE(vgg.variables().Find(name), nullptr) << name;
  }
}

// The depth of a network for CIFAR counts its convolutions and its dense layer, but not the convolutions of
// shortcuts.
TEST(Zoo, CifarResnetHasAsManyWeightLayersAsItsDepthSays) {
  for (const int depth : {8, 20, 32, 56}) {
    const proto::Model layers =
        ExpandModel(Parse(absl::StrCat("resnet { stem: CIFAR depth: ", depth, " }")), 10);
    int weights = 0;
    for (const proto::Layer& layer : layers.layer()) {
      weights +=
          (layer.has_convolution() || layer.has_dense()) && !absl::StrContains(layer.name(), "downsample");
    }
    EXPECT_EQ(weights, depth);
  }
  const Model model = Build("resnet { stem: CIFAR }", {32, 32, 3}, 10).value();
  EXPECT_EQ(model.variables().element_count(), 272'474);
  EXPECT_EQ(model.variables().Find("conv1/filters")->shape, (Shape{16, 3, 3, 3}));
  EXPECT_EQ(model.variables().Find("fc/weights")->shape, (Shape{64, 10}));
}

TEST(Zoo, StyleDecidesWhichConvolutionOfABottleneckHasTheStride) {
  for (const bool keras : {false, true}) {
    const proto::Model layers = ExpandModel(Parse(keras ? "resnet { style: KERAS }" : "resnet {}"), 1000);
    for (const proto::Layer& layer : layers.layer()) {
      if (layer.name() == "layer2.0.conv1") {
        EXPECT_EQ(layer.convolution().stride(), keras ? 2 : 1);
      }
      if (layer.name() == "layer2.0.conv2") {
        EXPECT_EQ(layer.convolution().stride(), keras ? 1 : 2);
      }
      if (layer.name() == "layer2.0.bn1") {
        EXPECT_EQ(layer.batch_normalisation().decay(), keras ? 0.99 : 0.9);
      }
    }
  }
}

TEST(Zoo, VggHasTheConvolutionsPerBlockThatTheJobStates) {
  const Model model =
      Build("vgg { convolutions: 1 convolutions: 2 width: 32 dense_units: 128 }", {28, 28}, 10).value();
  EXPECT_EQ(model.variables().Find("features.0/filters")->shape, (Shape{32, 3, 3, 1}));
  EXPECT_EQ(model.variables().Find("features.3/filters")->shape, (Shape{64, 3, 3, 32}));
  EXPECT_EQ(model.variables().Find("features.5/filters")->shape, (Shape{64, 3, 3, 64}));
  EXPECT_EQ(model.variables().Find("classifier.0/weights")->shape, (Shape{7 * 7 * 64, 128}));
  EXPECT_EQ(model.variables().Find("classifier.3/weights")->shape, (Shape{128, 10}));
}

TEST(Zoo, MultiplierScalesTheFiltersOfMobilenet) {
  const Model model = Build("mobilenet { multiplier: 0.25 }").value();
  EXPECT_EQ(model.variables().Find("conv1/filters")->shape, (Shape{8, 3, 3, 3}));
  EXPECT_EQ(model.variables().Find("conv_dw_13/filters")->shape, (Shape{256, 3, 3, 1}));
  EXPECT_EQ(model.variables().element_count(), 470'072);  // Keras's number of trainable parameters.
}

TEST(Zoo, DropoutFollowsTheDenseLayersOfVgg) {
  const auto rates = [](const std::string& text) {
    std::vector<std::string> found;
    const proto::Model layers = ExpandModel(Parse(text), 10);
    for (const proto::Layer& layer : layers.layer()) {
      if (layer.has_dropout()) found.push_back(absl::StrCat(layer.name(), " ", layer.dropout().rate()));
    }
    return found;
  };
  EXPECT_THAT(rates("vgg {}"), ElementsAre("classifier.2 0.5", "classifier.5 0.5"));
  EXPECT_THAT(rates("vgg { dropout: 0 }"), IsEmpty());
  EXPECT_THAT(rates("mobilenet {}"), ElementsAre("dropout 0.001"));
  EXPECT_THAT(rates("resnet {}"), IsEmpty());
}

// Printed layers can be copied into a job file, and mean the same there.
TEST(Zoo, LayersOfAnExpandedFamilyFormTheSameModelInAJobFile) {
  for (const char* text :
       {"resnet { depth: 18 }", "mobilenet {}", "vgg { depth: 11 batch_normalisation: true }"}) {
    const proto::Model layers = ExpandModel(Parse(text), 1000);
    EXPECT_EQ(layers.family_case(), proto::Model::FAMILY_NOT_SET);
    EXPECT_EQ(ExpandModel(layers, 1000).SerializeAsString(), layers.SerializeAsString()) << text;
    EXPECT_EQ(Model::Create(layers, {224, 224, 3}, 1000)->variables().signature(),
              Build(text)->variables().signature());
  }
}

TEST(Zoo, ErrorNamesTheInvalidFieldOfTheModel) {
  const auto problem = [](const std::string& text) { return FamilyProblem(Parse(text)); };
  EXPECT_EQ(problem("resnet {}"), "");
  EXPECT_THAT(problem("resnet { depth: 51 }"), HasSubstr("resnet.depth is 51: it must be 18, 34, 50"));
  EXPECT_THAT(problem("resnet { depth: 20 }"), HasSubstr("need stem: CIFAR"));
  EXPECT_THAT(problem("resnet { stem: CIFAR depth: 51 }"), HasSubstr("must be 6 n + 2"));
  EXPECT_THAT(problem("resnet { stem: CIFAR style: KERAS }"), HasSubstr("does not support resnet.stem"));
  EXPECT_THAT(problem("resnet { style: KERAS depth: 18 }"), HasSubstr("resnet.depth is 18"));
  EXPECT_THAT(problem("resnet { width: 0 }"), HasSubstr("resnet.width is 0: it must be 1 to"));
  EXPECT_THAT(problem("vgg { depth: 17 }"), HasSubstr("vgg.depth is 17: it must be 11, 13, 16 or 19"));
  EXPECT_THAT(problem("vgg { depth: 16 convolutions: 1 }"), HasSubstr("both depth and convolutions"));
  EXPECT_THAT(problem("vgg { convolutions: 0 }"), HasSubstr("vgg.convolutions is 0"));
  EXPECT_THAT(problem("vgg { dense_units: -1 }"), HasSubstr("vgg.dense_units is -1"));
  EXPECT_THAT(problem("vgg { width: 100000 }"), HasSubstr("vgg.width is 100000"));
  EXPECT_THAT(problem("vgg { dropout: 1 }"),
              HasSubstr("vgg.dropout is 1: it must be at least 0 and below 1"));
  EXPECT_THAT(problem("mobilenet { dropout: -1 }"), HasSubstr("mobilenet.dropout is -1"));
  EXPECT_THAT(problem("mobilenet { multiplier: 0 }"), HasSubstr("mobilenet.multiplier is 0"));
}

TEST(Zoo, ErrorOfAWindowLargerThanItsImageNamesTheLayer) {
  for (const char* text : {"vgg {}", "lenet {}"}) {
    const absl::Status status = Build(text, {8, 8, 3}, 10).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("model.layer["));
    EXPECT_THAT(std::string(status.message()), HasSubstr("is larger than the height"));
  }
}

TEST(Zoo, ModelTextNamesTheNetwork) {
  EXPECT_EQ(ModelText(Parse("resnet {}")), "ResNet-50");
  EXPECT_EQ(ModelText(Parse("resnet { stem: CIFAR depth: 56 }")), "ResNet-56 for CIFAR");
  EXPECT_EQ(ModelText(Parse("vgg { batch_normalisation: true }")), "VGG16 with batch normalisation");
  EXPECT_EQ(ModelText(Parse("vgg { convolutions: 1 convolutions: 2 width: 32 }")),
            "VGG of 1-2 convolutions, width 32");
  EXPECT_EQ(ModelText(Parse("mobilenet {}")), "MobileNet");
  EXPECT_EQ(ModelText(Parse("layer { flatten {} } layer { dense { units: 3 activation: RELU } }")),
            "flatten, dense 3 relu");
}

}  // namespace
}  // namespace tethys
