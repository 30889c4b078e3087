#include "workers/plan_job.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "ps/partitioner.h"
#include "runtime/cluster/job_plan.h"
#include "runtime/cluster/sample_order.h"
#include "runtime/data/class_names.h"
#include "runtime/data/data_format.h"
#include "runtime/data/dataset.h"
#include "runtime/data/sharding.h"
#include "runtime/job/job.h"
#include "runtime/job/job_validation.h"
#include "runtime/nn/model.h"
#include "runtime/nn/plan.h"
#include "runtime/optim/optimizer.h"
#include "runtime/shape/job_shape.h"

namespace tethys {
namespace {

// How a batch is split among workers, each of which computes `rows` rows at a time.
struct Split {
  int64_t workers = 1;
  int64_t rows = 1;
  bool together = false;  // True: rows that all workers compute at a time are normalised as one batch.
};

// The number of samples in the smallest non-empty part of a batch that is normalised separately. `samples` is
// the size of the batch.
int64_t SmallestPart(int64_t samples, const Split& split) {
  const int64_t fewest = samples / split.workers, longer = samples % split.workers;
  int64_t smallest = samples;
  for (int64_t begin = 0; begin <= fewest; begin += split.rows) {
    const auto of_worker = [&](int64_t own) { return std::clamp<int64_t>(own - begin, 0, split.rows); };
    const int64_t few = of_worker(fewest), many = longer > 0 ? of_worker(fewest + 1) : 0;
    const int64_t all = longer * many + (split.workers - longer) * few;
    for (const int64_t part : {split.together ? all : few, split.together ? all : many}) {
      if (part > 0) smallest = std::min(smallest, part);
    }
  }
  return smallest;
}

// The size of the batch that is split: the batch of one worker if workers lease whole batches, otherwise the
// global batch.
int64_t BatchOf(const proto::Job& job) {
  return TraitsOf(job).leases() ? BatchPerWorkerRows(job) : GlobalBatch(job);
}
Split SplitOf(const proto::Job& job) {
  const int64_t workers =
      TraitsOf(job).leases() ? 1 : std::max(job.workers(), job.strategy().local().virtual_replicas());
  return {.workers = workers,
          .rows = MicroBatchRows((BatchOf(job) + workers - 1) / workers, std::max(1, job.micro_batches())),
          .together = job.strategy().mirrored().synchronised_batch_normalisation()};
}

// InvalidArgument: a layer cannot learn from the smallest part of a batch that is normalised separately.
absl::Status CheckBatches(const proto::Job& job, const Model& model, int64_t epoch_length) {
  const int64_t batch = BatchOf(job);
  const Split split = SplitOf(job);
  TETHYS_RETURN_IF_ERROR(Annotate(model.CheckBatch(SmallestPart(batch, split)), "model"));
  const int64_t rest = epoch_length % batch;
  if (job.drop_remainder() || rest == 0) return absl::OkStatus();
  const absl::Status short_batch = model.CheckBatch(SmallestPart(rest, split));
  if (short_batch.ok()) return short_batch;
  return absl::InvalidArgumentError(absl::StrCat("model: ", short_batch.message(), "; an epoch of ",
                                                 epoch_length, " samples ends with a batch of ", rest,
                                                 ": write drop_remainder: true, or another batch size"));
}

// If the data files are divided among the workers, writes the number of samples in each file into the plan.
// InvalidArgument: there are too few files, or an epoch with sharding OFF has too many positions.
absl::Status PlanSharding(const DatasetSizes& sizes, proto::JobPlan& plan) {
  const proto::Data& data = plan.job().data();
  const int64_t ranks = RanksOf(plan);
  const int64_t files = std::count_if(sizes.file_samples.begin(), sizes.file_samples.end(),
                                      [](int64_t samples) { return samples > 0; });
  if (data.sharding() == proto::Data::FILE && sizes.file_samples.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("data.sharding is FILE, but data.",
                     proto::Data::descriptor()->FindFieldByNumber(data.source_case())->name(),
                     " does not spread samples over files: write sharding: DATA, or AUTO, which has the same "
                     "effect for these data"));
  }
  if (data.sharding() == proto::Data::FILE && files < ranks) {
    return absl::InvalidArgumentError(absl::StrCat("data.sharding is FILE, but only ", files, " of ",
                                                   sizes.file_samples.size(),
                                                   " files have samples for training, and each of ", ranks,
                                                   " workers needs a file: lower workers, spread the "
                                                   "samples over more files, or write sharding: DATA"));
  }
  const bool by_file = data.sharding() == proto::Data::FILE || data.sharding() == proto::Data::AUTO;
  if (by_file && files >= ranks) {
    plan.mutable_file_samples()->Assign(sizes.file_samples.begin(), sizes.file_samples.end());
  }
  if (EpochLength(plan) <= kMaxEpochLength) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("data.sharding is OFF, so an epoch uses ", sizes.train, " samples ", ranks,
                   " times, but an epoch may use at most 2^40: lower workers, or write sharding: DATA"));
}

}  // namespace

