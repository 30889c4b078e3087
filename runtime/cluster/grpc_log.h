// Writes gRPC's own messages to the log; by default gRPC writes them to standard error.
#ifndef TETHYS_RUNTIME_CLUSTER_GRPC_LOG_H_
#define TETHYS_RUNTIME_CLUSTER_GRPC_LOG_H_

namespace tethys {

// Logs gRPC's messages with severity Info, because the reason of a failed call is reported elsewhere, and
// other messages do not help a user. For example, gRPC 1.51 logs an error if its thread pool takes more than
// a second to end ("Waiting for thread pool to idle before shutting down"). That happens after any load for
// which gRPC started more threads, because idle threads of gRPC sleep for a second. Must be called before
// gRPC is used.
void LogWhatGrpcLogs();

}  // namespace tethys

#endif  // TETHYS_RUNTIME_CLUSTER_GRPC_LOG_H_
