// The certificates of one job. The launcher makes an authority, whose key never leaves its memory, and issues
// every process an identity of its own, which travels with the job's token over standard input. Both ends of
// every connection then prove that they belong to this job, and which role and index they have.
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
  std::string certificate;  // The process's own, signed by it.
  std::string key;
};

// The name in a process's certificate, "worker-3.tethys": a DNS name in form only. It has no host's name or
// address, since roles are placed anew for every job.
std::string CertificateName(proto::Role role, int index);

// InvalidArgument: a part that cannot be read, a key or an authority that does not match the certificate.
// FailedPrecondition: expired, or not valid yet by this machine's clock. Quotes no secret.
absl::Status CheckIdentity(const TlsIdentity& identity);

class JobAuthority {
 public:
  using SystemTime = std::chrono::system_clock::time_point;

  // Valid for 20 years from `now()`. All certificates are valid from a day before they are made, because
  // clocks differ.
  static absl::StatusOr<std::unique_ptr<JobAuthority>> Create(
      std::function<SystemTime()> now = std::chrono::system_clock::now);
  virtual ~JobAuthority() = default;

  // Valid for 10 years from the present: a process shows it whenever it makes a connection, also late in a
  // long job, and gets no other one. The authority, which belongs to one job, limits its use.
  virtual absl::StatusOr<TlsIdentity> Issue(proto::Role role, int index) const = 0;
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_CLUSTER_CERTIFICATES_H_
