// NCCL as a StreamCommunicator (runtime/device/stream_communicator.h). Communicators are non-blocking: every
// call returns at once and is polled under a deadline and an interruption, so that the loss of a rank never
// makes the others hang. ncclCommAbort blocks, so it runs on a thread of its own, which is left to itself
// after a deadline. ncclCommFinalize and ncclCommAbort wait without a deadline for graphs that captured an
// all-reduce, so those graphs must be destroyed first.
#ifndef TETHYS_RUNTIME_DEVICE_CUDA_NCCL_COMMUNICATOR_H_
#define TETHYS_RUNTIME_DEVICE_CUDA_NCCL_COMMUNICATOR_H_

#include <memory>
#include <string>

#include "runtime/device/stream_communicator.h"

namespace tethys::cuda {

absl::StatusOr<std::string> NewNcclGroupId();

// Joins the group with the calling thread's current GPU.
absl::StatusOr<std::unique_ptr<StreamCommunicator>> JoinNcclGroup(const StreamGroup& group);

}  // namespace tethys::cuda

#endif  // TETHYS_RUNTIME_DEVICE_CUDA_NCCL_COMMUNICATOR_H_
