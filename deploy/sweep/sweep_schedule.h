// The order in which a sweep measures its batches, and the evaluation of the answers. A visit
// (proto::StepVisit) is a measurement of some consecutive steps with one batch size. A round visits every
// batch once, in an order of its own. Every eighth visit measures a reference batch, whose times show the
// drift of the machine. A visit that another program disturbed counts only if its batch has no undisturbed
// visit. While more than 30 % of all visits are disturbed, rounds are added.
//
//   while (std::optional<int64_t> batch = schedule.Next()) schedule.Add(visit of *batch), or
//   schedule.Skip(*batch, why);
//
// Pure: equal answers and seed give the same order. Thread-compatible.
#ifndef TETHYS_DEPLOY_SWEEP_SWEEP_SCHEDULE_H_
#define TETHYS_DEPLOY_SWEEP_SWEEP_SCHEDULE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "deploy/sweep/round_times.h"
#include "proto/sweep.pb.h"

namespace tethys {

// The share of disturbed visits above which rounds are added, and above which the result is doubtful.
inline constexpr double kManyDisturbed = 0.3;

class SweepSchedule {
 public:
  struct Options {
    int rounds = 15;
    int most_rounds = 30;  // The most rounds, if many visits are disturbed.
    uint64_t seed = 0;
  };
  // Requires ascending `batches`, at least one.
  SweepSchedule(std::vector<int64_t> batches, const Options& options);

  // The batch to visit next; nullopt: all rounds are made. The caller answers by Add or Skip before the next
  // call.
  std::optional<int64_t> Next();
  void Add(const proto::StepVisit& visit);
  // Must be called for a batch that cannot be measured. The batch is not visited again.
  void Skip(int64_t batch, const std::string& reason);

  // The number of complete rounds.
  int rounds() const { return round_; }
  int visits() const { return static_cast<int>(visits_.size()); }
  int disturbed() const { return disturbed_; }
  // True if the last visit ended a round.
  bool round_ended() const { return queue_.empty(); }

  // For each round and each batch with a visit: the time that `pick` takes from the visit, divided by the
  // drift of the machine at the moment of the visit. If a batch has undisturbed visits, its disturbed visits
  // are left out.
  RoundTimes Times(double (*pick)(const proto::StepVisit&)) const;

  // Batches with at least one visit, by ascending batch; times are lower quartiles. BatchTime::error is not
  // set.
  std::vector<proto::BatchTime> BatchTimes() const;
  const std::vector<proto::SkippedBatch>& skipped() const { return skipped_; }

 private:
  struct Visit {
    int round = 0;
    bool reference = false;  // True for an extra visit of the reference batch.
    proto::StepVisit result;
  };
  void FillRound();
  bool EnoughRounds() const;
  // For each visit, the time of the reference batch around it, divided by the usual time of the reference
  // batch.
  std::vector<double> Drift() const;
  std::vector<int64_t> VisitedBatches() const;

  std::vector<int64_t> batches_;  // All batches but the skipped ones.
  const Options options_;
  int round_ = 0;
  bool next_is_reference_ = false;
  int since_reference_ = 0;
  std::vector<int64_t> queue_;  // The remaining batches of the current round, the next one last.
  std::vector<Visit> visits_;
  int disturbed_ = 0;
  std::vector<proto::SkippedBatch> skipped_;
};

}  // namespace tethys

#endif  // TETHYS_DEPLOY_SWEEP_SWEEP_SCHEDULE_H_
