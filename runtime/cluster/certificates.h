// The certificates of one job. The launcher creates an authority, whose key never leaves the launcher's
// memory, and issues one identity per process. A process receives its identity with the job's token over
// standard input. Both ends of every connection then prove that they belong to this job, and which role and
// index they have.
//
//   auto authority = JobAuthority::Create();
//   auto identity = (*authority)->Issue(proto::WORKER, 3);     // names "worker-3.tethys"
//
// Stateless except for the authority's constant key, so thread-safe. Nothing blocks.
#ifndef TETHYS_RUNTIME_CLUSTER_CERTIFICATES_H_
#define TETHYS_RUNTIME_CLUSTER_CERTIFICATES_H_

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "proto/member.pb.h"
#include "runtime/base/status.h"

namespace tethys {

// The identity of a process, in PEM. The key is a secret.
struct TlsIdentity {
  std::string authority;    // The certificate of the job's authority, which is trusted.
  std::string certificate;  // The process's certificate, signed by the authority.
  std::string key;
};

// The name in a process's certificate, "worker-3.tethys": a DNS name in form only. It contains no host name
// or address, since every job may place its roles on other hosts.
std::string CertificateName(proto::Role role, int index);

// Checks an identity. InvalidArgument: a part cannot be read, or the key or the authority does not match the
// certificate. FailedPrecondition: by this machine's clock, a certificate has expired or is not valid yet.
// Errors quote no secret.
absl::Status CheckIdentity(const TlsIdentity& identity);

class JobAuthority {
 public:
  using SystemTime = std::chrono::system_clock::time_point;

  // Creates an authority that is valid for 20 years from `now()`. All certificates are valid from a day
  // before they are made, because machines' clocks differ.
  static absl::StatusOr<std::unique_ptr<JobAuthority>> Create(
      std::function<SystemTime()> now = std::chrono::system_clock::now);
  virtual ~JobAuthority() = default;

  // Issues an identity that is valid for 10 years, because a process gets only one identity and uses it for
  // every connection of a possibly long job. The identity is of no use in another job, because the other job
  // has another authority.
  virtual absl::StatusOr<TlsIdentity> Issue(proto::Role role, int index) const = 0;
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_CLUSTER_CERTIFICATES_H_
