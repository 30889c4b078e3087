// The 90 % interval of a predicted value is value * exp(-half) to value * exp(half), with (class Distance)
//
//   half = max(q, kLeastHalfWidth)    q: a quantile of |ln(predicted / measured)| over the anchors
//        + kWidthPerDoubling * d      d: doublings from the workers, servers and batch of the anchors to
//                                     the workers, servers and batch of the job
//        - ln(1 - share)              share: the part of the CPU time that other programs used, if they
//                                     disturbed the calibration
//        + kWithoutAnchor             if no run calibrated the exchange of the job
//
// The time of a run (AddRun) is start-up + the first step's extra time
//   + epochs * (updates * step + barrier + validation) + test + checkpoint + stop.
#include "deploy/predict/step_model.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "deploy/predict/disturbance.h"
#include "deploy/predict/job_forecast.h"
#include "deploy/predict/simulated_job.h"
#include "deploy/predict/step_needs.h"
#include "runtime/cluster/job_plan.h"
#include "runtime/job/job.h"
#include "runtime/shape/job_shape.h"

namespace tethys {
namespace {

constexpr double kNormalQuantile = 1.645;  // The half width of a 90 % interval in standard deviations.
constexpr double kCoverage = 0.9;
// Two conventions: the least half width of an interval, and the half width that is added if no run of the
// calibration used the transport. tests/deploy/predict/corpus_test.cc counts how many recorded runs lie in
// their intervals with these values.
constexpr double kLeastHalfWidth = 0.1;
constexpr double kWithoutAnchor = 0.5;
// A larger CPU share of other programs does not widen intervals further.
constexpr double kMostDisturbed = 0.95;
constexpr int64_t kSimulatedPushes = 20000;

void Set(double value, double half, proto::Estimate& estimate) {
  estimate.set_value(value);
  estimate.set_low(value * std::exp(-half));
  estimate.set_high(value * std::exp(half));
}

JobShape ShapeOfAnchor(const proto::Anchor& anchor) {
  return {ParseStrategy(anchor.strategy()), anchor.workers(), anchor.servers()};
}

// The command whose brief runs exchange gradients by `transport`.
std::string HowToCalibrate(const std::string& transport) {
  if (transport == kRing) {
    return "tethys calibrate JOB --set=tuning.transport=TCP calibrates a ring on this machine, and tethys "
           "calibrate JOB --hostfile=FILE on machines with one slot each";
  }
  return absl::StrCat("tethys calibrate JOB calibrates it where ", transport == kServers
                                                                       ? "there are two slots or more"
                                                                       : "a machine has two slots or more");
}

// Computes how far the job lies beyond the anchors, and from this the width of the prediction's interval.
class Distance {
 public:
  Distance(const proto::JobPlan& plan, const StepNeeds& needs, const proto::Calibration& calibration) {
    const proto::Job& job = plan.job();
    const JobShape shape = ShapeOf(job);
    int most_workers = 0, most_servers = 0;
    int64_t batch = 0;  // The largest global batch of the calibration's measured runs (anchors).
    std::vector<double> errors;
    bool measured = false, transport = calibration.exchange().empty();
    for (const proto::Anchor& anchor : calibration.anchor()) {
      most_workers = std::max(most_workers, anchor.workers());
      most_servers = std::max(most_servers, anchor.servers());
      batch = std::max(batch, anchor.global_batch());
      if (anchor.predicted() > 0 && anchor.step() > 0) {
        errors.push_back(std::abs(std::log(anchor.predicted() / anchor.step())));
      }
      measured = measured || (ShapeOfAnchor(anchor) == shape && anchor.global_batch() == plan.global_batch());
    }
    for (const proto::ExchangeCost& cost : calibration.exchange()) {
      transport = transport || cost.transport() == needs.transport;
    }
    half_ = ConformalHalfWidth(std::move(errors));
    if (half_ < 0) half_ = kNormalQuantile * calibration.log_error();
    half_ = std::max(half_, kLeastHalfWidth);
    double doublings = 0;
    if (most_workers > 0) doublings += std::max(0.0, std::log2(double(job.workers()) / most_workers));
    if (most_servers > 0) doublings += std::max(0.0, std::log2(double(ShapeOf(job).servers) / most_servers));
    const auto of_job = static_cast<double>(plan.global_batch());
    if (batch > 0 && !measured) doublings += std::abs(std::log2(of_job / static_cast<double>(batch)));
    if (needs.extrapolated) doublings += 1;
    half_ += kWidthPerDoubling * doublings;
    // A process that got only a part of a core, 1 - share, may have taken 1 / (1 - share) times as long.
    const Disturbance disturbance = DisturbanceOf(calibration);
    const bool disturbed = disturbance.share > kDisturbed;
    if (disturbed) half_ -= std::log1p(-std::min(disturbance.share, kMostDisturbed));
    if (calibration.anchor().empty() || !transport) {
      half_ += kWithoutAnchor;
      remark_ = absl::StrCat("no run calibrated the exchange '", needs.transport,
                             "': the usual costs of this exchange are assumed, and may be far off (",
                             HowToCalibrate(needs.transport), ")");
    }
    if (needs.extrapolated) {
      absl::StrAppend(
          &remark_, remark_.empty() ? "" : "; ",
          "the batch size lies outside the measured range, so the time of a step is extrapolated");
    }
    if (disturbed) {
      absl::StrAppend(&remark_, remark_.empty() ? "" : "; ", DisturbanceText(disturbance),
                      " during the calibration, so this prediction may be far off, probably too long: "
                      "calibrate again when these programs have ended");
    }
    const bool copies = CopiesShards(plan);
    if (copies) {
      absl::StrAppend(
          &remark_, remark_.empty() ? "" : "; ",
          "the copies of servers' shards (replicas: 2) are left out, with which a step takes longer");
    }
    validity_ = measured && !copies                 ? proto::MEASURED
                : doublings > 0 || !remark_.empty() ? proto::EXTRAPOLATED
                                                    : proto::INTERPOLATED;
  }
  double half() const { return half_; }
  proto::Validity validity() const { return validity_; }
  const std::string& remark() const { return remark_; }

