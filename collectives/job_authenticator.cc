#include "collectives/job_authenticator.h"

#include <utility>

namespace tethys {
namespace {

class JobAuthenticator final : public Authenticator {
 public:
  JobAuthenticator(JobToken token, proto::Handshake identity)
      : token_(std::move(token)), identity_(std::move(identity)) {}

  std::string Prove(const RankClaim& own, uint64_t nonce) const override {
    proto::Handshake handshake = identity_;
    handshake.set_index(static_cast<uint32_t>(own.rank));  // In a ring, the index is the rank.
    handshake.set_incarnation(own.incarnation);
    handshake.set_generation(own.generation);
    CompleteHandshake(token_, nonce, handshake);
    return handshake.SerializeAsString();
  }

  absl::StatusOr<RankClaim> Check(const std::string& proof, uint64_t nonce,
                                  uint32_t generation) const override {
    proto::Handshake handshake;
    if (!handshake.ParseFromString(proof)) {
      return absl::UnauthenticatedError("the caller sent no handshake");
    }
    const HandshakeExpectation expected{.job_id = identity_.job_id(),
                                        .job_hash = identity_.job_hash(),
                                        .model_signature = identity_.model_signature(),
                                        .generation = generation};
    TETHYS_RETURN_IF_ERROR(CheckHandshake(token_, nonce, expected, handshake));
    if (handshake.role() != identity_.role()) {
      return absl::FailedPreconditionError(
          absl::StrCat("the caller is a ", proto::Role_Name(handshake.role()),
                       ", but this ring connects processes of role ", proto::Role_Name(identity_.role()),
                       ": check the address that the caller was given"));
    }
    return RankClaim{.rank = static_cast<int>(handshake.index()),
                     .incarnation = handshake.incarnation(),
                     .generation = handshake.generation()};
  }

 private:
  const JobToken token_;
  const proto::Handshake identity_;
};

}  // namespace

std::shared_ptr<const Authenticator> CreateJobAuthenticator(JobToken token, proto::Handshake identity) {
  return std::make_shared<JobAuthenticator>(std::move(token), std::move(identity));
}

}  // namespace tethys
