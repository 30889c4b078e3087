// Trains the model of a job file in this process, without chief or other processes, and prints its accuracy:
//
//   embed examples/fashion_mnist_local.textproto
#include <iostream>
#include <utility>

#include "runtime/data/dataset.h"
#include "runtime/job/job.h"
#include "runtime/job/job_file.h"
#include "runtime/local_strategy.h"
#include "workers/replica.h"

namespace tethys {

absl::Status Train(const std::string& job_file) {
  const MonotonicClock clock;
  TETHYS_ASSIGN_OR_RETURN(const proto::Job job, LoadJob(job_file, {}));
  TETHYS_ASSIGN_OR_RETURN(const Datasets data, LoadDatasets(job));
  TETHYS_ASSIGN_OR_RETURN(const InputScaling scaling, ResolveScaling(job.data(), data));
  TETHYS_ASSIGN_OR_RETURN(Model model,
                          Model::Create(job.model(), data.train->sample_shape(), job.data().classes()));
  TETHYS_ASSIGN_OR_RETURN(std::unique_ptr<Device> device, CreateCpuDevice(/*threads=*/1));
  const int64_t rows = BatchPerWorkerRows(job), samples = data.train->size();

  // The replica is the only rank, and its strategy exchanges nothing.
  TETHYS_ASSIGN_OR_RETURN(
      const std::unique_ptr<Replica> replica,
      Replica::Create(std::move(model), std::move(device), clock,
                      {.rows = rows, .evaluation_rows = rows, .scaling = scaling, .train = data.train}));
  const LearningRateSchedule schedule(job.optimizer(), {.epoch = samples, .job = job.epochs() * samples});
  TETHYS_ASSIGN_OR_RETURN(ReplicaUpdate update, replica->MakeUpdate(job.optimizer(), schedule));
  TETHYS_RETURN_IF_ERROR(replica->Attach(CreateLocalStrategy(std::move(update), clock)));
  TETHYS_RETURN_IF_ERROR(replica->FillInitialValues(job.seed()));

  StepInfo step;
  for (step.epoch = 0; step.epoch < job.epochs(); ++step.epoch) {
    const auto order = std::make_shared<const EpochOrder>(job.seed(), step.epoch, samples);
    for (int64_t i = 0; i < StepsPerEpoch(samples, rows, /*drop_remainder=*/false); ++i, ++step.step) {
      const Slice slice = StepSlice(samples, rows, i);
      replica->loader().Announce(order, slice);
      step.schedule_position = step.sample_begin = step.epoch * samples + slice.begin;
      step.global_sample_count = step.sample_count = slice.count();
      TETHYS_RETURN_IF_ERROR(replica->Step(step));
    }
  }
  TETHYS_RETURN_IF_ERROR(replica->Finish());

  TETHYS_ASSIGN_OR_RETURN(const proto::EvaluationDone sums,
                          replica->Evaluate(data.test, {0, data.test->size()}));
  const auto count = static_cast<double>(sums.samples());
  std::cout << "accuracy " << static_cast<double>(sums.correct()) / count << ", loss "
            << sums.loss_sum() / count << " after " << step.step << " steps\n";
  return absl::OkStatus();
}

}  // namespace tethys

int main(int argc, char** argv) {
  const absl::Status status =
      argc == 2 ? tethys::Train(argv[1]) : absl::InvalidArgumentError("usage: embed JOB");
  if (!status.ok()) std::cerr << status << "\n";
  return status.ok() ? 0 : 1;
}
