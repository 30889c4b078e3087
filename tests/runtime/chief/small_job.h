// The plan of a job that is small enough for tests to follow every step.
#ifndef TETHYS_TESTS_RUNTIME_CHIEF_SMALL_JOB_H_
#define TETHYS_TESTS_RUNTIME_CHIEF_SMALL_JOB_H_

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "proto/plan.pb.h"

namespace tethys {

// The job has one epoch of two steps (twenty training samples in batches of ten), two validation samples and
// four test samples. `job` sets further fields, in text format.
inline proto::JobPlan Plan(const std::string& job) {
  proto::JobPlan plan;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      "epochs: 1 evaluate_each_epoch: true timeouts { start: 60 silence: 10 step: 30 shutdown: 3 } " + job,
      plan.mutable_job()));
  plan.set_train_samples(20);
  plan.set_validation_samples(2);
  plan.set_test_samples(4);
  plan.set_global_batch(10);
  plan.set_batch_per_worker(5);
  if (plan.job().strategy().has_parameter_server()) {
    const int servers = std::max(1, plan.job().strategy().parameter_server().servers());
    plan.mutable_placement()->set_servers(servers);
    for (int i = 0; i < servers; ++i) plan.mutable_placement()->add_shard()->set_server(i);
  }
  return plan;
}

}  // namespace tethys

#endif  // TETHYS_TESTS_RUNTIME_CHIEF_SMALL_JOB_H_
