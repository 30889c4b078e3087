// VGG: Simonyan and Zisserman, "Very deep convolutional networks for large-scale image recognition", ICLR
// 2015. Layers have the names and order of torchvision's vgg16, vgg16_bn and their siblings.
#include "runtime/nn/zoo/vgg.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace tethys {
namespace {

constexpr int kMostBlocks = 16;
constexpr int64_t kMostConvolutions = 64;  // Convolutions of one block.
constexpr int64_t kMostUnits = 1 << 20;

// The number of convolutions of each block, for each depth. The depth is the number of all convolutions plus
// the three dense layers.
struct Depth {
  int depth;
  std::vector<int32_t> convolutions;
};
const std::vector<Depth>& Depths() {
  static const auto* const depths = new std::vector<Depth>{
      {11, {1, 1, 2, 2, 2}}, {13, {2, 2, 2, 2, 2}}, {16, {2, 2, 3, 3, 3}}, {19, {2, 2, 4, 4, 4}}};
  return *depths;
}

}  // namespace

void CompleteVgg(proto::Vgg& vgg) {
  if (!vgg.has_depth() && vgg.convolutions().empty()) vgg.set_depth(16);
  for (const Depth& known : Depths()) {
    if (known.depth != vgg.depth() || !vgg.convolutions().empty()) continue;
    vgg.mutable_convolutions()->Assign(known.convolutions.begin(), known.convolutions.end());
  }
  if (!vgg.has_width()) vgg.set_width(64);
  if (vgg.dense_units().empty()) {
    vgg.add_dense_units(4096);
    vgg.add_dense_units(4096);
  }
  if (!vgg.has_batch_normalisation()) vgg.set_batch_normalisation(false);
  if (!vgg.has_dropout()) vgg.set_dropout(0.5);
}

std::string VggProblem(absl::string_view field, const proto::Vgg& vgg) {
  if (vgg.convolutions().empty()) {
    return absl::StrCat(
        field, ".depth is ", vgg.depth(),
        ": it must be 11, 13, 16 or 19; for another network give the convolutions of each block");
  }
  if (vgg.has_depth()) {
    const auto known = std::find_if(Depths().begin(), Depths().end(),
                                    [&](const Depth& each) { return each.depth == vgg.depth(); });
    if (known == Depths().end() || !std::equal(known->convolutions.begin(), known->convolutions.end(),
                                               vgg.convolutions().begin(), vgg.convolutions().end())) {
      return "has both depth and convolutions: give one of them";
    }
  }
  if (vgg.convolutions_size() > kMostBlocks) {
    return absl::StrCat(field, ".convolutions has ", vgg.convolutions_size(), " blocks; it may have at most ",
                        kMostBlocks);
  }
  for (const int64_t count : vgg.convolutions()) {
    if (std::string problem = RangeProblem(absl::StrCat(field, ".convolutions"), count, kMostConvolutions);
        !problem.empty()) {
      return problem;
    }
  }
  if (vgg.dense_units_size() > kMostBlocks) {
    return absl::StrCat(field, ".dense_units has ", vgg.dense_units_size(), " layers; it may have at most ",
                        kMostBlocks);
  }
  for (const int64_t units : vgg.dense_units()) {
    if (std::string problem = RangeProblem(absl::StrCat(field, ".dense_units"), units, kMostUnits);
        !problem.empty()) {
      return problem;
    }
  }
  if (std::string problem = RateProblem(absl::StrCat(field, ".dropout"), vgg.dropout()); !problem.empty())
    return problem;
  return RangeProblem(absl::StrCat(field, ".width"), vgg.width(), 1 << 16);
}

std::vector<std::string> WriteVggFeatures(const proto::Vgg& vgg, LayerWriter& layers) {
  std::vector<std::string> pools;
  const bool normalises = vgg.batch_normalisation();
  int feature = 0;  // Number of the next module. torchvision numbers all modules, activations included.
  const auto next = [&] { return absl::StrCat("features.", feature++); };
  for (int block = 0; block < vgg.convolutions_size(); ++block) {
    const int64_t filters = vgg.width() << std::min(block, 3);
    for (int i = 0; i < vgg.convolutions(block); ++i) {
      layers.Add(next(), {.filters = filters,
                          .pad = 1,
                          .activation = normalises ? proto::ACTIVATION_NONE : proto::RELU,
                          .initializer = proto::HE_NORMAL});
      if (normalises) layers.Add(next(), LayerWriter::Normalisation{.activation = proto::RELU});
      ++feature;
    }
    pools.push_back(layers.MaxPooling(next(), 2, 2));
  }
  return pools;
}

std::string VggText(const proto::Vgg& vgg) {
  return absl::StrCat(vgg.has_depth()
                          ? absl::StrCat("VGG", vgg.depth())
                          : absl::StrCat("VGG of ", absl::StrJoin(vgg.convolutions(), "-"), " convolutions"),
                      vgg.width() == 64 ? "" : absl::StrCat(", width ", vgg.width()),
                      vgg.batch_normalisation() ? " with batch normalisation" : "");
}

namespace {

void Complete(proto::Model& model) { CompleteVgg(*model.mutable_vgg()); }

std::string Problem(const proto::Model& model) { return VggProblem("vgg", model.vgg()); }

std::string Text(const proto::Model& model) { return VggText(model.vgg()); }

void Expand(const proto::Model& model, int64_t classes, LayerWriter& layers) {
  const proto::Vgg& vgg = model.vgg();
  WriteVggFeatures(vgg, layers);
  layers.Flatten("flatten");
  int dense = 0;
  for (const int64_t units : vgg.dense_units()) {
    layers.Dense(absl::StrCat("classifier.", dense), units, proto::RELU);
    layers.Dropout(absl::StrCat("classifier.", dense + 2), vgg.dropout());
    dense += 3;  // torchvision numbers the activation too, and the dropout.
  }
  layers.Dense(absl::StrCat("classifier.", dense), classes);
}

}  // namespace

const FamilyKind kVggFamily = {
    .kind = proto::Model::kVgg, .complete = Complete, .problem = Problem, .expand = Expand, .text = Text};

}  // namespace tethys
