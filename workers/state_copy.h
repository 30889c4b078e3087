// Copies the state of training from one member of a group to the members that are behind: parameters,
// optimizer slots and, for members that are new, moving statistics. The copy goes over the connections of the
// group that has just formed, never through files.
//
// A copy is staged: the receiver's own state stays as it is until the whole copy has arrived and its checksum
// is right. So a member that is interrupted in the middle of a copy has the state from before.
#ifndef TETHYS_WORKERS_STATE_COPY_H_
#define TETHYS_WORKERS_STATE_COPY_H_

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "collectives/communicator.h"
#include "runtime/tensor/arena.h"

namespace tethys {

// Says which rank sends its state to which ranks, and how large the state is. Equal on all ranks of the
// group.
struct StateCopy {
  int64_t step = 0;         // The number of global steps in the state of the source.
  int source = 0;           // The rank that sends its state.
  std::vector<int> behind;  // The ranks that take the state, ascending, without the source; may be empty.
  int64_t parts = 1;        // Number of parts: the parameters and each slot of the optimizer.
  int64_t elements = 0;     // Floats in each part.
  // Floats in the moving statistics of each rank. They are not copied, because ranks differ in them: a rank
  // that has none takes the mean over the ranks that have some.
  int64_t statistics = 0;

  bool takes_part(int rank) const;
  bool is_behind(int rank) const;
};

// What a rank that was behind has received.
struct StagedState {
  std::vector<Arena> parts;
  // The mean of the moving statistics of the ranks that have some; empty if no rank has.
  std::vector<float> mean_statistics;
};

// Passes the floats of a part, which are in host memory, to `use`.
using ReadPart = absl::FunctionRef<absl::Status(
    int64_t part, absl::FunctionRef<absl::Status(absl::Span<const float> values)> use)>;

// Copies the state from the source to the ranks that are behind. A collective over `group`: every rank calls
// it. `read` is called on the source only. `own_statistics` are the moving statistics of this rank, of
// copy.statistics floats; null: the rank is new and has none. `staged` is written on the ranks that are
// behind.
//
// Blocks until this rank's part is done; the other ranks wait chunk by chunk, so that no timeout passes while
// others make progress. Has the errors of Communicator. DataLoss: the checksum or the size of what arrived
// differs from what the source sent. ResourceExhausted: no memory for the staged copy. Internal: `copy` names
// ranks that do not exist.
absl::Status CopyState(Communicator& group, const StateCopy& copy, ReadPart read,
                       const std::vector<float>* own_statistics, StagedState& staged);

}  // namespace tethys

#endif  // TETHYS_WORKERS_STATE_COPY_H_
