// Authenticates the ranks of a job: each rank proves to its peer that it knows the job's token, and that its
// build, job, model and role equal the peer's (runtime/cluster/handshake.h).
#ifndef TETHYS_COLLECTIVES_JOB_AUTHENTICATOR_H_
#define TETHYS_COLLECTIVES_JOB_AUTHENTICATOR_H_

#include <memory>

#include "collectives/authenticator.h"
#include "proto/member.pb.h"
#include "runtime/cluster/handshake.h"

namespace tethys {

// `identity` has the role, job id, job hash and model signature, which are equal on all ranks. The other
// fields are filled in for each proof.
std::shared_ptr<const Authenticator> CreateJobAuthenticator(JobToken token, proto::Handshake identity);

}  // namespace tethys

#endif  // TETHYS_COLLECTIVES_JOB_AUTHENTICATOR_H_
