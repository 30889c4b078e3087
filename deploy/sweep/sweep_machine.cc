#include "deploy/sweep/sweep_machine.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "deploy/sweep/jump_test.h"
#include "deploy/sweep/largest_batch.h"
#include "deploy/sweep/meter_words.h"
#include "deploy/sweep/period_test.h"
#include "deploy/sweep/sweep_schedule.h"
#include "deploy/text.h"
#include "runtime/base/clock.h"
#include "runtime/nn/memory_forecast.h"
#include "runtime/nn/model.h"

namespace tethys {
namespace {

constexpr int64_t kVisitMilliseconds = 20;
constexpr int kLeastRounds = 7;
constexpr double kLeastTrySeconds = 30;
constexpr Nanoseconds kPatience = 600 * kSecond;
constexpr int kPeriod = 16;

double StepOf(const proto::StepVisit& visit) { return visit.step(); }

class MachineSweep {
 public:
  MachineSweep(const Place& place, const SweepRequest& request, Model model)
      : place_(place), request_(request), model_(std::move(model)) {}

  absl::StatusOr<proto::SweepCurve> Run() {
    TETHYS_RETURN_IF_ERROR(StartMeter());
    curve_.set_device(meter_->facts().device());
    on_gpu_ = meter_->facts().on_gpu();
    const int64_t free_bytes = meter_->facts().free_bytes();
    limit_ = request_.memory_bytes > 0 ? request_.memory_bytes : on_gpu_ ? free_bytes : free_bytes / 2;
    curve_.set_memory_limit(limit_);
    SweepSchedule schedule(
        request_.batches,
        {.rounds = request_.rounds,
         .most_rounds = request_.rounds < kLeastRounds ? request_.rounds : 2 * request_.rounds,
         .seed = request_.plan.job().seed()});
    TETHYS_RETURN_IF_ERROR(Measure(schedule));
    TakeResults(schedule);
    TestJumps(schedule);
    if (request_.tries_largest) TETHYS_RETURN_IF_ERROR(TryLargest());
    return std::move(curve_);
  }

 private:
  absl::Status StartMeter() {
    meter_.reset();
    TETHYS_ASSIGN_OR_RETURN(meter_, Meter::Start(place_, request_.plan,
                                                 {.scratch = request_.scratch,
                                                  .name = absl::StrCat("sweep-", ++meters_),
                                                  .cuda_library_path = request_.cuda_library_path,
                                                  .patience = kPatience}));
    return absl::OkStatus();
  }

  void Say(const std::string& text) const {
    if (request_.status) request_.status(text);
  }

  // Leaves out batches that do not fit into memory, before they are tried: on a host, trying would take the
  // memory of other programs.
  void SkipTooLarge(SweepSchedule& schedule) const {
    if (limit_ == 0) return;
    for (const int64_t batch : request_.batches) {
      const int64_t needed = ForecastMemory(model_, MeasuredStepNeeds(request_.plan, batch)).total();
      if (needed <= limit_) continue;
      schedule.Skip(
          batch, absl::StrCat("a step is forecast to need ", BytesText(needed), ", and ", BytesText(limit_),
                              " are allowed: allow more by --memory, or give smaller batches"));
    }
  }

  absl::Status Measure(SweepSchedule& schedule) {
    const Nanoseconds begin = clock_.Now();
    const Nanoseconds end = begin + static_cast<Nanoseconds>(request_.seconds * static_cast<double>(kSecond));
    SkipTooLarge(schedule);
    while (const std::optional<int64_t> batch = schedule.Next()) {
      if (clock_.Now() >= end && schedule.visits() > 0) break;
      Say(absl::StrFormat("round %d of %d, batch size %d, %d %% of measurements disturbed",
                          schedule.rounds() + 1, request_.rounds, *batch,
                          schedule.visits() == 0 ? 0 : 100 * schedule.disturbed() / schedule.visits()));
      const absl::StatusOr<proto::StepVisit> visit = meter_->Step(*batch, kVisitMilliseconds);
      if (visit.ok()) {
        schedule.Add(*visit);
        NoteCompany(*visit);
      } else if (meter_->alive() &&
                 (absl::IsInvalidArgument(visit.status()) || absl::IsResourceExhausted(visit.status()))) {
        schedule.Skip(*batch, std::string(visit.status().message()));
      } else {
        return visit.status();
      }
    }
    curve_.set_seconds(ToSeconds(clock_.Now() - begin));
    if (schedule.visits() > 0) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("no batch can be measured; batch ",
                                                   schedule.skipped()[0].batch(), ": ",
                                                   schedule.skipped()[0].reason()));
  }

