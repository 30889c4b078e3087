#include "tests/simulation/disturbances.h"

#include "runtime/cluster/job_plan.h"
#include "tests/simulation/world.h"

namespace tethys::simulation {
namespace {

// Disturbances at random times come within this time from the beginning of an attempt.
constexpr Nanoseconds kHorizon = 800 * kMillisecond;
// A process that is stopped for a shorter time is never silent for as long as timeouts.silence (1 s).
constexpr Nanoseconds kNoticed = 500 * kMillisecond;

}  // namespace

void Disturbances::BeginAttempt(bool quiet) {
  Random& random = world_.random();
  ++attempt_;
  aims_.clear();
  reached_.clear();
  hit_.clear();
  training_ = hit_before_training_ = saves_may_fail_ = interrupted_ = false;
  full_until_ = 0;
  last_ = world_.queue().now();
  if (quiet) return;
  const Nanoseconds horizon = random.Pick({kHorizon / 8, kHorizon / 2, kHorizon});
  for (int64_t left = random.Between(0, 3); left > 0; --left) {
    const Nanoseconds after = random.Between(0, horizon);
    last_ = std::max(last_, world_.queue().now() + after);
    world_.queue().After(after, [this, attempt = attempt_, what = DrawWhat()] {
      if (attempt == attempt_) Happen(what, nullptr);
    });
  }
  for (int64_t left = random.Between(0, 3); left > 0; --left) {
    // In jobs that form new groups, half of the disturbances aim at points where a new group forms.
    const bool forms = FormsNewGroups(world_.plan()) || CopiesShards(world_.plan());
    const bool group = forms && random.Chance(0.5);
    const auto point = group
                           ? random.Pick({Point::kHalting, Point::kForming, Point::kCopying, Point::kFormed})
                           : static_cast<Point>(random.Between(0, kPoints - 1));
    const bool often = point == Point::kFirstRecord || point == Point::kPushing || point == Point::kApplying;
    aims_.push_back({point, random.Between(1, often ? 30 : group ? 8 : 3), DrawWhat()});
  }
  if (world_.kind() == Kind::kMirrored && random.Chance(0.25)) {
    // One worker dies while it sends its gradient, so that only some of the remaining workers can complete
    // the step. Then a second worker, which has already reported how many steps it has, dies before the next
    // group has formed.
    aims_.push_back({Point::kPushing, random.Between(1, 30), Disturbance::kKill});
    aims_.push_back({Point::kHalting, random.Between(1, 6), Disturbance::kKill});
  }
}

Disturbance Disturbances::DrawWhat() {
  return world_.random().Pick({Disturbance::kKill, Disturbance::kKill, Disturbance::kKill,
                               Disturbance::kVanish, Disturbance::kStop, Disturbance::kStop,
                               Disturbance::kBreak, Disturbance::kInterrupt, Disturbance::kFailDisk});
}

void Disturbances::Reach(Point point, const std::vector<Process*>& near) {
  const int64_t number = ++reached_[point];
  for (const Aim& aim : aims_) {
    if (aim.point != point || aim.number != number) continue;
    ++aimed_[static_cast<size_t>(point)];
    Random& random = world_.random();
    Process* const to =
        near.empty() || random.Chance(0.3)
            ? nullptr
            : near[static_cast<size_t>(random.Between(0, static_cast<int64_t>(near.size()) - 1))];
    const Nanoseconds after = random.Chance(0.6) ? 0 : random.Between(0, 20 * kMillisecond);
    last_ = std::max(last_, world_.queue().now() + after);
    world_.Trace("point ", kPointNames[static_cast<size_t>(point)], " number ", number);
    world_.queue().After(after, [this, attempt = attempt_, what = aim.what, to] {
      if (attempt == attempt_) Happen(what, to);
    });
  }
}

bool Disturbances::disk_is_full() const { return world_.queue().now() < full_until_; }

void Disturbances::Happen(Disturbance what, Process* to) {
  Random& random = world_.random();
  if (to == nullptr) {
    const std::vector<Process*> living = world_.LivingProcesses();
    if (living.empty()) return;
    // Prefers workers, because a job can survive only the loss of workers.
    for (int tries = 0; tries < 3; ++tries) {
      to = living[static_cast<size_t>(random.Between(0, static_cast<int64_t>(living.size()) - 1))];
      if (to->id().role == proto::WORKER) break;
    }
  }
  if (!to->alive()) return;
  world_.Trace("DISTURB ", kDisturbanceNames[static_cast<int>(what)], " ", to->name());
  switch (what) {
    case Disturbance::kKill:
    case Disturbance::kVanish:
      Hit(*to);
      return to->EndAs(what == Disturbance::kKill ? Process::End::kKill : Process::End::kVanish);
    case Disturbance::kStop: {
      const Nanoseconds time = random.Pick({50 * kMillisecond, 300 * kMillisecond, 700 * kMillisecond,
                                            1200 * kMillisecond, 2500 * kMillisecond});
      // A stopped chief notices the delay afterwards, and does not count this time as silence of tasks.
      if (time >= kNoticed && to->id().role != proto::CHIEF) Hit(*to);
      last_ = std::max(last_, world_.queue().now() + time);
      return to->StopFor(time);
    }
    case Disturbance::kBreak:
      return BreakAConnectionOf(*to);
    case Disturbance::kInterrupt:
      interrupted_ = true;
      return world_.Interrupt();
    case Disturbance::kFailDisk:
      saves_may_fail_ = true;
      full_until_ = world_.queue().now() + random.Between(1, 200) * kMillisecond;
      return;
  }
}

void Disturbances::Hit(const Process& process) {
  hit_.insert(process.id());
  hit_before_training_ = hit_before_training_ || !training_;
  // A save may fail, because this process may not have written its part.
  saves_may_fail_ = true;
}

void Disturbances::BreakAConnectionOf(Process& process) {
  const std::vector<std::shared_ptr<Connection>> open = process.connections();
  if (open.empty()) return;
  Connection& broken =
      *open[static_cast<size_t>(world_.random().Between(0, static_cast<int64_t>(open.size()) - 1))];
  switch (broken.use()) {
    case Connection::Use::kSession:
      Hit(process.id().role == proto::CHIEF ? broken.other(process) : process);
      break;
    case Connection::Use::kRing:
      Hit(process);
      Hit(broken.other(process));
      break;
    case Connection::Use::kSave:
      saves_may_fail_ = true;
      break;
    case Connection::Use::kData:
      break;
  }
  broken.Break();
}

}  // namespace tethys::simulation