 private:
  double half_ = 0;
  proto::Validity validity_ = proto::UNKNOWN_VALIDITY;
  std::string remark_;
};

void AddBounds(const StepTime& time, proto::Prediction& prediction) {
  std::vector<size_t> order;
  for (size_t i = 0; i < time.shares.size(); ++i) {
    if (time.shares[i].seconds > 0) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return time.shares[a].seconds > time.shares[b].seconds; });
  for (const size_t i : order) {
    proto::Bound& bound = *prediction.add_bound();
    bound.set_resource(time.shares[i].resource);
    bound.set_seconds(time.alone[i].seconds);
    bound.set_share(time.shares[i].seconds / time.seconds);
  }
}

// Adds the mean numbers of bytes that a worker sends and receives in a step, counted as in Communication
// (summary.proto).
void AddBytes(const proto::JobPlan& plan, const Model& model, const JobMachines& machines,
              proto::Prediction& prediction) {
  int64_t out = 0, in = 0;
  if (ExchangeOf(plan, machines.workers) == ExchangeKind::kServers) {
    out = in = (ParameterCount(plan) - FrozenCount(plan)) * int64_t{sizeof(float)} * plan.job().workers();
  }
  for (const WorkerTraffic& traffic : MirroredTraffic(plan, model, machines.workers)) {
    out += traffic.workers * traffic.out;
    in += traffic.workers * traffic.in;
  }
  prediction.set_bytes_out_per_step(out / plan.job().workers());
  prediction.set_bytes_in_per_step(in / plan.job().workers());
}

void AddMemory(const proto::JobPlan& plan, const Model& model, proto::Prediction& prediction) {
  int64_t largest = 0;
  for (const proto::Device::Kind device : {proto::Device::CPU, proto::Device::CUDA}) {
    if (WorkersOn(device, plan) == 0) continue;
    largest = std::max(largest, WorkerMemory(plan, model, device).total());
  }
  prediction.set_worker_bytes(largest + DatasetBytes(plan));
  prediction.set_server_bytes(LargestServerBytes(plan));
}

void AddStalenessBound(const proto::Job& job, proto::Prediction& prediction) {
  const absl::optional<int> bound = StrategyOf(job.strategy()).bound;
  if (!bound.has_value()) return;
  prediction.set_staleness_bound(int64_t{job.workers() - 1} * (2 * *bound + 1));
}

// The epochs of the job; may be less than one.
double EpochsOf(const proto::JobPlan& plan) {
  const proto::Job& job = plan.job();
  const double epochs = job.epochs() > 0 ? job.epochs() : 1;
  if (job.max_steps() == 0) return epochs;
  const auto per_update = static_cast<double>(std::max<int64_t>(1, SamplesPerUpdate(plan)));
  const double of_steps = static_cast<double>(job.max_steps()) * per_update /
                          std::max(1.0, static_cast<double>(plan.train_samples()));
  return job.epochs() > 0 ? std::min(epochs, of_steps) : of_steps;
}

// Adds the predictions of the whole run, from steps, epochs and overheads.
void AddRun(const proto::JobPlan& plan, const JobMachines& machines, const proto::Calibration& calibration,
            double step, double half, proto::Prediction& prediction) {
  const proto::Job& job = plan.job();
  const proto::Overheads& costs = calibration.overheads();
  const auto per_update = static_cast<double>(std::max<int64_t>(1, SamplesPerUpdate(plan)));
  const auto samples = static_cast<double>(plan.train_samples());
  const double evaluated = costs.evaluate_per_sample() / std::max(1, job.workers());
  const int64_t validated = job.evaluate_each_epoch() ? plan.validation_samples() : 0;
  const double validation = static_cast<double>(validated) * evaluated;
  const double epoch = std::ceil(samples / per_update) * step + costs.barrier() + validation;
  const double epochs = EpochsOf(plan);
  const auto processes = static_cast<double>(machines.workers.size() + machines.servers.size());
  const double startup = costs.join() + costs.join_per_process() * processes + costs.plan();
  const double first = step + costs.first_cpu();
  const double total = startup + costs.first_cpu() + epochs * epoch +
                       static_cast<double>(plan.test_samples()) * evaluated + costs.checkpoint() +
                       costs.stop();
  Set(epoch, half, *prediction.mutable_epoch());
  Set(total, half, *prediction.mutable_total());
  Set(per_update / step, half, *prediction.mutable_samples_per_second());
  if (startup > 0) Set(startup, half, *prediction.mutable_startup());
  Set(first, half, *prediction.mutable_first_iteration());
  const double price = job.price_per_hour() > 0 ? job.price_per_hour() : machines.price_per_hour;
  if (price > 0) Set(total * price / 3600, half, *prediction.mutable_cost());
}

// Simulates a job whose workers lease samples, which has no closed form. Sets the staleness of `prediction`
// and returns the seconds of a step.
absl::StatusOr<double> SimulateJob(const proto::JobPlan& plan, const JobMachines& machines,
                                   const JobComputers& computers, const StepNeeds& needs,
                                   const proto::Calibration& calibration, double half,
                                   proto::Prediction& prediction) {
  TETHYS_ASSIGN_OR_RETURN(const SimulatedCluster cluster,
                          ClusterOf(plan, machines, computers, needs, calibration));
  const auto pushes =
      static_cast<int64_t>(cluster.workers.size() * std::max<size_t>(1, cluster.servers.size()));
  const auto steps = static_cast<int>(std::clamp<int64_t>(kSimulatedPushes / pushes, 20, 200));
  TETHYS_ASSIGN_OR_RETURN(const SimulationResult result, Simulate(cluster, steps));
  const bool exact =
      TraitsOf(cluster.parameter_server).update == UpdateUnit::kPush && !cluster.pulls_before_step;
  // If answers carry parameters, all other workers push between two pushes of a worker. So the mean staleness
  // over all pushes is exactly the number of other workers, for any speeds.
  const double staleness = exact ? plan.job().workers() - 1 : result.staleness;
  Set(staleness, exact ? 0 : half, *prediction.mutable_staleness());
  return result.step;
}

void AddPlanned(const proto::JobPlan& plan, const Model& model, const JobMachines& machines,
                proto::Prediction& prediction) {
  AddBytes(plan, model, machines, prediction);
  AddMemory(plan, model, prediction);
  AddStalenessBound(plan.job(), prediction);
}

}  // namespace

