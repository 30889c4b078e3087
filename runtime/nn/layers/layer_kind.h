// The contract of a kind of layer. A kind consists of a message in job.proto and one file in this folder with
// a row of the table in kinds.h. If no device has the kind's arithmetic yet, a primitive is added, too
// (runtime/device/primitive_factory.h). Pure; any thread.
#ifndef TETHYS_RUNTIME_NN_LAYERS_LAYER_KIND_H_
#define TETHYS_RUNTIME_NN_LAYERS_LAYER_KIND_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "proto/job.pb.h"
#include "runtime/base/number_rule.h"
#include "runtime/device/image_primitives.h"
#include "runtime/nn/layers/operation.h"
#include "runtime/tensor/variable.h"

namespace tethys {

// LayerKind::define receives a LayerScope. It contains the shapes of the layer's inputs, and gives access to
// the variables and statistics of the model under construction, to which the layer adds its own.
class LayerScope {
 public:
  // The layer's variables and statistics are added to `variables` and `statistics`, which must outlive the
  // scope.
  LayerScope(std::string name, bool trainable, std::vector<Shape> inputs, VariableSet& variables,
             VariableSet& statistics)
      : name_(std::move(name)),
        trainable_(trainable),
        inputs_(std::move(inputs)),
        variables_(variables),
        statistics_(statistics) {}

  // The shapes of a row of the layer's inputs; at least one.
  const std::vector<Shape>& inputs() const { return inputs_; }
  const Shape& input() const { return inputs_[0]; }
  // The input as an image; [height, width] has one channel. InvalidArgument: the input has other axes; the
  // message begins with `kind` ("max pooling").
  absl::StatusOr<ImageShape> InputImage(absl::string_view kind) const;

  // InvalidArgument: the layer has only one input.
  absl::Status CheckSeveralInputs(absl::string_view kind) const;

  // Adds the variable LAYER/`name`. fan_in and fan_out are explained in runtime/tensor/variable.h.
  // InvalidArgument: the model would become too large.
  absl::Status AddVariable(absl::string_view name, const Shape& shape, const std::string& layout,
                           InitialValue initial_value, int64_t fan_in, int64_t fan_out);
  // Adds the moving statistic LAYER/`name` of `channels` elements. InvalidArgument: the model would have too
  // many elements of moving statistics.
  absl::Status AddStatistic(absl::string_view name, int64_t channels, InitialValue initial_value);

  // The ranges of the layer's variables, and of its statistics, in the order in which they were added.
  const std::vector<Range>& ranges() const { return ranges_; }
  const std::vector<Range>& statistic_ranges() const { return statistic_ranges_; }

 private:
  const std::string name_;
  const bool trainable_;
  const std::vector<Shape> inputs_;
  VariableSet& variables_;
  VariableSet& statistics_;
  std::vector<Range> ranges_;
  std::vector<Range> statistic_ranges_;
};

struct DefinedLayer {
  Shape output;  // The shape of one row of the output.
  // Null: the output is the memory of the first input, seen as another shape.
  std::shared_ptr<const Operation> operation = nullptr;
  // An activation that the operation does not apply itself, applied to the operation's output.
  proto::Activation activation = proto::ACTIVATION_NONE;
};

// A row of the table of kinds. The functions must be given a layer of this kind.
struct LayerKind {
  int most_inputs = 1;
  // Rules for the numbers in the message of the kind.
  absl::Span<const NumberRule> numbers = {};
  // Sets the absent fields whose rules give no default. Values are not checked. Null: the kind has no such
  // field.
  void (*complete)(proto::Layer& layer) = nullptr;
  // Computes the layer's output shape and adds the layer's variables. The layer must be complete.
  // InvalidArgument: the layer does not suit its inputs; the message does not name the layer.
  absl::StatusOr<DefinedLayer> (*define)(const proto::Layer& layer, LayerScope& scope) = nullptr;
  // A complete layer in a line of text, for reports: "dense 128 relu".
  std::string (*text)(const proto::Layer& layer) = nullptr;
  // Returns the length of the first axis of the layer's shortest variable. Null: the kind has no variable.
  int64_t (*smallest_variable)(const proto::Layer& layer) = nullptr;
};

// Returns null if the layer has no kind.
const LayerKind* FindLayerKind(proto::Layer::KindCase kind);
inline const LayerKind* FindLayerKind(const proto::Layer& layer) { return FindLayerKind(layer.kind_case()); }

}  // namespace tethys

#endif  // TETHYS_RUNTIME_NN_LAYERS_LAYER_KIND_H_