  void NoteCompany(const proto::StepVisit& visit) {
    curve_.set_gpu_processes(std::max(curve_.gpu_processes(), visit.gpu_processes()));
    if (meter_->facts().on_gpu() && !visit.has_gpu_others() && !visit.has_gpu_pause()) {
      curve_.set_company_unseen(true);
    }
  }

  void TakeResults(const SweepSchedule& schedule) {
    for (const proto::BatchTime& time : schedule.BatchTimes()) *curve_.add_time() = time;
    for (const proto::SkippedBatch& skipped : schedule.skipped()) *curve_.add_skipped() = skipped;
    curve_.set_rounds(schedule.rounds());
    curve_.set_visits(schedule.visits());
    curve_.set_disturbed(schedule.disturbed());
    const RoundTimes times = schedule.Times(StepOf);
    const double error = PooledError(times.batch, LowerQuartiles(times));
    for (proto::BatchTime& time : *curve_.mutable_time()) time.set_error(error);
    const auto unmeasured =
        static_cast<int64_t>(request_.batches.size()) - curve_.time_size() - curve_.skipped_size();
    if (unmeasured > 0) AddUnmeasured();
  }

  void AddUnmeasured() {
    std::vector<int64_t> known;
    for (const proto::BatchTime& time : curve_.time()) known.push_back(time.batch());
    for (const proto::SkippedBatch& skipped : curve_.skipped()) known.push_back(skipped.batch());
    for (const int64_t batch : request_.batches) {
      if (std::find(known.begin(), known.end(), batch) != known.end()) continue;
      proto::SkippedBatch& skipped = *curve_.add_skipped();
      skipped.set_batch(batch);
      skipped.set_reason("the time limit was reached: give more --seconds, or fewer batches, as in 1-70:4");
    }
  }

  // The reason why jumps cannot be tested; empty if they can be tested.
  std::string Obstacle() const {
    const auto batches = static_cast<size_t>(curve_.time_size());
    if (batches < kLeastJumpPoints) return absl::StrCat("at least ", kLeastJumpPoints, " batches are needed");
    if (batches > kMostJumpPoints) {
      return absl::StrCat("more than ", kMostJumpPoints,
                          " batches are too many: take a step, as in 1-2000:4");
    }
    if (curve_.rounds() >= kLeastRounds) return "";
    if (request_.rounds < kLeastRounds) {
      return absl::StrCat(kLeastRounds, " rounds are needed, and --rounds is ", request_.rounds);
    }
    return absl::StrFormat(
        "%d rounds are needed, and %d were made in %.0f s; about %.0f s are needed (--seconds)", kLeastRounds,
        curve_.rounds(), curve_.seconds(), SecondsNeeded());
  }

  // The seconds for enough rounds, estimated from the visits so far. Visits of larger batches take longer,
  // but even a part of a round is a fair sample, because the order of visits is random.
  double SecondsNeeded() const {
    const double visits = kLeastRounds * 1.15 * static_cast<double>(request_.batches.size());
    return std::ceil(visits * curve_.seconds() / std::max(1, curve_.visits()));
  }

