// Certificates for tests, in a line each.
#ifndef TETHYS_TESTS_TESTING_CERTIFICATES_H_
#define TETHYS_TESTS_TESTING_CERTIFICATES_H_

#include <chrono>
#include <memory>

#include "runtime/cluster/certificates.h"

namespace tethys::testing {

// By whose clock it is `days_ago` before the present.
inline std::unique_ptr<JobAuthority> MakeAuthority(int days_ago = 0) {
  return *JobAuthority::Create(
      [days_ago] { return std::chrono::system_clock::now() - std::chrono::hours(24 * days_ago); });
}
// What an authority issued so long ago has expired.
inline constexpr int kLongAgo = 11 * 365;

inline TlsIdentity IdentityOf(const JobAuthority& authority, proto::Role role, int index) {
  return *authority.Issue(role, index);
}

}  // namespace tethys::testing

#endif  // TETHYS_TESTS_TESTING_CERTIFICATES_H_
