// A model: what the job describes, turned into variables in an arena. Knows no device and holds no numbers;
// compile it into a Plan (plan.h) to run it. Immutable, thread-safe.
#ifndef TETHYS_RUNTIME_NN_MODEL_H_
#define TETHYS_RUNTIME_NN_MODEL_H_

#include <string>
#include <vector>

#include "proto/job.pb.h"
#include "runtime/tensor/variable.h"

namespace tethys {

class Model {
 public:
  // Variables are called LAYER/weights and LAYER/bias; a layer without a name is its kind and position,
  // "dense_1". `sample_shape` is one sample's, without the batch axis ([28, 28]); `classes` what the last
  // layer must give. InvalidArgument names the layer: no dense layer, a dense layer on more than one axis,
  // repeated names, last layer of another width than `classes`, too many parameters for memory's sake (2^33).
  static absl::StatusOr<Model> Create(const proto::Model& config, const Shape& sample_shape, int64_t classes);

  const VariableSet& variables() const { return variables_; }
  const Shape& sample_shape() const { return sample_shape_; }
  int64_t sample_elements() const { return sample_elements_; }
  int64_t classes() const { return classes_; }

  // Ranges of the arena in the order backward fills them: from the last layer to the first, one per dense
  // layer, from its weights to the end of its bias. The padding between the two is part of it (and zero).
  std::vector<Range> ready_order() const;

  // A dense layer as the plan needs it.
  struct DenseLayer {
    std::string name;
    int64_t in = 0;
    int64_t out = 0;
    bool relu = false;
    Range weights;  // [in, out]
    Range bias;     // [out]
  };
  const std::vector<DenseLayer>& dense_layers() const { return dense_layers_; }

  // Floating-point operations of forward and backward per sample, products only (2 per multiply-add).
  int64_t flops_per_sample() const;

 private:
  VariableSet variables_;
  Shape sample_shape_;
  int64_t sample_elements_ = 0;
  int64_t classes_ = 0;
  std::vector<DenseLayer> dense_layers_;
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_NN_MODEL_H_
