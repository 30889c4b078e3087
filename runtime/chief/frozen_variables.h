// Saves the variables that are not trained and that no server holds. Blocks on files; thread-compatible.
#ifndef TETHYS_RUNTIME_CHIEF_FROZEN_VARIABLES_H_
#define TETHYS_RUNTIME_CHIEF_FROZEN_VARIABLES_H_

#include <cstdint>

#include "runtime/base/status.h"
#include "runtime/checkpoint/checkpoint_reader.h"
#include "runtime/checkpoint/checkpoint_writer.h"
#include "runtime/tensor/variable.h"

namespace tethys {

// Writes the values of the frozen variables: the values in `reader` or, if `reader` is null, the initial
// values drawn with `seed`. Also writes zeros for all `slots` optimizer slots of these variables. Errors:
// those of CheckpointReader::Read and CheckpointWriter::Write.
absl::Status WriteFrozenVariables(const VariableSet& variables, uint64_t seed, const CheckpointReader* reader,
                                  int slots, CheckpointWriter& writer);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_CHIEF_FROZEN_VARIABLES_H_
