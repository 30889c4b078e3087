// Jobs and calibrations for tests of predictions: a 784-128-10 network on hosts with one link each.
#ifndef TETHYS_TESTS_DEPLOY_PREDICT_PREDICT_FIXTURE_H_
#define TETHYS_TESTS_DEPLOY_PREDICT_PREDICT_FIXTURE_H_

#include <string>

#include "absl/strings/str_cat.h"
#include "deploy/predict/job_forecast.h"
#include "deploy/predict/machines.h"
#include "proto/calibration.pb.h"
#include "ps/partitioner.h"
#include "runtime/cluster/job_plan.h"

namespace tethys {

struct Shape784 {
  int workers = 1;
  int servers = 0;
  bool asynchronous = false;
  int stale_bound = -1;  // -1: the job is not stale-synchronous.
  int units = 128;
};

inline proto::JobPlan PlanFor(const Shape784& shape) {
  proto::JobPlan plan;
  proto::Job& job = *plan.mutable_job();
  job.set_name("mnist");
  job.set_workers(shape.workers);
  job.set_epochs(5);
  job.mutable_optimizer()->mutable_sgd();
  job.mutable_optimizer()->set_learning_rate(0.1);
  job.mutable_data()->mutable_synthetic();
  job.mutable_data()->set_classes(10);
  proto::Layer& flatten = *job.mutable_model()->add_layer();
  flatten.set_name("flatten");
  flatten.mutable_flatten();
  for (const int units : {shape.units, 10}) {
    proto::Layer& layer = *job.mutable_model()->add_layer();
    layer.set_name(absl::StrCat("dense_", units));
    layer.mutable_dense()->set_units(units);
  }
  plan.add_sample_shape(28);
  plan.add_sample_shape(28);
  plan.set_train_samples(54000);
  plan.set_validation_samples(6000);
  plan.set_batch_per_worker(128 / shape.workers);
  plan.set_global_batch(128);
  proto::Strategy& strategy = *job.mutable_strategy();
  const Model model = *ModelOf(plan);
  AddVariables(model.variables(), plan);
  if (shape.servers > 0) {
    proto::ParameterServer& config = *strategy.mutable_parameter_server();
    config.set_servers(shape.servers);
    if (shape.asynchronous) config.mutable_asynchronous();
    if (shape.stale_bound >= 0) config.mutable_stale_synchronous()->set_bound(shape.stale_bound);
    *plan.mutable_placement() = *PlaceShards(model.variables(), shape.servers);
  } else if (shape.workers > 1) {
    strategy.mutable_mirrored();
  } else {
    strategy.mutable_local();
  }
  return plan;
}

// Places each process on a separate host.
inline JobMachines OneEach(const Shape784& shape) {
  JobMachines machines;
  for (int i = 0; i < shape.workers + shape.servers; ++i) {
    machines.hosts.push_back(absl::StrCat("host", i));
    machines.kinds.push_back("small");
    (i < shape.workers ? machines.workers : machines.servers).push_back(i);
  }
  return machines;
}

// Hosts of the kind "small", each a separate computer: a step takes 1 ms + 20 us a sample. Links have a rate
// of `mbit` Mbit/s and a delay of `delay` seconds.
inline proto::Calibration SmallHosts(double mbit = 1000, double delay = 5e-5) {
  proto::Calibration calibration;
  calibration.set_build_id("build");
  proto::ComputerCalibration& computer = *calibration.add_computer();
  computer.set_kind("small");
  computer.set_cores(1);
  for (const int64_t batch : {8, 32, 128, 512}) {
    proto::BatchTime& time = *computer.add_time();
    time.set_batch(batch);
    time.set_step(1e-3 + 2e-5 * static_cast<double>(batch));
    time.set_update(1e-4);
    time.set_forward(0.4 * time.step());
    time.set_backward(time.step() - time.forward() - time.update());
  }
  proto::LinkCalibration& link = *calibration.add_link();
  link.set_from("host0");
  link.set_to("host1");
  link.set_delay(delay);
  link.set_bytes_per_second(mbit * 1e6 / 8);
  return calibration;
}

}  // namespace tethys

#endif  // TETHYS_TESTS_DEPLOY_PREDICT_PREDICT_FIXTURE_H_
