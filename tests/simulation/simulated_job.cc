#include "tests/simulation/simulated_job.h"

#include <algorithm>
#include <cmath>

#include "runtime/cluster/job_plan.h"
#include "runtime/cluster/sample_order.h"
#include "runtime/data/sharding.h"
#include "runtime/shape/job_shape.h"

namespace tethys::simulation {
namespace {

constexpr int64_t kVariableSizes[] = {20, 3, 4};
// Workers save multiples of 1024 elements, so variables lie in different parts of a save. Servers save their
// own shards.
int64_t BeginOf(Kind kind, int64_t variable, int64_t dense) {
  return kind == Kind::kLocal || kind == Kind::kMirrored ? variable * 1024 : dense;
}

void SetStrategy(Kind kind, Random& random, proto::Job& job) {
  proto::Strategy& strategy = *job.mutable_strategy();
  if (IsCopied(kind)) strategy.mutable_parameter_server()->set_replicas(2);
  const auto scale = random.Pick({proto::Asynchronous::PUSH_MEAN, proto::Asynchronous::GLOBAL_MEAN});
  switch (kind) {
    case Kind::kLocal:
      strategy.mutable_local();
      return;
    case Kind::kMirrored:
      strategy.mutable_mirrored();
      return;
    case Kind::kBulk:
    case Kind::kCopied:
      strategy.mutable_parameter_server()->mutable_bulk_synchronous()->set_summation(
          random.Pick({proto::BulkSynchronous::ORDERED, proto::BulkSynchronous::ARRIVAL}));
      return;
    case Kind::kCopiedStale:
    case Kind::kStale: {
      proto::StaleSynchronous& stale = *strategy.mutable_parameter_server()->mutable_stale_synchronous();
      stale.set_bound(static_cast<int>(random.Between(0, 3)));
      stale.set_gradient_scale(scale);
      return;
    }
    case Kind::kCopiedAsync:
    case Kind::kAsync: {
      proto::Asynchronous& async = *strategy.mutable_parameter_server()->mutable_asynchronous();
      async.set_gradient_scale(scale);
      async.set_pull(random.Pick({proto::Asynchronous::WITH_ANSWER, proto::Asynchronous::BEFORE_STEP}));
      return;
    }
  }
}

}  // namespace

absl::optional<Kind> ParseKind(absl::string_view name) {
  for (size_t kind = 0; kind < std::size(kKindNames); ++kind) {
    if (name == kKindNames[kind]) return static_cast<Kind>(kind);
  }
  return absl::nullopt;
}

proto::JobPlan DrawPlan(Kind kind, Random& random) {
  proto::JobPlan plan;
  proto::Job& job = *plan.mutable_job();
  plan.set_job_id("simulated");
  plan.set_job_hash(1);
  job.mutable_timeouts()->set_start(10);
  job.mutable_timeouts()->set_silence(1);
  job.mutable_timeouts()->set_step(3);
  job.mutable_timeouts()->set_shutdown(1);
  SetStrategy(kind, random, job);
  job.mutable_optimizer()->mutable_sgd()->set_momentum(0.5);
  plan.add_slot(SlotsOf(job.optimizer())[0].name);

  plan.set_global_batch(random.Between(2, 7));
  plan.set_train_samples(random.Between(plan.global_batch(), 30));
  plan.set_validation_samples(random.Pick({0, 5, 8}));
  plan.set_test_samples(random.Pick({0, 3}));
  job.set_epochs(random.Between(1, 3));
  if (random.Chance(0.2)) job.set_max_steps(random.Between(1, 12));
  job.set_evaluate_each_epoch(true);
  if (random.Chance(0.3)) job.mutable_early_stopping()->set_patience(1);
  proto::Checkpoint& checkpoint = *job.mutable_checkpoint();
  if (random.Chance(0.6)) checkpoint.set_every_steps(random.Between(1, 5));
  if (random.Chance(0.6)) checkpoint.set_every_epochs(1);
  checkpoint.set_keep_best(random.Chance(0.3));
  job.set_drop_remainder(random.Chance(0.3));
  if (random.Chance(0.2)) job.mutable_data()->set_sharding(proto::Data::DATA);
  DrawTasks(kind, random, plan);

  int64_t dense = 0;
  for (size_t i = 0; i < std::size(kVariableSizes); ++i) {
    proto::VariableSpec& variable = *plan.add_variable();
    variable.set_name(std::string(1, static_cast<char>('a' + i)));
    variable.add_shape(kVariableSizes[i]);
    variable.set_begin(BeginOf(kind, static_cast<int64_t>(i), dense));
    dense = AlignUp(dense + kVariableSizes[i]);
  }
  return plan;
}

namespace {

void DrawElastic(Random& random, proto::Job& job) {
  proto::Elastic& elastic = *job.mutable_elastic();
  elastic.Clear();
  elastic.set_wait_seconds(random.Pick({2, 8}));
  if (random.Chance(0.3)) {
    elastic.set_on_loss(proto::Elastic::WAIT);
  } else if (random.Chance(0.3)) {
    elastic.set_min_workers(static_cast<int>(random.Between(1, job.workers())));
  }
}

}  // namespace

void DrawTasks(Kind kind, Random& random, proto::JobPlan& plan) {
  proto::Job& job = *plan.mutable_job();
  const bool sharded = plan.job().data().sharding() != proto::Data::GLOBAL;
  // The sample order of a sharded epoch depends on the number of workers.
  const bool keeps = sharded && job.workers() > 0;
  if (!keeps) {  // Every worker needs at least one sample of a batch.
    const auto most = static_cast<int>(std::min<int64_t>(4, plan.global_batch()));
    job.set_workers(kind == Kind::kLocal ? 1 : static_cast<int>(random.Between(1, most)));
  }
  plan.set_batch_per_worker((plan.global_batch() + job.workers() - 1) / job.workers());
  const bool copied = IsCopied(kind);
  job.set_max_restarts(static_cast<int>(random.Between(copied ? 1 : 0, 3)));
  if (kind == Kind::kMirrored || IsBulk(kind)) DrawElastic(random, job);
  if (kind == Kind::kBulk && random.Chance(0.3)) job.mutable_elastic()->set_on_loss(proto::Elastic::END);
  if (!job.strategy().has_parameter_server()) return;
  // The first variable is cut into two shards.
  const int servers = static_cast<int>(random.Between(copied ? 2 : 1, 5));
  job.mutable_strategy()->mutable_parameter_server()->set_servers(servers);
  proto::Placement& placement = *plan.mutable_placement();
  placement.Clear();
  placement.set_servers(servers);
  for (const Range range : {Range{0, 16}, Range{16, 4}, Range{32, 3}, Range{48, 4}}) {
    proto::Shard& shard = *placement.add_shard();
    shard.set_variable(range.begin < 32 ? "a" : range.begin < 48 ? "b" : "c");
    shard.set_begin(range.begin);
    shard.set_count(range.count);
    shard.set_server((placement.shard_size() - 1) % servers);
  }
}

// ---------------------------------------------------------------------------------------------- the model

SmallModel::SmallModel(const proto::JobPlan& plan)
    : lock_step_(!TraitsOf(plan.job()).leases()),
      global_batch_(plan.global_batch()),
      epoch_samples_(SamplesPerEpoch(plan)),
      epoch_length_(EpochLength(plan)) {
  for (const proto::VariableSpec& variable : plan.variable()) {
    for (int64_t i = 0; i < variable.shape(0); ++i) elements_.push_back(variable.begin() + i);
    arena_size_ = AlignUp(elements_.back() + 1);
  }
}

Values SmallModel::Initial() const {
  Values values{std::vector<float>(arena_size_), std::vector<float>(arena_size_)};
  for (const int64_t i : elements_) values.parameters[i] = static_cast<float>(1 + i % 7);
  return values;
}

std::vector<float> SmallModel::Gradient(const std::vector<float>& parameters, int64_t begin,
                                        int64_t count) const {
  std::vector<float> sums(arena_size_);
  for (int64_t sample = begin; sample < begin + count; ++sample) {
    for (const int64_t i : elements_) {
      const int64_t parameter = lock_step_ ? static_cast<int64_t>(parameters[i]) : 0;
      sums[i] += static_cast<float>((parameter + 5 * sample + 3 * i + sample * sample % 11) % 8);
    }
  }
  return sums;
}

void SmallModel::Update(float& parameter, float& slot, float sum, int64_t divisor) const {
  if (!lock_step_) {
    parameter += sum;
    slot += 1;
    return;
  }
  slot = std::fmod(3 * slot + sum + static_cast<float>(divisor), 1024.0f);
  parameter = std::fmod(parameter + slot, 4096.0f);
}

void SmallModel::Update(Values& values, const std::vector<float>& sums, int64_t divisor) const {
  for (const int64_t i : elements_) Update(values.parameters[i], values.slot[i], sums[i], divisor);
}

const Values& SmallModel::AfterSteps(int64_t steps) {
  if (serial_.empty()) serial_.push_back(Initial());
  const int64_t epoch_steps = StepsPerEpoch(epoch_samples_, global_batch_, false);
  while (static_cast<int64_t>(serial_.size()) <= steps) {
    const int64_t step = static_cast<int64_t>(serial_.size()) - 1;
    const Slice slice = StepSlice(epoch_samples_, global_batch_, step % epoch_steps);
    Values next = serial_.back();
    const int64_t begin = JobPosition(step / epoch_steps, epoch_length_, slice.begin);
    Update(next, Gradient(next.parameters, begin, slice.count()), slice.count());
    serial_.push_back(std::move(next));
  }
  return serial_[steps];
}

int64_t SmallModel::StepsAt(int64_t epoch, int64_t position) const {
  return epoch * StepsPerEpoch(epoch_samples_, global_batch_, false) + position / global_batch_;
}

namespace {

class ExactOptimizer final : public Optimizer {
 public:
  ExactOptimizer(const SmallModel& model, std::vector<Range> regions)
      : model_(model), regions_(std::move(regions)) {}

  absl::StatusOr<std::vector<std::unique_ptr<Buffer>>> AllocateSlots(int64_t) override {
    return std::vector<std::unique_ptr<Buffer>>();
  }
  void SetRates(int, const tethys::Update& update) override { rates_ = update; }
  absl::Status Enqueue(Stream&, int, const tethys::Update& update, float* parameters, const float* sums,
                       absl::Span<float* const> slots) override {
    const int64_t divisor = std::llround(1 / rates_.gradient_scale);
    for (const Range& region : regions_) {
      const Range range = Intersection(region, update.part);
      for (int64_t i = range.begin; i < range.end(); ++i) {
        model_.Update(parameters[i], slots[0][i], sums[i], divisor);
      }
    }
    return absl::OkStatus();
  }
  const int32_t* refused() const override { return nullptr; }
  absl::Status Check(int) const override { return absl::OkStatus(); }

 private:
  const SmallModel& model_;
  const std::vector<Range> regions_;
  tethys::Update rates_;
};

}  // namespace

std::unique_ptr<Optimizer> CreateExactOptimizer(const SmallModel& model, std::vector<Range> regions) {
  return std::make_unique<ExactOptimizer>(model, std::move(regions));
}

}  // namespace tethys::simulation
