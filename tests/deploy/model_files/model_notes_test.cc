#include "deploy/model_files/model_notes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tethys {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

class ModelNotesTest : public ::testing::Test {
 protected:
  ModelNotesTest() {
    description_.set_classes(2);
    proto::Layer& flatten = *description_.mutable_model()->add_layer();
    flatten.set_name("flatten");
    flatten.mutable_flatten();
    proto::Layer& dense = *description_.mutable_model()->add_layer();
    dense.set_name("dense");
    dense.mutable_dense()->set_units(2);
  }
  Model MakeModel(const Shape& shape) { return Model::Create(description_.model(), shape, 2).value(); }

  proto::ModelDescription description_;
};

TEST_F(ModelNotesTest, NotesDescribeInputsAndOutputs) {
  for (const float mean : {0.25f, 0.5f, 0.75f}) description_.mutable_scaling()->add_mean(mean);
  for (const float deviation : {0.1f, 0.2f, 0.3f}) description_.mutable_scaling()->add_deviation(deviation);
  description_.add_class_name("cat");
  description_.add_class_name("the \"dog\"");
  const Model model = MakeModel({32, 24, 3});
  EXPECT_THAT(
      NotesOn(description_, model, Standardised::kByCaller),
      ElementsAre(
          Pair("input", "float32 [N, 3, 32, 24] (batch, channels, height, width)"),
          Pair("order", HasSubstr("[N, 32, 24, 3], as in the data, have their channels last; move "
                                  "them by pixels.permute(0, 3, 1, 2) in PyTorch")),
          Pair("values", "(pixel / 255 - mean) / deviation, of pixels from 0 to 255"),
          Pair("resize", HasSubstr("(pixels.float(), size, mode=\"bilinear\").add(0.5).floor() does")),
          Pair("mean", "[0.25, 0.5, 0.75]"), Pair("deviation", "[0.100000001, 0.200000003, 0.300000012]"),
          Pair("output", "logits, float32 [N, 2]"), Pair("class_names", "[\"cat\", \"the \\\"dog\\\"\"]")));
  EXPECT_THAT(NotesOn(description_, model, Standardised::kInside)[2].second,
              HasSubstr("pixels from 0 to 255, as they are in the data, not divided by 255"));
  EXPECT_EQ(TorchInputText(description_, model),
            "(pixels / 255 - torch.tensor([0.25, 0.5, 0.75]).view(-1, 1, 1)) / "
            "torch.tensor([0.100000001, 0.200000003, 0.300000012]).view(-1, 1, 1)");
}

TEST_F(ModelNotesTest, NotesDescribeTheInputShapesOfTablesAndGreyPictures) {
  description_.set_float_inputs(true);
  description_.mutable_scaling()->add_mean(-1.5);
  description_.mutable_scaling()->add_deviation(2);
  EXPECT_EQ(NotesOn(description_, MakeModel({8}), Standardised::kByCaller)[0].second, "float32 [N, 8]");
  EXPECT_EQ(NotesOn(description_, MakeModel({28, 28}), Standardised::kByCaller)[0].second,
            "float32 [N, 1, 28, 28] (batch, channels, height, width)");
  EXPECT_THAT(NotesOn(description_, MakeModel({28, 28}), Standardised::kByCaller)[1].second,
              HasSubstr("[N, 28, 28], as in the data, need an axis of channels: pixels[:, None]"));
  EXPECT_EQ(ChannelsFirstText(MakeModel({8}), ArrayLibrary::kTorch), "");
  EXPECT_EQ(TorchInputText(description_, MakeModel({8})), "(values - (-1.5)) / 2");
}

TEST_F(ModelNotesTest, UnknownStandardisationIsStated) {
  const ModelNotes notes = NotesOn(description_, MakeModel({8}), Standardised::kByCaller);
  EXPECT_THAT(notes[1].second, HasSubstr("does not say how"));
  EXPECT_EQ(notes[2].first, "output");
  EXPECT_EQ(TorchInputText(description_, MakeModel({8})), "");
}

}  // namespace
}  // namespace tethys
