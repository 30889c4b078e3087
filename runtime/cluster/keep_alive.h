// Keep-alive probes of idle gRPC connections, on both ends of the control plane and the data plane.
// Stateless, so thread-safe.
//
// Without probes, a connection whose other end has vanished (a cut link, a machine without power) stays open
// until TCP gives up, after about 15 minutes.
#ifndef TETHYS_RUNTIME_CLUSTER_KEEP_ALIVE_H_
#define TETHYS_RUNTIME_CLUSTER_KEEP_ALIVE_H_

#include <grpcpp/server_builder.h>
#include <grpcpp/support/channel_arguments.h>

#include "runtime/base/clock.h"

namespace tethys {

// A connection on which nothing arrives is probed after this time, and closed if nothing arrives for the same
// time again. Both ends probe. A server accepts probes at half this interval, so that it does not treat its
// clients' probes as abuse.
constexpr Nanoseconds kKeepAliveInterval = 10 * kSecond;

void KeepAlive(grpc::ChannelArguments& arguments);
void KeepAlive(grpc::ServerBuilder& builder);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_CLUSTER_KEEP_ALIVE_H_
