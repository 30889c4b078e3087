// Certificates for tests, in a line each.
#ifndef TETHYS_TESTS_TESTING_CERTIFICATES_H_
#define TETHYS_TESTS_TESTING_CERTIFICATES_H_

#include <chrono>
#include <memory>

#include "runtime/cluster/certificates.h"

namespace tethys::testing {

// What it issues has expired when it was made 60 days ago, and is not valid yet when made in 60 days.
inline std::unique_ptr<JobAuthority> MakeAuthority(int days_ago = 0) {
  return *JobAuthority::Create(std::chrono::system_clock::now() - std::chrono::hours(24 * days_ago));
}

inline TlsIdentity IdentityOf(const JobAuthority& authority, proto::Role role, int index) {
  return *authority.Issue(role, index);
}

}  // namespace tethys::testing

#endif  // TETHYS_TESTS_TESTING_CERTIFICATES_H_
