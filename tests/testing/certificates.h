// Certificates for tests.
#ifndef TETHYS_TESTS_TESTING_CERTIFICATES_H_
#define TETHYS_TESTS_TESTING_CERTIFICATES_H_

#include <chrono>
#include <memory>

#include "runtime/cluster/certificates.h"

namespace tethys::testing {

// A job's certificate authority whose clock is `days_ago` days behind the present.
inline std::unique_ptr<JobAuthority> MakeAuthority(int days_ago = 0) {
  return *JobAuthority::Create(
      [days_ago] { return std::chrono::system_clock::now() - std::chrono::hours(24 * days_ago); });
}
// Certificates that were issued this many days ago have expired.
inline constexpr int kLongAgo = 11 * 365;

inline TlsIdentity IdentityOf(const JobAuthority& authority, proto::Role role, int index) {
  return *authority.Issue(role, index);
}

}  // namespace tethys::testing

#endif  // TETHYS_TESTS_TESTING_CERTIFICATES_H_
