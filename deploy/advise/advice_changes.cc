#include "deploy/advise/advice_changes.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "deploy/advise/candidate_job.h"
#include "deploy/predict/answer_changes.h"
#include "deploy/predict/what_if.h"
#include "deploy/shape_words.h"
#include "deploy/text.h"
#include "runtime/shape/job_shape.h"

namespace tethys {
namespace {

// Limits of the link rates, speeds of computing and numbers of hosts that are tried.
constexpr double kLeastBits = 1e6;  // The slowest link tried, in bits a second.
constexpr double kMostBits = 100e9;
constexpr double kLeastSpeed = 0.1;  // The lowest speed of computing, divided by the present speed.
constexpr double kMostSpeed = 10;
constexpr double kMoreHosts = 4;  // The most hosts tried, as a multiple of the present number.
// The largest tried sum of all hosts' slots (a slot is one worker or server that a host may run). The number
// of shapes (strategy and numbers of processes) grows with the square of the slots.
constexpr int kMostSlots = 128;

class ChangesOf {
 public:
  explicit ChangesOf(const AnsweredJob& answered)
      : answered_(answered),
        corrections_(CorrectionsOf(answered.candidates)),
        now_(answered.candidates[Choose(answered.candidates, answered.goal).best].shape.strategy) {}

  std::vector<std::string> Sentences() const {
    const absl::StatusOr<Candidate> best = BestOf(answered_.calibration);
    if (!best.ok()) return {StatusText(best.status())};
    if (best->shape.strategy != now_) {
      return {
          absl::StrCat("The model cannot say what would change the answer: its own answer for these "
                       "machines differs from the answer above. By its predictions, corrected by the "
                       "measurements, the best candidate is ",
                       ShapePhrase(best->shape), ".")};
    }
    std::vector<std::string> sentences;
    if (answered_.base.hosts.size() > 1) sentences.push_back(Links());
    sentences.push_back(Speed());
    if (answered_.base.hosts.size() > 1) sentences.push_back(Hosts());
    return sentences;
  }

 private:
  std::string Links() const {
    double slowest = 0;
    for (const proto::LinkCalibration& link : answered_.calibration.link()) {
      if (slowest == 0 || link.bytes_per_second() < slowest) slowest = link.bytes_per_second();
    }
    if (!(slowest > 0)) return "Links: none was measured.";
    const double now = 8 * slowest;
    const PropertyRange range{
        .now = now, .least = std::min(kLeastBits, now), .most = std::max(kMostBits, now)};
    const auto text = [](double bits) { return LinkRateText(bits / 8); };
    return Sentence(absl::StrCat("Links (the slowest now: ", text(now), ")"), range, text, [&](double bits) {
      proto::Calibration changed = answered_.calibration;
      ScaleLinks(bits / now, changed);
      return BestOf(changed);
    });
  }

  std::string Speed() const {
    const PropertyRange range{.now = 1, .least = kLeastSpeed, .most = kMostSpeed};
    const auto text = [](double factor) { return absl::StrFormat("%.3g", factor); };
    return Sentence("Speed of computing, as a multiple of the present speed", range, text,
                    [&](double factor) {
                      proto::Calibration changed = answered_.calibration;
                      ScaleSpeed(factor, changed);
                      return BestOf(changed);
                    });
  }

  std::string Hosts() const {
    const auto now = static_cast<double>(answered_.base.hosts.size());
    const double of_slots = kMostSlots * now / std::max(1, answered_.base.slots);
    const double most = std::floor(std::min({kMoreHosts * now, of_slots, 1.0 * kMaxHosts}));
    // Hosts are added in the order of the host file, whose first hosts may not be allowed to run workers. So
    // the search begins at the smallest number of hosts on which a job can run.
    double least = 1;
    while (least < now && !BestOn(static_cast<int>(least)).ok()) ++least;
    const PropertyRange range{.now = now, .least = least, .most = std::max(now, most), .whole = true};
    const auto text = [](double hosts) { return PluralText(static_cast<int64_t>(hosts), "host"); };
    return Sentence(absl::StrFormat("Hosts (now %.0f)", now), range, text,
                    [&](double hosts) { return BestOn(static_cast<int>(hosts)); });
  }

  std::string Sentence(const std::string& property, const PropertyRange& range,
                       const std::function<std::string(double)>& text, const BestAt& best_at) const {
    const absl::StatusOr<PropertyTurns> turns = FindTurns(range, now_, best_at);
    return absl::StrCat(
        property, ": ",
        turns.ok() ? TurnsText(*turns, text) : absl::StrCat("not known, ", turns.status().message(), "."));
  }

  // The best synchronous candidate, by predictions with `calibration`, among the jobs from which the answer
  // was chosen.
  absl::StatusOr<Candidate> BestOf(const proto::Calibration& calibration) const {
    std::vector<Candidate> candidates;
    for (size_t i = 0; i < answered_.jobs.size(); ++i) {
      if (!answered_.candidates[i].synchronous()) continue;
      TETHYS_ASSIGN_OR_RETURN(Candidate candidate, PredictCandidate(answered_.jobs[i], calibration));
      candidates.push_back(std::move(candidate));
    }
    return BestByModel(candidates, corrections_, answered_.goal);
  }

  // The best synchronous job on the first `hosts` hosts of the host file. If the file has fewer hosts, the
  // missing hosts are supposed to be like hosts of the file (Suppose in what_if.h).
  absl::StatusOr<Candidate> BestOn(int hosts) const {
    WhatIf what_if;
    what_if.hosts = hosts;
    TETHYS_ASSIGN_OR_RETURN(const Supposition supposed,
                            Suppose(what_if, answered_.base.hosts, answered_.calibration));
    BaseJob base = answered_.base;
    UseHosts(supposed.hosts, base);
    std::vector<Candidate> candidates;
    for (const AnchorShape& shape : AllShapes(base.slots)) {
      if (!TraitsOf(shape.strategy).lock_step) continue;
      const absl::StatusOr<ShapedJob> job = ShapeJob(base, shape);
      // Leaves out the shapes that the job file or the roles of the hosts rule out.
      if (!job.ok()) continue;
      absl::StatusOr<Candidate> candidate = PredictCandidate(*job, supposed.calibration);
      if (candidate.ok()) candidates.push_back(*std::move(candidate));
    }
    return BestByModel(candidates, corrections_, answered_.goal);
  }

  const AnsweredJob& answered_;
  const StrategyCorrections corrections_;
  const JobStrategy now_;  // The strategy of the answer.
};

}  // namespace

std::vector<std::string> AdviceChanges(const AnsweredJob& answered) {
  return ChangesOf(answered).Sentences();
}

}  // namespace tethys
