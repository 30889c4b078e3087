// Compares every kind of optimizer with PyTorch, Keras and timm: 50 updates of 1,000 parameters from the same
// gradients. reference/make_reference.py made the files.
#include <gtest/gtest.h>

#include <cmath>

#include "runtime/job/job_file.h"
#include "runtime/optim/optimizer.h"
#include "tests/testing/reference_tensors.h"

namespace tethys {
namespace {

constexpr int64_t kElements = 1000;
constexpr int kUpdates = 50;

struct ReferenceCase {
  const char* library;
  const char* name;
  const char* optimizer;  // The fields of the job's `optimizer`, in text format.
};

const ReferenceCase kReferences[] = {
    {"torch", "sgd", "learning_rate: 0.05 weight_decay: 0.01 sgd {}"},
    {"torch", "momentum", "learning_rate: 0.05 weight_decay: 0.01 sgd { momentum: 0.9 }"},
    {"torch", "nesterov", "learning_rate: 0.05 sgd { momentum: 0.9 nesterov: true }"},
    {"torch", "adam", "learning_rate: 0.01 adam {}"},
    {"torch", "adam_decay",
     "learning_rate: 0.01 weight_decay: 0.01 adam { beta_1: 0.8 beta_2: 0.99 epsilon: 1e-6 }"},
    {"torch", "adamw", "learning_rate: 0.01 weight_decay: 0.1 decoupled_weight_decay: true adam {}"},
    {"torch", "rmsprop", "learning_rate: 0.01 rmsprop {}"},
    {"torch", "rmsprop_momentum",
     "learning_rate: 0.01 weight_decay: 0.01 rmsprop { decay: 0.9 momentum: 0.9 }"},
    {"torch", "rmsprop_centered", "learning_rate: 0.01 rmsprop { centered: true }"},
    {"torch", "rmsprop_centered_momentum", "learning_rate: 0.01 rmsprop { centered: true momentum: 0.5 }"},
    {"torch", "adagrad", "learning_rate: 0.05 adagrad {}"},
    {"torch", "adagrad_initial",
     "learning_rate: 0.05 weight_decay: 0.01 adagrad { initial_accumulator: 0.5 }"},
    {"keras", "momentum", "learning_rate: 0.05 sgd { momentum: 0.9 }"},
    {"keras", "nesterov", "learning_rate: 0.05 sgd { momentum: 0.9 nesterov: true }"},
    {"keras", "adam", "learning_rate: 0.01 adam { epsilon: 1e-7 epsilon_hat: true }"},
    {"keras", "adamw",
     "learning_rate: 0.01 weight_decay: 0.1 decoupled_weight_decay: true adam { epsilon: 1e-7 epsilon_hat: "
     "true }"},
    {"keras", "rmsprop",
     "learning_rate: 0.01 rmsprop { decay: 0.9 epsilon: 1e-7 epsilon_inside_root: true }"},
    {"keras", "rmsprop_momentum",
     "learning_rate: 0.01 rmsprop { decay: 0.9 epsilon: 1e-7 epsilon_inside_root: true momentum: 0.9 }"},
    {"keras", "rmsprop_centered",
     "learning_rate: 0.01 rmsprop { decay: 0.9 epsilon: 1e-7 epsilon_inside_root: true momentum: 0.5 "
     "centered: true }"},
    {"keras", "adagrad",
     "learning_rate: 0.05 adagrad { epsilon: 1e-7 epsilon_inside_root: true initial_accumulator: 0.1 }"},
    {"layerwise", "lars", "learning_rate: 2 lars {}"},
    {"layerwise", "lars_decay", "learning_rate: 2 weight_decay: 0.01 lars { trust: 0.01 epsilon: 1e-6 }"},
    {"layerwise", "lars_nesterov",
     "learning_rate: 2 weight_decay: 0.001 lars { momentum: 0.8 nesterov: true }"},
    {"layerwise", "lamb", "learning_rate: 0.01 lamb {}"},
    {"layerwise", "lamb_decay",
     "learning_rate: 0.01 weight_decay: 0.1 lamb { beta_1: 0.8 beta_2: 0.99 epsilon: 1e-3 }"},
    {"layerwise", "lamb_clipped", "learning_rate: 0.01 weight_decay: 0.1 clip { global_norm: 1 } lamb {}"},
    {"layerwise", "lamb_keras", "learning_rate: 0.01 no_weight_decay: 'none' lamb { epsilon: 1e-7 }"},
};

std::vector<float> ReadReference(const std::string& library, const std::string& name) {
  return ReadReferenceTensors(absl::StrCat(TETHYS_REFERENCE_FOLDER, "/", library, ".safetensors"))[name];
}

// The parameters before the first update, by the formula of make_reference.py.
std::vector<float> Parameters() {
  std::vector<float> values(kElements);
  for (int64_t i = 0; i < kElements; ++i) values[i] = static_cast<float>((i * 31 % 101 - 50) / 50.0);
  return values;
}
std::vector<float> Gradient(int64_t update) {
  constexpr double kSizes[] = {1, 0.1, 0.001, 10};
  std::vector<float> values(kElements);
  for (int64_t i = 0; i < kElements; ++i) {
    const auto place = static_cast<double>((i * 7919 + update * 104729) % 2003 - 1001);
    values[i] = static_cast<float>(place / 1001.0 * kSizes[i % 4]);
  }
  return values;
}

std::vector<NamedRange> Variables(const std::string& library) {
  if (library != "layerwise") return {{"weights", {0, kElements}}};
  return {{"a/weights", {0, 600}}, {"b/weights", {600, 350}}, {"b/bias", {950, 50}}};
}

// The optimizer of a job file, with the defaults filled in.
proto::Optimizer Resolved(const std::string& optimizer) {
  const std::string text = absl::StrCat(
      "name: 'x' epochs: 1 batch_size_per_worker: 1 strategy { local {} } model { layer { dense { units: 2 } "
      "} } ",
      "data { classes: 2 idx { train_images: 'a' train_labels: 'b' } } optimizer { ", optimizer, " }");
  return ParseJob(text, "reference", {}).value().optimizer();
}

class OptimizerReferenceTest : public testing::TestWithParam<ReferenceCase> {};

TEST_P(OptimizerReferenceTest, FiftyUpdatesAgreeWithThoseOfAReferenceLibrary) {
  const proto::Optimizer config = Resolved(GetParam().optimizer);
  const std::vector<float> expected = ReadReference(GetParam().library, GetParam().name);
  ASSERT_EQ(expected.size(), static_cast<size_t>(kElements));
  auto device = CreateCpuDevice(1).value();
  auto stream = device->CreateStream().value();
  auto optimizer =
      CreateOptimizer(config, *device, MakeUpdateRegions(config, Variables(GetParam().library))).value();
  auto slots = optimizer->AllocateSlots(kElements).value();
  std::vector<float*> pointers;
  for (auto& slot : slots) pointers.push_back(slot->floats());

  std::vector<float> parameters = Parameters();
  for (int64_t update = 0; update < kUpdates; ++update) {
    // Sums of gradients over four samples, whose mean is the gradient of make_reference.py.
    std::vector<float> sums = Gradient(update);
    for (float& sum : sums) sum *= 4;
    const Update step = {
        .learning_rate = config.learning_rate(), .gradient_scale = 0.25, .number = update + 1};
    ASSERT_TRUE(optimizer->Apply(*stream, step, parameters.data(), sums.data(), pointers).ok());
  }
  double difference = 0, norm = 0, most = 0;
  for (int64_t i = 0; i < kElements; ++i) {
    const double error = parameters[i] - expected[i];
    difference += error * error;
    norm += expected[i] * expected[i];
    most = std::max(most, std::fabs(error) / std::max(1.0, std::fabs(double{expected[i]})));
  }
  EXPECT_LE(std::sqrt(difference / norm), 1e-6);
  EXPECT_LE(most, 1e-5);
}

INSTANTIATE_TEST_SUITE_P(Kinds, OptimizerReferenceTest, testing::ValuesIn(kReferences), [](const auto& info) {
  return absl::StrCat(info.param.library, "_", info.param.name);
});

}  // namespace
}  // namespace tethys
