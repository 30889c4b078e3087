// FamilyKind describes a family of models for the table in zoo.cc; each family has one file of this folder.
// LayerWriter is the writer of layers that these files use.
#ifndef TETHYS_RUNTIME_NN_ZOO_FAMILY_H_
#define TETHYS_RUNTIME_NN_ZOO_FAMILY_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "proto/job.pb.h"

namespace tethys {

// Appends layers to a model. Each function returns the name of the new layer, for use as the input of other
// layers. An empty `input` means the layer that was added last.
class LayerWriter {
 public:
  explicit LayerWriter(proto::Model& model) : model_(model) {}

  struct Convolution {
    int64_t filters = 0;
    int64_t kernel_size = 3;
    int64_t stride = 1;
    absl::optional<int64_t> pad = absl::nullopt;  // Absent: the field `padding` says how the image is padded.
    proto::Padding padding = proto::VALID;
    int64_t groups = 1;
    bool bias = true;
    proto::Activation activation = proto::ACTIVATION_NONE;
    proto::Initializer initializer = proto::INITIALIZER_DEFAULT;
  };
  std::string Add(absl::string_view name, const Convolution& convolution, absl::string_view input = "");

  struct Normalisation {
    proto::Activation activation = proto::ACTIVATION_NONE;
    double decay = 0.9;
    double epsilon = 1e-5;
  };
  std::string Add(absl::string_view name, const Normalisation& normalisation);

  std::string Dense(absl::string_view name, int64_t units,
                    proto::Activation activation = proto::ACTIVATION_NONE);
  std::string MaxPooling(absl::string_view name, int64_t size, int64_t stride, int64_t pad = 0);
  std::string GlobalAveragePooling(absl::string_view name);
  std::string Flatten(absl::string_view name);
  // Adds no layer if the rate is 0.
  void Dropout(absl::string_view name, double rate);
  // Adds a transposed convolution that enlarges images by the factor `times` and starts as bilinear
  // interpolation.
  std::string Enlarge(absl::string_view name, int64_t filters, int64_t times);
  std::string Sum(absl::string_view name, absl::string_view a, absl::string_view b);
  // Adds a layer that computes the sum of the two inputs, and then the relu of the sum.
  std::string SumRelu(absl::string_view name, absl::string_view a, absl::string_view b);

 private:
  proto::Layer& NewLayer(absl::string_view name, absl::string_view input = "");

  proto::Model& model_;
};

// A row of the table of families. The functions must be given a model of this family.
struct FamilyKind {
  proto::Model::FamilyCase kind = proto::Model::FAMILY_NOT_SET;
  // Sets the absent fields of the family. Values are not checked.
  void (*complete)(proto::Model& model) = nullptr;
  // An error text about the fields; empty if they are right. Requires, like the functions below, that
  // complete has set the fields.
  std::string (*problem)(const proto::Model& model) = nullptr;
  void (*expand)(const proto::Model& model, int64_t classes, LayerWriter& layers) = nullptr;
  std::string (*text)(const proto::Model& model) = nullptr;  // For reports: "ResNet-50".
};

extern const FamilyKind kFcnFamily, kLenetFamily, kMobilenetFamily, kResnetFamily, kVggFamily;

// An error text such as "resnet.width is 0: it must be 1 to 16384"; empty if `value` is in [1, most].
std::string RangeProblem(absl::string_view field, int64_t value, int64_t most);
// RangeProblem for a rate of dropout: empty if `rate` is in [0, 1).
std::string RateProblem(absl::string_view field, double rate);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_NN_ZOO_FAMILY_H_
