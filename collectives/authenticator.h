// The interface by which the ranks of a ring prove to one another that they belong to the ring. The code of a
// ring does not depend on jobs: job_authenticator.h implements this interface for the workers of a job, and
// another implementation may authenticate other processes.
//
// Used by the thread that forms the ring. No call blocks.
#ifndef TETHYS_COLLECTIVES_AUTHENTICATOR_H_
#define TETHYS_COLLECTIVES_AUTHENTICATOR_H_

#include <cstdint>
#include <string>

#include "runtime/base/status.h"

namespace tethys {

// The identity that a rank claims towards a peer.
struct RankClaim {
  int rank = 0;
  uint32_t incarnation = 1;
  uint32_t generation = 1;
};

class Authenticator {
 public:
  virtual ~Authenticator() = default;

  // Returns the bytes, at most 4096, that prove `own` to the peer that chose `nonce`.
  virtual std::string Prove(const RankClaim& own, uint64_t nonce) const = 0;

  // Returns the claim that `proof` proves. `proof` may be any bytes, and the rank of the claim any number.
  // Unauthenticated: the proof is wrong, or covers another nonce. FailedPrecondition: the peer belongs to
  // another group of processes, or to another generation than `generation`; the error names what differs.
  virtual absl::StatusOr<RankClaim> Check(const std::string& proof, uint64_t nonce,
                                          uint32_t generation) const = 0;
};

}  // namespace tethys

#endif  // TETHYS_COLLECTIVES_AUTHENTICATOR_H_
