// Probes of quiet gRPC connections, on both ends of the control plane and the data plane. Stateless, so
// thread-safe.
//
// Without them a connection whose other end vanished (a cut link, a machine without power) lives until TCP
// gives it up, after about 15 minutes.
#ifndef TETHYS_RUNTIME_CLUSTER_KEEP_ALIVE_H_
#define TETHYS_RUNTIME_CLUSTER_KEEP_ALIVE_H_

#include <grpcpp/server_builder.h>
#include <grpcpp/support/channel_arguments.h>

#include "runtime/base/clock.h"

namespace tethys {

// A connection on which nothing arrives is probed after this time and given up after the same time again.
// Both ends probe, and a server allows probes at half the interval, so that neither treats the other's as
// abuse.
constexpr Nanoseconds kKeepAliveInterval = 10 * kSecond;

void KeepAlive(grpc::ChannelArguments& arguments);
void KeepAlive(grpc::ServerBuilder& builder);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_CLUSTER_KEEP_ALIVE_H_
