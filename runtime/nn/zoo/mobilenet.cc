// MobileNet: Howard et al., "MobileNets: efficient convolutional neural networks for mobile vision
// applications", 2017. Layers, paddings and constants are those of keras.applications.MobileNet.
#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "runtime/nn/zoo/family.h"

namespace tethys {
namespace {

// One of the separable convolutions, which are listed in order.
struct Separable {
  int64_t filters;
  int64_t stride;
};
constexpr Separable kSeparables[] = {{64, 1},  {128, 2}, {128, 1}, {256, 2}, {256, 1},  {512, 2}, {512, 1},
                                     {512, 1}, {512, 1}, {512, 1}, {512, 1}, {1024, 2}, {1024, 1}};
constexpr LayerWriter::Normalisation kNormalisation = {
    .activation = proto::RELU6, .decay = 0.99, .epsilon = 1e-3};

void Complete(proto::Model& model) {
  if (!model.mobilenet().has_multiplier()) model.mutable_mobilenet()->set_multiplier(1);
  if (!model.mobilenet().has_dropout()) model.mutable_mobilenet()->set_dropout(0.001);
}

std::string Problem(const proto::Model& model) {
  const double multiplier = model.mobilenet().multiplier();
  if (multiplier > 0 && multiplier <= 16)
    return RateProblem("mobilenet.dropout", model.mobilenet().dropout());
  return absl::StrCat("mobilenet.multiplier is ", multiplier, ": it must be above 0 and at most 16");
}

void Expand(const proto::Model& model, int64_t classes, LayerWriter& layers) {
  const auto width = [&](int64_t filters) {
    return std::max<int64_t>(1, std::llround(std::floor(filters * model.mobilenet().multiplier())));
  };
  const auto convolution = [&](absl::string_view name, LayerWriter::Convolution fields) {
    fields.padding = proto::SAME;
    fields.bias = false;
    layers.Add(name, fields);
    layers.Add(absl::StrCat(name, "_bn"), kNormalisation);
  };
  int64_t channels = width(32);
  convolution("conv1", {.filters = channels, .stride = 2});
  int number = 1;
  for (const auto& [filters, stride] : kSeparables) {
    convolution(absl::StrCat("conv_dw_", number),
                {.filters = channels, .stride = stride, .groups = channels});
    channels = width(filters);
    convolution(absl::StrCat("conv_pw_", number), {.filters = channels, .kernel_size = 1});
    ++number;
  }
  layers.GlobalAveragePooling("global_average_pooling");
  layers.Dropout("dropout", model.mobilenet().dropout());
  layers.Dense("conv_preds", classes);
}

std::string Text(const proto::Model& model) {
  const double multiplier = model.mobilenet().multiplier();
  return absl::StrCat("MobileNet", multiplier == 1 ? "" : absl::StrCat(" x ", multiplier));
}

}  // namespace

const FamilyKind kMobilenetFamily = {.kind = proto::Model::kMobilenet,
                                     .complete = Complete,
                                     .problem = Problem,
                                     .expand = Expand,
                                     .text = Text};

}  // namespace tethys
