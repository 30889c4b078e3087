// The parts of VGG that other families use.
#ifndef TETHYS_RUNTIME_NN_ZOO_VGG_H_
#define TETHYS_RUNTIME_NN_ZOO_VGG_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "proto/job.pb.h"
#include "runtime/nn/zoo/family.h"

namespace tethys {

// Sets the absent fields. Values are not checked.
void CompleteVgg(proto::Vgg& vgg);

// An error text about the fields of the message that the job calls `field`; empty if they are right.
std::string VggProblem(absl::string_view field, const proto::Vgg& vgg);

// Adds VGG's convolutions and pooling layers to `layers`; returns the names of the last layers of the blocks,
// which are the pooling layers.
std::vector<std::string> WriteVggFeatures(const proto::Vgg& vgg, LayerWriter& layers);

// For reports: "VGG16 with batch normalisation".
std::string VggText(const proto::Vgg& vgg);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_NN_ZOO_VGG_H_
