// Residual networks: He, Zhang, Ren and Sun, "Deep residual learning for image recognition", CVPR 2016.
// Layers of style TORCHVISION have torchvision's names; layers of style KERAS are like the layers of
// keras.applications.ResNet50 and its siblings.
#include <array>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "runtime/nn/zoo/family.h"

namespace tethys {
namespace {

struct Depth {
  int depth;
  bool bottleneck;
  std::array<int, 4> blocks;  // Number of blocks of each stage.
};
constexpr Depth kDepths[] = {{18, false, {2, 2, 2, 2}},
                             {34, false, {3, 4, 6, 3}},
                             {50, true, {3, 4, 6, 3}},
                             {101, true, {3, 4, 23, 3}},
                             {152, true, {3, 8, 36, 3}}};
constexpr int kMostCifarDepth = 1202;

const Depth* FindDepth(int depth) {
  for (const Depth& each : kDepths) {
    if (each.depth == depth) return &each;
  }
  return nullptr;
}

void Complete(proto::Model& model) {
  proto::Resnet& resnet = *model.mutable_resnet();
  if (!resnet.has_stem()) resnet.set_stem(proto::Resnet::IMAGENET);
  const bool cifar = resnet.stem() == proto::Resnet::CIFAR;
  if (!resnet.has_depth()) resnet.set_depth(cifar ? 20 : 50);
  if (!resnet.has_style()) resnet.set_style(proto::Resnet::TORCHVISION);
  if (!resnet.has_width()) resnet.set_width(cifar ? 16 : 64);
}

std::string Problem(const proto::Model& model) {
  const proto::Resnet& resnet = model.resnet();
  if (!proto::Resnet::Stem_IsValid(resnet.stem()) || !proto::Resnet::Style_IsValid(resnet.style())) {
    return "resnet has an unknown stem or style";
  }
  if (resnet.stem() == proto::Resnet::CIFAR) {
    if (resnet.depth() < 8 || resnet.depth() > kMostCifarDepth || resnet.depth() % 6 != 2) {
      return absl::StrCat("resnet.depth is ", resnet.depth(),
                          ": with stem CIFAR it must be 6 n + 2 and at most ", kMostCifarDepth,
                          ", such as 20, 32, 44, 56 or 110");
    }
    if (resnet.style() == proto::Resnet::KERAS)
      return "resnet.style is KERAS, which does not support resnet.stem CIFAR";
  } else if (FindDepth(resnet.depth()) == nullptr) {
    return absl::StrCat("resnet.depth is ", resnet.depth(),
                        ": it must be 18, 34, 50, 101 or 152; 20, 32, 44, 56 and 110 need stem: CIFAR");
  } else if (resnet.style() == proto::Resnet::KERAS && !FindDepth(resnet.depth())->bottleneck) {
    return absl::StrCat("resnet.style is KERAS, which has depths 50, 101 and 152, but resnet.depth is ",
                        resnet.depth());
  }
  return RangeProblem("resnet.width", resnet.width(), 1 << 14);
}

class Writer {
 public:
  Writer(const proto::Resnet& resnet, LayerWriter& layers)
      : resnet_(resnet), keras_(resnet.style() == proto::Resnet::KERAS), layers_(layers) {}

  void Write(int64_t classes) {
    if (resnet_.stem() == proto::Resnet::CIFAR) {
      WriteConvolution("conv1", "bn1", {.filters = resnet_.width(), .pad = 1}, proto::RELU);
      const int blocks = (resnet_.depth() - 2) / 6;
      for (int stage = 0; stage < 3; ++stage) WriteStage(stage, blocks, /*bottleneck=*/false);
    } else {
      WriteConvolution("conv1", "bn1", {.filters = resnet_.width(), .kernel_size = 7, .stride = 2, .pad = 3},
                       proto::RELU);
      last_ = layers_.MaxPooling("maxpool", 3, 2, 1);
      const Depth& depth = *FindDepth(resnet_.depth());
      for (int stage = 0; stage < 4; ++stage) WriteStage(stage, depth.blocks[stage], depth.bottleneck);
    }
    layers_.GlobalAveragePooling("avgpool");
    layers_.Dense("fc", classes);
  }

