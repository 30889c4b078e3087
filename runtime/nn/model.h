// A model: the job's description, turned into a graph of layers and variables in an arena. It depends on no
// device and contains no values; compile it into a Plan (plan.h) to run it. Immutable, thread-safe.
#ifndef TETHYS_RUNTIME_NN_MODEL_H_
#define TETHYS_RUNTIME_NN_MODEL_H_

#include <memory>
#include <string>
#include <vector>

#include "proto/job.pb.h"
#include "runtime/nn/layer_graph.h"
#include "runtime/nn/layers/layer_defaults.h"
#include "runtime/nn/layers/operation.h"
#include "runtime/nn/losses/loss.h"
#include "runtime/tensor/batch.h"
#include "runtime/tensor/variable.h"

namespace tethys {

class Model {
 public:
  // Makes the model that `config` describes. Variables are called LAYER/weights (LAYER/filters for a
  // convolution) and LAYER/bias, if there is one, or, for batch normalisation, LAYER/scale and LAYER/offset.
  // A layer without a name is named after its kind and position, such as "dense_1". `sample_shape` is the
  // shape of one sample, without the batch axis: [height, width, channels], or [28, 28] for one channel.
  // `classes` is the job's data.classes. A family (zoo/zoo.h) is expanded. InvalidArgument names the layer.
  // Reasons: nothing to train, frozen batch normalisation after a layer that trains, an input that is no
  // earlier layer or has other axes than the layer takes, a window larger than its image, a repeated name, an
  // output that no layer reads, a last layer whose output does not suit the loss, groups that do not divide
  // the channels; to bound memory and time, more than 2^33 parameters, 2^40 elements of a value or 4096
  // layers.
  static absl::StatusOr<Model> Create(const proto::Model& config, const Shape& sample_shape, int64_t classes);

  // InvalidArgument: the loss cannot compare the model's outputs with labels of this format.
  absl::Status CheckLabels(const LabelFormat& labels) const;

  // InvalidArgument: some layer cannot learn from batches of `samples` samples; the message names the layer.
  absl::Status CheckBatch(int64_t samples) const;

  const VariableSet& variables() const { return variables_; }
  // The moving statistics of batch normalisation, in a separate arena: LAYER/moving_mean and
  // LAYER/moving_variance. They are not trained; evaluations use them.
  const VariableSet& statistics() const { return statistics_; }
  const Shape& sample_shape() const { return sample_shape_; }
  int64_t sample_elements() const { return sample_elements_; }
  // The size of the output's last axis.
  int64_t classes() const { return output_shape().back(); }
  // The shape of the output for one sample: [classes], or [height, width, classes].
  const Shape& output_shape() const { return output_shape_; }
  int64_t outputs() const { return graph_->elements(graph_->layer_count()); }
  const Loss& loss() const { return *loss_; }
  // The layout of a batch of samples whose values are of type `values`.
  BatchLayout batch_layout(int64_t rows, ValueType values) const {
    return {rows, sample_elements_ * BytesOf(values), loss_->labels().elements()};
  }

  // Ranges of the arena in the order in which backward fills them, from the last layer to the first. Each
  // layer that trains has one range, from the start of its first variable to the end of its last. The
  // range includes the padding between variables, which is zero.
  std::vector<Range> ready_order() const;

  // A layer that computes. Layers that only give a value another shape (flatten) are left out. Activations
  // are stored as NHWC.
  struct Layer {
    proto::Layer config = {};  // The layer of the description, with all fields set.
    // Shapes of one row of the inputs; graph() says which values the inputs are.
    std::vector<Shape> inputs = {};
    Shape output = {};
    // Ranges in the arena: weights (or filters), then bias; or scale, then offset.
    std::vector<Range> variables = {};
    std::vector<Range> statistics = {};  // Ranges in the arena of statistics: mean, variance.
    std::shared_ptr<const Operation> operation = nullptr;
    const std::string& name() const { return config.name(); }
    // True if training changes variables of the layer.
    bool trains() const { return !variables.empty() && IsTrainable(config); }
  };
  const std::vector<Layer>& layers() const { return layers_; }
  // The graph, whose layers are the layers of layers().
  const LayerGraph& graph() const { return *graph_; }

 private:
  // InvalidArgument: backward would have to pass through frozen moving statistics.
  absl::Status CheckFrozen() const;

  VariableSet variables_;
  VariableSet statistics_;
  Shape sample_shape_;
  int64_t sample_elements_ = 0;
  Shape output_shape_;
  std::shared_ptr<const Loss> loss_;
  std::vector<Layer> layers_;
  std::shared_ptr<const LayerGraph> graph_;
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_NN_MODEL_H_
