#include "runtime/cluster/credentials.h"

#include <grpc/grpc_security_constants.h>

#include <string>
#include <vector>

namespace tethys {

std::shared_ptr<grpc::ServerCredentials> MakeServerCredentials(const absl::optional<TlsIdentity>& identity) {
  if (!identity.has_value()) return grpc::InsecureServerCredentials();
  grpc::SslServerCredentialsOptions options(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  options.pem_root_certs = identity->authority;
  options.pem_key_cert_pairs.push_back({.private_key = identity->key, .cert_chain = identity->certificate});
  return grpc::SslServerCredentials(options);
}

std::shared_ptr<grpc::ChannelCredentials> MakeChannelCredentials(const absl::optional<TlsIdentity>& identity,
                                                                 proto::Role role, int index,
                                                                 grpc::ChannelArguments& arguments) {
  if (!identity.has_value()) return grpc::InsecureChannelCredentials();
  arguments.SetSslTargetNameOverride(CertificateName(role, index));
  return grpc::SslCredentials({.pem_root_certs = identity->authority,
                               .pem_private_key = identity->key,
                               .pem_cert_chain = identity->certificate});
}

absl::Status CheckCaller(const absl::optional<TlsIdentity>& identity, const grpc::AuthContext& caller,
                         const proto::Handshake& handshake) {
  if (!identity.has_value()) return absl::OkStatus();
  const std::string claimed = CertificateName(handshake.role(), handshake.index());
  const std::vector<grpc::string_ref> names = caller.FindPropertyValues(GRPC_X509_SAN_PROPERTY_NAME);
  if (names.size() == 1 && names[0] == claimed) return absl::OkStatus();
  const std::string shown = names.empty() ? "no process" : std::string(names[0].data(), names[0].size());
  return absl::UnauthenticatedError(
      absl::StrCat("the caller says that it is ", claimed, ", but its certificate is of ", shown));
}

}  // namespace tethys