 private:
  // Writes a convolution and its batch normalisation.
  void WriteConvolution(absl::string_view name, absl::string_view norm, LayerWriter::Convolution convolution,
                        proto::Activation activation) {
    convolution.bias = keras_;
    convolution.initializer = keras_ ? proto::GLOROT_UNIFORM : proto::HE_NORMAL_FAN_OUT;
    layers_.Add(name, convolution, last_);
    const LayerWriter::Normalisation normalisation = {
        .activation = activation, .decay = keras_ ? 0.99 : 0.9, .epsilon = keras_ ? 1.001e-5 : 1e-5};
    last_ = layers_.Add(norm, normalisation);
  }

  void WriteStage(int stage, int blocks, bool bottleneck) {
    const int64_t width = resnet_.width() << stage;
    for (int block = 0; block < blocks; ++block) {
      const bool strided = block == 0 && stage > 0;
      const std::string prefix = absl::StrCat("layer", stage + 1, ".", block);
      const std::string input = last_;
      const int64_t out = bottleneck ? 4 * width : width;
      if (bottleneck) {
        WriteBottleneck(prefix, width, strided ? 2 : 1);
      } else {
        WriteConvolution(prefix + ".conv1", prefix + ".bn1",
                         {.filters = width, .stride = strided ? 2 : 1, .pad = 1}, proto::RELU);
        WriteConvolution(prefix + ".conv2", prefix + ".bn2", {.filters = width, .pad = 1},
                         proto::ACTIVATION_NONE);
      }
      const std::string branch = last_;
      last_ = input;
      if (block == 0 && (strided || bottleneck)) {
        WriteConvolution(prefix + ".downsample.0", prefix + ".downsample.1",
                         {.filters = out, .kernel_size = 1, .stride = strided ? 2 : 1, .pad = 0},
                         proto::ACTIVATION_NONE);
      }
      last_ = layers_.SumRelu(prefix, branch, last_);
    }
  }

  // torchvision has the stride on the 3 x 3 convolution (version 1.5), Keras on the first convolution.
  void WriteBottleneck(const std::string& prefix, int64_t width, int64_t stride) {
    const int64_t first = keras_ ? stride : 1, second = keras_ ? 1 : stride;
    WriteConvolution(prefix + ".conv1", prefix + ".bn1",
                     {.filters = width, .kernel_size = 1, .stride = first, .pad = 0}, proto::RELU);
    WriteConvolution(prefix + ".conv2", prefix + ".bn2", {.filters = width, .stride = second, .pad = 1},
                     proto::RELU);
    WriteConvolution(prefix + ".conv3", prefix + ".bn3", {.filters = 4 * width, .kernel_size = 1, .pad = 0},
                     proto::ACTIVATION_NONE);
  }

  const proto::Resnet& resnet_;
  const bool keras_;
  LayerWriter& layers_;
  std::string last_;  // The layer that the next layer reads; empty: the batch.
};

void Expand(const proto::Model& model, int64_t classes, LayerWriter& layers) {
  Writer(model.resnet(), layers).Write(classes);
}

std::string Text(const proto::Model& model) {
  const proto::Resnet& resnet = model.resnet();
  const bool cifar = resnet.stem() == proto::Resnet::CIFAR;
  return absl::StrCat("ResNet-", resnet.depth(), cifar ? " for CIFAR" : "",
                      resnet.style() == proto::Resnet::KERAS ? ", Keras style" : "",
                      resnet.width() == (cifar ? 16 : 64) ? "" : absl::StrCat(", width ", resnet.width()));
}

}  // namespace

const FamilyKind kResnetFamily = {
    .kind = proto::Model::kResnet, .complete = Complete, .problem = Problem, .expand = Expand, .text = Text};

}  // namespace tethys
