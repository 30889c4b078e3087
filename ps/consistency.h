// Questions about the consistency of a job with parameter servers, asked by servers and workers alike.
#ifndef TETHYS_PS_CONSISTENCY_H_
#define TETHYS_PS_CONSISTENCY_H_

#include "proto/job.pb.h"
#include "runtime/optim/optimizer_kind.h"

namespace tethys {

inline bool IsBulkSynchronous(const proto::ParameterServer& config) {
  return !config.has_asynchronous() && !config.has_stale_synchronous();
}

// Each step begins with a pull, and the answers to pushes have no parameters.
inline bool PullsBeforeStep(const proto::ParameterServer& config) {
  return config.asynchronous().pull() == proto::Asynchronous::BEFORE_STEP;
}

// Whether an update divides each push by the push's own samples, not by those of the global batch. Never if
// bulk-synchronous.
inline bool UsesPushMean(const proto::ParameterServer& config) {
  if (IsBulkSynchronous(config)) return false;
  const proto::Asynchronous::GradientScale scale = config.has_stale_synchronous()
                                                       ? config.stale_synchronous().gradient_scale()
                                                       : config.asynchronous().gradient_scale();
  return scale == proto::Asynchronous::PUSH_MEAN;
}

// Whether servers clip with the norm over all servers, since no process has all gradients of an update.
// Otherwise the worker clips each push, which is then an update of its own.
inline bool ClipsOnServers(const proto::Job& job) {
  return job.optimizer().has_clip() && IsBulkSynchronous(job.strategy().parameter_server());
}

// Whether servers measure the parts of variables that they hold, for trust ratios.
inline bool MeasuresOnServers(const proto::Job& job) {
  return HasTrustRatio(job.optimizer()) && IsBulkSynchronous(job.strategy().parameter_server());
}

// Whether updates wait for norms over all servers.
inline bool ExchangesNorms(const proto::Job& job) { return ClipsOnServers(job) || MeasuresOnServers(job); }

}  // namespace tethys

#endif  // TETHYS_PS_CONSISTENCY_H_
