// A model: what the job describes, turned into variables in an arena. Knows no device and holds no numbers;
// compile it into a Plan (plan.h) to run it. Immutable, thread-safe.
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
  // Variables are called LAYER/weights (of a convolution LAYER/filters) and LAYER/bias; a layer without a
  // name is its kind and position, "dense_1". `sample_shape` is one sample's, without the batch axis ([28,
  // 28], one channel, or [height, width, channels]); `classes` what the last layer must give. InvalidArgument
  // names the layer: nothing to train, an input of other axes than the layer takes, a window larger than its
  // image, repeated names, last layer of another width than `classes`, too many parameters for memory's sake
  // (2^33).
  static absl::StatusOr<Model> Create(const proto::Model& config, const Shape& sample_shape, int64_t classes);

  const VariableSet& variables() const { return variables_; }
  const Shape& sample_shape() const { return sample_shape_; }
  int64_t sample_elements() const { return sample_elements_; }
  int64_t classes() const { return classes_; }

  // Ranges of the arena in the order backward fills them: from the last layer with variables to the first,
  // one each, from its weights to the end of its bias. The padding between the two is part of it (and zero).
  std::vector<Range> ready_order() const;

  // A layer as the plan needs it; flatten is none, since it moves nothing. Activations lie as NHWC.
  struct Layer {
    std::string name;
    std::variant<DenseShape, ConvolutionShape, MaxPoolingShape> shape = {};  // For one row.
    int64_t in = 0;                                                          // Elements of a sample.
    int64_t out = 0;
    Range weights = {};  // [in, out], or filters [out, height, width, in]. Empty, as `bias`, for max pooling.
    Range bias = {};     // [out]
    bool has_variables() const { return weights.count > 0; }
  };
  const std::vector<Layer>& layers() const { return layers_; }
  // Backward ends here: what lies before it has nothing to learn.
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
