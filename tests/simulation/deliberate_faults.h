// Faults that a run makes on purpose, to show that the invariants find them. The simulation makes each fault
// outside of the product's classes: for example, it drops, repeats or alters a message, or delivers it early.
#ifndef TETHYS_TESTS_SIMULATION_DELIBERATE_FAULTS_H_
#define TETHYS_TESTS_SIMULATION_DELIBERATE_FAULTS_H_

#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "tests/simulation/simulated_job.h"

namespace tethys::simulation {

enum class Fault {
  kNone,
  kOldState,
  kDoubledRecords,
  kLostRecord,
  kLateRecords,
  kEarlyFenced,
  kNoFence,
  kEarlySettled,
  kUnreportedPush,
  kNewSequence,
  kNoRepeat,
  kNoBound,
  kDoubledLease,
  kLostPause,
  kEarlyCut,
  kEarlyCommit,
  kCommitBeforeJournal,
  kFadedSlots,
  kStaleSum,
  kStaleEvaluation,
  kCountsFirstRecord,
  kCountsAtHalted,
  kNewcomerClaimsState,
  kForgetsHalt,
  kNoHolderPatience,
  kOldAnswer,
  kAppliesAfterHalt,
  kServesAfterHalt,
  kKeepsStep,
  kServesBeforeCopy,
  kAnswersBeforeCopy,
  kNotRestored,
  kAnswersPushBeforeCopy,
  kFencedBeforeCopy,
  kForgetsPushes,
  kForgetsFences,
  kReportsNoneAgain,
};

struct DeliberateFault {
  const char* name;
  Kind kind;  // The kind of job in which the fault must be found.
  const char* meaning;
};

// In the order of the values of Fault.
inline constexpr DeliberateFault kDeliberateFaults[] = {
    {"none", Kind::kLocal, "no fault"},
    {"old_state", Kind::kAsync, "a restored chief reads a state that is some events old"},
    {"doubled_records", Kind::kBulk, "step records arrive twice"},
    {"lost_record", Kind::kMirrored, "a worker drops a step record"},
    {"late_records", Kind::kMirrored, "a worker ends its run before it has sent the last records"},
    {"early_fenced", Kind::kAsync, "a server answers a fence before it has sent its applied pushes"},
    {"no_fence", Kind::kAsync, "a server answers a fence and goes on taking the lost worker's pushes"},
    {"early_settled", Kind::kAsync, "the chief settles a lost worker's batches before servers have answered"},
    {"unreported_push", Kind::kAsync, "a server does not report a push that it has applied"},
    {"new_sequence", Kind::kAsync, "a worker repeats a push under a new sequence number"},
    {"no_repeat", Kind::kBulk, "a worker does not repeat unanswered messages on a new connection"},
    {"no_bound", Kind::kStale, "a server does not wait for the slowest worker"},
    {"doubled_lease", Kind::kStale, "the chief sends a lease twice"},
    {"lost_pause", Kind::kMirrored, "a worker never gets the order to pause"},
    {"early_cut", Kind::kBulk, "workers are told to cut a segment one step too early"},
    {"early_commit", Kind::kBulk, "a save is committed once its first source has written"},
    {"commit_before_journal", Kind::kBulk, "a save is committed before the journal is written"},
    {"faded_slots", Kind::kMirrored, "a resumed job begins with new optimizer slots"},
    {"stale_sum", Kind::kMirrored, "a worker adds a gradient of the step before"},
    {"stale_evaluation", Kind::kAsync, "a worker evaluates without the newest parameters"},
    {"counts_first_record", Kind::kMirrored, "a step counts when one worker has recorded it"},
    {"counts_at_halted", Kind::kMirrored, "a step counts when a worker has said that it has it"},
    {"newcomer_claims_state", Kind::kMirrored, "a replacement says that it has what it was to copy"},
    {"forgets_halt", Kind::kMirrored, "a worker of a group that forms is not halted"},
    {"no_holder_patience", Kind::kMirrored, "a silent worker is given up though it alone has the parameters"},
    {"old_answer", Kind::kMirrored, "what a lost process said counts for its replacement"},
    {"applies_after_halt", Kind::kMirrored, "a worker applies a step after it has left the group"},
    {"serves_after_halt", Kind::kBulk, "a server takes pushes of a group that it has left"},
    {"keeps_step", Kind::kBulk, "a server does not take back the step that other servers lack"},
    {"serves_before_copy", Kind::kCopied, "a server serves a new group before its shards have a copy"},
    {"answers_before_copy", Kind::kCopied, "a server answers a step before the copy has the step"},
    {"not_restored", Kind::kCopied, "a replaced server does not take its shards from their copy"},
    {"answers_push_before_copy", Kind::kCopiedAsync, "a server answers a push before the copy has the push"},
    {"fenced_before_copy", Kind::kCopiedAsync, "a server answers a fence before its copy has all pushes"},
    {"forgets_pushes", Kind::kCopiedAsync, "a replaced server does not know which pushes its shards have"},
    {"forgets_fences", Kind::kCopiedStale, "a replaced server does not know which workers are lost"},
    {"reports_none_again", Kind::kCopiedAsync, "a replaced server does not report what the lost one did"},
};
static_assert(std::size(kDeliberateFaults) == static_cast<size_t>(Fault::kReportsNoneAgain) + 1);

inline absl::optional<Fault> ParseFault(absl::string_view name) {
  for (size_t fault = 0; fault < std::size(kDeliberateFaults); ++fault) {
    if (name == kDeliberateFaults[fault].name) return static_cast<Fault>(fault);
  }
  return absl::nullopt;
}

}  // namespace tethys::simulation

#endif  // TETHYS_TESTS_SIMULATION_DELIBERATE_FAULTS_H_