double UpdatesOfRun(const proto::JobPlan& plan) {
  const auto per_update = static_cast<double>(std::max<int64_t>(1, SamplesPerUpdate(plan)));
  return EpochsOf(plan) * std::ceil(static_cast<double>(plan.train_samples()) / per_update);
}

double ConformalHalfWidth(std::vector<double> errors) {
  const auto n = static_cast<double>(errors.size());
  const double rank = std::ceil((n + 1) * kCoverage);
  if (rank > n) return -1;
  std::sort(errors.begin(), errors.end());
  return errors[static_cast<size_t>(rank) - 1];
}

absl::StatusOr<proto::Prediction> Predict(const proto::JobPlan& plan, const JobMachines& machines,
                                          const proto::Calibration& calibration) {
  TETHYS_ASSIGN_OR_RETURN(const Model model, ModelOf(plan));
  TETHYS_ASSIGN_OR_RETURN(const JobComputers computers, JobComputers::Create(machines, calibration));
  TETHYS_ASSIGN_OR_RETURN(const StepNeeds needs, NeedsOfStep(plan, model, machines, computers));
  proto::Prediction prediction;
  AddPlanned(plan, model, machines, prediction);
  const Distance distance(plan, needs, calibration);
  const StepTime lock_step = LockStepTime(needs, calibration, /*mean=*/true);
  AddBounds(lock_step, prediction);
  double step = lock_step.seconds;
  if (TraitsOf(plan.job()).leases()) {
    TETHYS_ASSIGN_OR_RETURN(
        step, SimulateJob(plan, machines, computers, needs, calibration, distance.half(), prediction));
  }
  if (!(step > 0) || !std::isfinite(step)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the calibration predicts a step time of ", step, " s: run tethys calibrate again"));
  }
  Set(step, distance.half(), *prediction.mutable_step());
  AddRun(plan, machines, calibration, step, distance.half(), prediction);
  prediction.set_validity(distance.validity());
  prediction.set_remark(distance.remark());
  return prediction;
}

absl::StatusOr<proto::Prediction> PredictWithoutCalibration(const proto::JobPlan& plan,
                                                            const JobMachines& machines) {
  TETHYS_ASSIGN_OR_RETURN(const Model model, ModelOf(plan));
  proto::Prediction prediction;
  AddPlanned(plan, model, machines, prediction);
  const proto::ParameterServer& config = plan.job().strategy().parameter_server();
  if (TraitsOf(config).update == UpdateUnit::kPush && !PullsBeforeStep(config)) {
    Set(plan.job().workers() - 1, 0, *prediction.mutable_staleness());
  }
  return prediction;
}

}  // namespace tethys
