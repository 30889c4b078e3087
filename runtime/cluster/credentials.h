// Credentials of gRPC connections: mutual TLS if the job has certificates, none otherwise. All gRPC servers
// and channels of Tethys use these credentials. Stateless, so thread-safe.
//
// Both ends use the OpenSSL of the same build, so they always agree on TLS 1.3.
#ifndef TETHYS_RUNTIME_CLUSTER_CREDENTIALS_H_
#define TETHYS_RUNTIME_CLUSTER_CREDENTIALS_H_

#include <grpcpp/security/auth_context.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/support/channel_arguments.h>

#include <memory>

#include "absl/types/optional.h"
#include "proto/member.pb.h"
#include "runtime/base/status.h"
#include "runtime/cluster/certificates.h"

namespace tethys {

// Credentials of a server. The server then refuses a caller without a certificate of this job before the
// caller can make a call.
std::shared_ptr<grpc::ServerCredentials> MakeServerCredentials(const absl::optional<TlsIdentity>& identity);

// Credentials for a channel that only the process of the given role and index can answer; also adds to
// `arguments` the name that the process's certificate must have.
std::shared_ptr<grpc::ChannelCredentials> MakeChannelCredentials(const absl::optional<TlsIdentity>& identity,
                                                                 proto::Role role, int index,
                                                                 grpc::ChannelArguments& arguments);

// Checks that the caller's certificate names the role and index of its handshake. OK without TLS.
// Unauthenticated: the names differ; the error gives both.
absl::Status CheckCaller(const absl::optional<TlsIdentity>& identity, const grpc::AuthContext& caller,
                         const proto::Handshake& handshake);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_CLUSTER_CREDENTIALS_H_