absl::StatusOr<proto::JobPlan> PlanJob(const proto::Job& job) {
  proto::JobPlan plan;
  TETHYS_ASSIGN_OR_RETURN(const DatasetSizes sizes, ReadDatasetSizes(job));
  *plan.mutable_job() = job;
  plan.set_job_hash(JobHash(plan.job()));
  plan.set_train_samples(sizes.train);
  TETHYS_RETURN_IF_ERROR(PlanSharding(sizes, plan));
  TETHYS_RETURN_IF_ERROR(CheckTrainingLength(EpochLength(plan), job));
  plan.set_validation_samples(sizes.validation);
  plan.set_test_samples(sizes.test);
  for (const std::string& note : sizes.notes) plan.add_data_note(note);
  for (const int64_t axis : sizes.sample_shape) plan.add_sample_shape(axis);
  plan.set_float_inputs(sizes.type == ValueType::kFloat);
  for (const int64_t axis : sizes.labels.shape) plan.add_label_shape(axis);
  TETHYS_ASSIGN_OR_RETURN(const std::vector<std::string> class_names, ClassNamesOf(job.data()));
  plan.mutable_class_name()->Add(class_names.begin(), class_names.end());
  plan.set_batch_per_worker(BatchPerWorkerRows(job));
  plan.set_global_batch(GlobalBatch(job));
  TETHYS_ASSIGN_OR_RETURN(const Model model,
                          Model::Create(job.model(), sizes.sample_shape, job.data().classes()));
  TETHYS_RETURN_IF_ERROR(Annotate(model.CheckLabels(sizes.labels), "model"));
  TETHYS_RETURN_IF_ERROR(CheckBatches(job, model, EpochLength(plan)));
  AddVariables(model.variables(), plan);
  AddStatistics(model.statistics(), plan);
  for (const OptimizerSlot& slot : SlotsOf(job.optimizer())) plan.add_slot(slot.name);
  if (TraitsOf(job).servers()) {
    TETHYS_ASSIGN_OR_RETURN(*plan.mutable_placement(),
                            PlaceShards(model.variables(), ShapeOf(job).servers, job.tuning().partitioner()));
  }
  TETHYS_RETURN_IF_ERROR(CheckPlanSize(plan));
  return plan;
}

absl::Status CheckRestOfEpoch(const proto::JobPlan& plan, int64_t position) {
  const proto::Job& job = plan.job();
  const int64_t rest = (SamplesPerEpoch(plan) - position) % BatchOf(job);
  if (position == 0 || rest <= 0) return absl::OkStatus();
  TETHYS_ASSIGN_OR_RETURN(const Model model,
                          Model::Create(job.model(), {plan.sample_shape().begin(), plan.sample_shape().end()},
                                        job.data().classes()));
  const absl::Status last_batch = model.CheckBatch(SmallestPart(rest, SplitOf(job)));
  if (last_batch.ok()) return last_batch;
  return absl::FailedPreconditionError(absl::StrCat(
      "model: ", last_batch.message(), "; the job goes on at position ", position, " of an epoch of ",
      SamplesPerEpoch(plan), " samples, and the rest of this epoch ends with a batch of ", rest,
      ": resume with another batch size"));
}

absl::Status CheckFileSamples(const proto::JobPlan& plan, const std::vector<int64_t>& file_samples) {
  if (ShardingOf(plan) != proto::Data::FILE) return absl::OkStatus();
  constexpr char kRemedy[] =
      ", and the files are divided among the workers: put the same files on every host";
  const std::vector<int64_t> planned(plan.file_samples().begin(), plan.file_samples().end());
  if (file_samples.size() != planned.size() || planned.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("number of files with training data: ", file_samples.size(), " on this host, but ",
                     planned.size(), " in the job's plan", kRemedy));
  }
  const auto [own, expected] = std::mismatch(file_samples.begin(), file_samples.end(), planned.begin());
  if (own == file_samples.end()) return absl::OkStatus();
  const proto::Data& data = plan.job().data();
  TETHYS_ASSIGN_OR_RETURN(const std::vector<std::string> paths, FormatOf(data).files(data, DataPart::kTrain));
  const size_t file = own - file_samples.begin();
  return absl::FailedPreconditionError(
      absl::StrCat(file < paths.size() ? paths[file] : absl::StrCat("file ", file), " has ", *own,
                   " samples for training on this host, but ", *expected, " in the job's plan", kRemedy));
}

}  // namespace tethys
