// Authenticates every caller: for rings of processes that trust one another and belong to no job.
#ifndef TETHYS_TESTS_TESTING_OPEN_AUTHENTICATOR_H_
#define TETHYS_TESTS_TESTING_OPEN_AUTHENTICATOR_H_

#include <cstring>
#include <memory>
#include <string>

#include "collectives/authenticator.h"

namespace tethys::testing {

class OpenAuthenticator final : public Authenticator {
 public:
  std::string Prove(const RankClaim& own, uint64_t) const override {
    return {reinterpret_cast<const char*>(&own), sizeof(own)};
  }
  absl::StatusOr<RankClaim> Check(const std::string& proof, uint64_t, uint32_t generation) const override {
    RankClaim claim;
    if (proof.size() != sizeof(claim)) return absl::UnauthenticatedError("the caller sent no claim");
    std::memcpy(&claim, proof.data(), sizeof(claim));
    if (claim.generation != generation) return absl::FailedPreconditionError("another generation");
    return claim;
  }
};

}  // namespace tethys::testing

#endif  // TETHYS_TESTS_TESTING_OPEN_AUTHENTICATOR_H_
