// NCCL as a StreamCommunicator (runtime/device/stream_communicator.h). Communicators are non-blocking: every
// call comes back at once and is polled under a deadline, so that a rank that is lost never hangs the others.
// ncclCommFinalize and ncclCommAbort have no such deadline: both wait for graphs that captured an all-reduce,
// so these are destroyed first.
#ifndef TETHYS_RUNTIME_DEVICE_CUDA_NCCL_COMMUNICATOR_H_
#define TETHYS_RUNTIME_DEVICE_CUDA_NCCL_COMMUNICATOR_H_

#include <memory>
#include <string>

#include "runtime/device/stream_communicator.h"

namespace tethys::cuda {

absl::StatusOr<std::string> NewNcclGroupId();

// For the GPU that is the calling thread's.
absl::StatusOr<std::unique_ptr<StreamCommunicator>> JoinNcclGroup(const StreamGroup& group);

}  // namespace tethys::cuda

#endif  // TETHYS_RUNTIME_DEVICE_CUDA_NCCL_COMMUNICATOR_H_
