#include "runtime/consistency/rule.h"

namespace tethys {

// The table of consistencies. Each consistency has a factory, which the file of the consistency defines, and
// a case in CreateRule.
std::unique_ptr<ConsistencyRule> CreateBulkSynchronousRule(int workers);
std::unique_ptr<ConsistencyRule> CreateAsynchronousRule(const proto::Asynchronous& config, int workers,
                                                        int64_t global_batch);
std::unique_ptr<ConsistencyRule> CreateStaleSynchronousRule(const proto::StaleSynchronous& config,
                                                            int workers, int64_t global_batch);

std::unique_ptr<ConsistencyRule> CreateRule(const proto::ParameterServer& config, int workers,
                                            int64_t global_batch) {
  switch (config.consistency_case()) {
    case proto::ParameterServer::kAsynchronous:
      return CreateAsynchronousRule(config.asynchronous(), workers, global_batch);
    case proto::ParameterServer::kStaleSynchronous:
      return CreateStaleSynchronousRule(config.stale_synchronous(), workers, global_batch);
    case proto::ParameterServer::kBulkSynchronous:
    case proto::ParameterServer::CONSISTENCY_NOT_SET:
      break;
  }
  return CreateBulkSynchronousRule(workers);
}

const std::vector<DueUpdate>& ConsistencyRule::TakesPart(int /*worker*/, bool /*takes_part*/,
                                                         uint64_t /*clock*/) {
  due_.clear();
  return due_;
}

void ConsistencyRule::Close(int worker) { workers_[worker].open = workers_[worker].arrived = false; }

}  // namespace tethys
