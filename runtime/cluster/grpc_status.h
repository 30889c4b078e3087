// Converts between the statuses of gRPC and Abseil, whose codes have the same numbers.
#ifndef TETHYS_RUNTIME_CLUSTER_GRPC_STATUS_H_
#define TETHYS_RUNTIME_CLUSTER_GRPC_STATUS_H_

#include <grpcpp/support/status.h>

#include "runtime/base/status.h"

namespace tethys {

inline absl::Status FromGrpcStatus(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
}

inline grpc::Status ToGrpcStatus(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), std::string(status.message()));
}

}  // namespace tethys

#endif  // TETHYS_RUNTIME_CLUSTER_GRPC_STATUS_H_
