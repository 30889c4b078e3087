// FCN-32s, FCN-16s and FCN-8s: Long, Shelhamer and Darrell, "Fully convolutional networks for semantic
// segmentation", CVPR 2015. The backbone's layers have the names of the family vgg, the other layers the
// names in the authors' networks. Padding keeps the scores at 1/32 of the image's size; the authors' networks
// pad the image and crop scores instead.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/nn/zoo/family.h"
#include "runtime/nn/zoo/vgg.h"

namespace tethys {
namespace {

constexpr int kBlocks = 5;
constexpr int kDense = 2;
// Scores are enlarged by this factor before the scores of a finer layer are added.
constexpr int64_t kTimes = 2;

void Complete(proto::Model& model) {
  proto::Fcn& fcn = *model.mutable_fcn();
  CompleteVgg(*fcn.mutable_backbone());
  if (!fcn.has_stride()) fcn.set_stride(32);
}

std::string Problem(const proto::Model& model) {
  const proto::Fcn& fcn = model.fcn();
  if (fcn.stride() != 32 && fcn.stride() != 16 && fcn.stride() != 8) {
    return absl::StrCat("fcn.stride is ", fcn.stride(), ": it must be 32, 16 or 8");
  }
  std::string problem = VggProblem("fcn.backbone", fcn.backbone());
  if (!problem.empty()) return problem;
  if (fcn.backbone().convolutions_size() != kBlocks) {
    return absl::StrCat("fcn.backbone.convolutions has ", fcn.backbone().convolutions_size(),
                        " blocks: it must have ", kBlocks);
  }
  if (fcn.backbone().dense_units_size() != kDense) {
    return absl::StrCat("fcn.backbone.dense_units has ", fcn.backbone().dense_units_size(),
                        " layers: it must have ", kDense);
  }
  return "";
}

void Expand(const proto::Model& model, int64_t classes, LayerWriter& layers) {
  const proto::Vgg& backbone = model.fcn().backbone();
  const std::vector<std::string> pools = WriteVggFeatures(backbone, layers);
  const auto dense = [&](int number, int64_t kernel_size) {
    layers.Add(absl::StrCat("fc", number), {.filters = backbone.dense_units(number - 6),
                                            .kernel_size = kernel_size,
                                            .padding = proto::SAME,
                                            .activation = proto::RELU});
    layers.Dropout(absl::StrCat("drop", number), backbone.dropout());
  };
  dense(6, 7);
  dense(7, 1);
  layers.Add("score", {.filters = classes, .kernel_size = 1});
  int64_t scale = 32;
  for (int pool = 4; scale > model.fcn().stride(); --pool, scale /= kTimes) {
    const std::string finer = layers.Enlarge(absl::StrCat("upscore", pool), classes, kTimes);
    const std::string score =
        layers.Add(absl::StrCat("score_pool", pool), {.filters = classes, .kernel_size = 1}, pools[pool - 1]);
    layers.Sum(absl::StrCat("fuse_pool", pool), finer, score);
  }
  layers.Enlarge("upscore", classes, scale);
}

std::string Text(const proto::Model& model) {
  const proto::Vgg& backbone = model.fcn().backbone();
  return absl::StrCat("FCN-", model.fcn().stride(), "s, ", VggText(backbone));
}

}  // namespace

const FamilyKind kFcnFamily = {
    .kind = proto::Model::kFcn, .complete = Complete, .problem = Problem, .expand = Expand, .text = Text};

}  // namespace tethys
