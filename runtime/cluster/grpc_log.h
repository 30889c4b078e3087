// gRPC's own messages, which it writes to standard error, as lines of the log.
#ifndef TETHYS_RUNTIME_CLUSTER_GRPC_LOG_H_
#define TETHYS_RUNTIME_CLUSTER_GRPC_LOG_H_

namespace tethys {

// Logs gRPC's messages with severity Info: a failed call returns its reason, which is reported elsewhere, and
// the rest does not help a user. For example, version 1.51 calls it an error if its thread pool takes more
// than a second to end ("Waiting for thread pool to idle before shutting down"), as it does after a load that
// made it start threads which now sleep for a second. Call it before gRPC is used.
void LogWhatGrpcLogs();

}  // namespace tethys

#endif  // TETHYS_RUNTIME_CLUSTER_GRPC_LOG_H_
