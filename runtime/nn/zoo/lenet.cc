// LeNet-5: LeCun, Bottou, Bengio and Haffner, "Gradient-based learning applied to document recognition",
// 1998; in today's usual form, with relu, max pooling and softmax.
#include "absl/strings/str_cat.h"
#include "runtime/nn/zoo/family.h"

namespace tethys {
namespace {

void Expand(const proto::Model&, int64_t classes, LayerWriter& layers) {
  layers.Add("conv1", {.filters = 6, .kernel_size = 5, .padding = proto::SAME, .activation = proto::RELU});
  layers.MaxPooling("pool1", 2, 2);
  layers.Add("conv2", {.filters = 16, .kernel_size = 5, .activation = proto::RELU});
  layers.MaxPooling("pool2", 2, 2);
  layers.Flatten("flatten");
  layers.Dense("fc1", 120, proto::RELU);
  layers.Dense("fc2", 84, proto::RELU);
  layers.Dense("fc3", classes);
}

std::string Text(const proto::Model&) { return "LeNet-5"; }

}  // namespace

const FamilyKind kLenetFamily = {.kind = proto::Model::kLenet, .expand = Expand, .text = Text};

}  // namespace tethys
