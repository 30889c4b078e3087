// Functions by which servers and workers decide whether an update waits for norms over all servers. Pure; any
// thread.
#ifndef TETHYS_PS_SHARED_NORMS_H_
#define TETHYS_PS_SHARED_NORMS_H_

#include "proto/job.pb.h"
#include "runtime/optim/optimizer_kind.h"
#include "runtime/shape/job_shape.h"

namespace tethys {

// True if servers clip with the norm over all servers, because no process has all gradients of an update.
// Otherwise each push is an update of its own, and the worker clips it.
inline bool ClipsOnServers(const proto::Job& job) {
  return job.optimizer().has_clip() && TraitsOf(job).servers_agree();
}

// True if servers compute sums of squares of their parts of the variables, for trust ratios.
inline bool MeasuresOnServers(const proto::Job& job) {
  return HasTrustRatio(job.optimizer()) && TraitsOf(job).servers_agree();
}

// True if updates wait for norms over all servers.
inline bool ExchangesNorms(const proto::Job& job) { return ClipsOnServers(job) || MeasuresOnServers(job); }

}  // namespace tethys

#endif  // TETHYS_PS_SHARED_NORMS_H_
