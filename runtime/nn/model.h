// A model: the job's description, turned into variables in an arena. It depends on no device and holds no
// values; compile it into a Plan (plan.h) to run it. Immutable, thread-safe.
#ifndef TETHYS_RUNTIME_NN_MODEL_H_
#define TETHYS_RUNTIME_NN_MODEL_H_

#include <string>
#include <variant>
#include <vector>

#include "proto/job.pb.h"
#include "runtime/device/image_primitives.h"
#include "runtime/device/primitives.h"
#include "runtime/tensor/variable.h"

namespace tethys {

class Model {
 public:
  // Variables are called LAYER/weights (LAYER/filters for a convolution) and LAYER/bias. A layer without a
  // name is named after its kind and position, such as "dense_1". `sample_shape` is the shape of one sample,
  // without the batch axis: [height, width, channels], or [28, 28] for one channel. `classes` is the number
  // of outputs that the last layer must have. InvalidArgument names the layer. Reasons: nothing to train, an
  // input with other axes than the layer takes, a window larger than its image, a repeated name, a last layer
  // with another number of outputs, more than 2^33 parameters (to bound memory).
  static absl::StatusOr<Model> Create(const proto::Model& config, const Shape& sample_shape, int64_t classes);

  const VariableSet& variables() const { return variables_; }
  const Shape& sample_shape() const { return sample_shape_; }
  int64_t sample_elements() const { return sample_elements_; }
  int64_t classes() const { return classes_; }

  // Ranges of the arena in the order in which backward fills them, from the last layer to the first. Each
  // layer with variables has one range, from the start of its weights to the end of its bias. The range
  // includes the padding between weights and bias, which is zero.
  std::vector<Range> ready_order() const;

  // A layer as a plan needs it. A flatten is left out, since it moves no data. Activations are stored as
  // NHWC.
  struct Layer {
    std::string name;
    std::variant<DenseShape, ConvolutionShape, MaxPoolingShape> shape = {};  // For one row.
    int64_t in = 0;                                                          // Elements of a sample.
    int64_t out = 0;
    Range weights = {};  // [in, out], or filters [out, height, width, in]. Max pooling: empty, like `bias`.
    Range bias = {};     // [out]
    bool has_variables() const { return weights.count > 0; }
  };
  const std::vector<Layer>& layers() const { return layers_; }
  // Backward ends at this layer: earlier layers have nothing to learn.
  size_t first_layer_with_variables() const { return first_layer_with_variables_; }

 private:
  VariableSet variables_;
  Shape sample_shape_;
  int64_t sample_elements_ = 0;
  int64_t classes_ = 0;
  std::vector<Layer> layers_;
  size_t first_layer_with_variables_ = 0;
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_NN_MODEL_H_