  void TestJumps(const SweepSchedule& schedule) {
    curve_.set_untested(Obstacle());
    const RoundTimes times = schedule.Times(StepOf);
    const uint64_t seed = request_.plan.job().seed();
    *curve_.mutable_sixteen() = TestPeriod(times, kPeriod, seed);
    if (!curve_.untested().empty()) return;
    Say("testing for jumps");
    const Jumps jumps = FindJumps(times, seed);
    for (const proto::Segment& segment : jumps.segment) *curve_.add_segment() = segment;
    for (const proto::Jump& jump : jumps.jump) *curve_.add_jump() = jump;
    curve_.set_detectable(DetectableJump(times, seed));
  }

  absl::Status TryLargest() {
    if (limit_ == 0) {
      curve_.set_largest_untried("the machine does not say how much memory it has");
      return absl::OkStatus();
    }
    const int64_t forecast =
        LargestBatch(model_, MeasuredStepNeeds(request_.plan, 1), limit_, /*with_workspaces=*/on_gpu_);
    curve_.set_forecast_largest_batch(forecast);
    const proto::BatchTime& last = curve_.time(curve_.time_size() - 1);
    const double per_sample = last.step() / static_cast<double>(last.batch());
    const double seconds = std::max(kLeastTrySeconds, request_.seconds / 2);
    // The search needs at least two tries, each of which makes a step.
    const double one = per_sample * static_cast<double>(forecast);
    if (2 * one > seconds) {
      curve_.set_largest_batch(last.batch());
      curve_.set_largest_untried(
          absl::StrFormat("larger batches were not tried, because a step of batch %s would take "
                          "about %.0f s: give --memory or more --seconds",
                          CountText(forecast), one));
      return absl::OkStatus();
    }
    return SearchLargest(std::max<int64_t>(1, forecast), seconds);
  }

  absl::Status SearchLargest(int64_t forecast, double seconds) {
    const Nanoseconds begin = clock_.Now();
    double longest = 0;
    const auto tries = [&](int64_t batch) -> absl::StatusOr<bool> {
      Say(absl::StrCat("trying batch ", batch));
      // A device keeps the scratch memory of the largest batch that it has seen, so each try has a process of
      // its own.
      TETHYS_RETURN_IF_ERROR(StartMeter());
      const Nanoseconds start = clock_.Now();
      const absl::StatusOr<bool> fits = meter_->Fits(batch, on_gpu_ ? request_.memory_bytes : limit_);
      longest = std::max(longest, ToSeconds(clock_.Now() - start));
      return fits;
    };
    const auto go_on = [&] { return ToSeconds(clock_.Now() - begin) + longest < seconds; };
    TETHYS_ASSIGN_OR_RETURN(const LargestFit found, FindLargestBatch(forecast, kMostBatch, tries, go_on));
    const int64_t measured = curve_.time(curve_.time_size() - 1).batch();
    curve_.set_largest_batch(std::max(found.fits, measured));
    if (!found.exact()) {
      curve_.set_largest_untried(absl::StrCat(
          "the time limit was reached after ", PluralText(found.tries, "attempt"),
          found.too_large > 0 ? absl::StrCat("; batch ", CountText(found.too_large), " did not fit") : ""));
    }
    return absl::OkStatus();
  }

  const MonotonicClock clock_;
  const Place& place_;
  const SweepRequest& request_;
  const Model model_;
  std::unique_ptr<Meter> meter_;
  int meters_ = 0;
  bool on_gpu_ = false;
  int64_t limit_ = 0;
  proto::SweepCurve curve_;
};

}  // namespace

absl::StatusOr<proto::SweepCurve> SweepMachine(const Place& place, const SweepRequest& request) {
  const google::protobuf::RepeatedField<int64_t>& shape = request.plan.sample_shape();
  TETHYS_ASSIGN_OR_RETURN(Model model, Model::Create(request.plan.job().model(), {shape.begin(), shape.end()},
                                                     request.plan.job().data().classes()));
  return MachineSweep(place, request, std::move(model)).Run();
}

}  // namespace tethys
