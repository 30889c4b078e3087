// Mean and deviation of the training samples. Every process computes the same bits: bytes are summed in exact
// integers, floats in doubles in the order of the samples.
#ifndef TETHYS_RUNTIME_DATA_INPUT_SCALING_H_
#define TETHYS_RUNTIME_DATA_INPUT_SCALING_H_

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "runtime/base/status.h"
#include "runtime/data/dataset.h"
#include "runtime/tensor/batch.h"

namespace tethys {

// The mean and deviation of each channel's values, or of all values if `channels` is 1. Reads every sample,
// and calls `progressed` repeatedly. InvalidArgument: all values, or all values of a channel, are equal. Also
// the errors of reading a sample.
absl::StatusOr<InputScaling> ComputeScaling(const Dataset& train, int64_t channels,
                                            absl::FunctionRef<void()> progressed);

// The standardisation that the job's fields give for samples of this type. Requires that nothing has to be
// computed.
InputScaling SpecifiedScaling(const proto::Data& data, ValueType type);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_DATA_INPUT_SCALING_H_
