// Disturbances of the processes of a run, at random times and at chosen points of the protocol: kills, stops,
// broken connections, a full disk, interrupts. A job has to survive every disturbance, or to end with an
// error that names a disturbed process.
#ifndef TETHYS_TESTS_SIMULATION_DISTURBANCES_H_
#define TETHYS_TESTS_SIMULATION_DISTURBANCES_H_

#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "tests/simulation/process.h"

namespace tethys::simulation {

enum class Point {
  kJoined,       // A task has just joined.
  kSettingUp,    // A task is being set up.
  kEnrolling,    // The replacement of a lost worker is ready, and servers are told of it.
  kFirstRecord,  // Some workers have recorded a step, other workers have not.
  kPushing,      // A worker has sent some parts of a push.
  kApplying,     // A server has applied a push (in lock step: a part) and has not sent all answers.
  kFencing,      // Servers are told of a lost worker.
  kPausing,      // An interrupt ends the segment.
  kFirstDone,    // The first worker has ended its run.
  kSaving,       // Some parts of a checkpoint are written.
  kCommitting,   // A checkpoint is being committed.
  kEvaluating,   // An epoch's evaluation runs.
  kStopping,     // The chief ends the job.
  kHalting,      // A worker has left its group.
  kForming,      // A worker is asked to join the next group.
  kCopying,      // A worker sends its state to a member of its group.
  kFormed,       // A worker has joined a group.
};
inline constexpr const char* kPointNames[] = {
    "joined",   "setting_up", "enrolling",  "first_record", "pushing",    "applying",
    "fencing",  "pausing",    "first_done", "saving",       "committing", "evaluating",
    "stopping", "halting",    "forming",    "copying",      "formed"};
inline constexpr size_t kPoints = std::size(kPointNames);

enum class Disturbance {
  kKill,       // A process is killed.
  kVanish,     // A process and its host's network are gone: no connection is closed.
  kStop,       // A process is stopped for a while, sometimes so long that the chief counts it as lost.
  kBreak,      // A connection breaks.
  kInterrupt,  // The user interrupts the job.
  kFailDisk,   // The disk is full for a while.
};
inline constexpr const char* kDisturbanceNames[] = {"kill",  "vanish",    "stop",
                                                    "break", "interrupt", "fail_disk"};

class Disturbances {
 public:
  explicit Disturbances(World& world) : world_(world) {}

  // Draws the disturbances of the next attempt. If `quiet`, the attempt has none.
  void BeginAttempt(bool quiet);
  // Called when the job reaches `point`. A disturbance that is due at this point usually hits one of the
  // processes `near`.
  void Reach(Point point, const std::vector<Process*>& near);
  void TrainingBegins() { training_ = true; }

  // The next functions tell what has happened in this attempt. hit() returns the tasks that ended, lost their
  // session, or were stopped for so long that they may count as lost.
  const std::set<TaskId>& hit() const { return hit_; }
  bool hit_before_training() const { return hit_before_training_; }
  bool saves_may_fail() const { return saves_may_fail_; }
  bool interrupted() const { return interrupted_; }
  bool disk_is_full() const;
  // No further disturbance comes after this time.
  Nanoseconds last() const { return last_; }
  // For each point, how often a disturbance was due when the job reached the point, over the whole run.
  const std::array<int, kPoints>& aimed() const { return aimed_; }

 private:
  struct Aim {
    Point point;
    int64_t number = 0;  // The disturbance happens when the job reaches the point for the `number`-th time.
    Disturbance what;
  };
  Disturbance DrawWhat();
  void Happen(Disturbance what, Process* to);
  void Hit(const Process& process);
  void BreakAConnectionOf(Process& process);

  World& world_;
  std::vector<Aim> aims_;
  std::map<Point, int64_t> reached_;
  std::array<int, kPoints> aimed_ = {};
  std::set<TaskId> hit_;
  bool training_ = false, hit_before_training_ = false, saves_may_fail_ = false, interrupted_ = false;
  Nanoseconds full_until_ = 0;
  Nanoseconds last_ = 0;
  int64_t attempt_ = 0;
};

}  // namespace tethys::simulation

#endif  // TETHYS_TESTS_SIMULATION_DISTURBANCES_H_
