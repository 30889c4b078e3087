// Whole networks by name: model { resnet { depth: 50 } }. A family is one file of this folder with a row of
// the table in zoo.cc and a message in job.proto. This is the only place that turns a family into layers; the
// rest of the program sees layers. Pure; any thread.
#ifndef TETHYS_RUNTIME_NN_ZOO_ZOO_H_
#define TETHYS_RUNTIME_NN_ZOO_ZOO_H_

#include <cstdint>
#include <string>

#include "proto/job.pb.h"

namespace tethys {

// The model as a list of layers in which every field has a value: the layers of the description, or the
// layers of the family with `classes` outputs. Frozen layers of a family are marked as not trainable. If the
// fields of the family are wrong (FamilyProblem), the result is unspecified.
proto::Model ExpandModel(const proto::Model& model, int64_t classes);

// Sets the absent fields of the model's family. Values are not checked.
void CompleteFamily(proto::Model& model);

// An error text about the fields of the model's family: "resnet.depth is 51: it must be ...". Empty if the
// fields are right, or if the model has no family. Requires a completed family.
std::string FamilyProblem(const proto::Model& model);

// For reports: "ResNet-50", or the layers: "flatten, dense 128 relu, dense 10". Requires a completed model.
std::string ModelText(const proto::Model& model);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_NN_ZOO_ZOO_H_
