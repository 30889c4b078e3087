// Checks in a journal (runtime/chief/journal.h) that every sample of every epoch was used exactly once.
// Called by the chief when its job has ended, and by tests. Thread-compatible.
//
// The text is read twice, as a stream. The first pass finds the start of each attempt, beyond which earlier
// attempts are undone; the second pass collects the used samples. Adjacent uses are merged into one interval.
// Therefore memory grows with the number of gaps between used samples, not with the journal's length. An
// intact journal has few gaps, because only uses within a few seconds of each other are out of order.
#ifndef TETHYS_RUNTIME_CHIEF_JOURNAL_CHECK_H_
#define TETHYS_RUNTIME_CHIEF_JOURNAL_CHECK_H_

#include <cstdint>
#include <string>

#include "runtime/base/status.h"

namespace tethys::journal {

struct CheckResult {
  int64_t samples = 0;  // Samples used over all epochs, except uses that a resume has undone.
  int64_t attempts = 0;
  // True if the job succeeded. False: the last attempt was checked only for repeated samples.
  bool ended = false;
};

// OK: the workers used every sample of every epoch exactly once. With parameter servers, each server also
// applied every sample exactly once, except the samples of torn batches (journal.h). Uses beyond the earliest
// state from which a later attempt started are undone and do not count. DataLoss: a sample is missing or
// repeated (the message names the sample and the task), or a line cannot be read.
absl::StatusOr<CheckResult> Check(absl::string_view text);

// Checks the journal in the file `path`, which must not grow during the check. Blocks on the disk.
// Unavailable: the file cannot be read, so the check says nothing about the samples.
absl::StatusOr<CheckResult> CheckFile(const std::string& path);

}  // namespace tethys::journal

#endif  // TETHYS_RUNTIME_CHIEF_JOURNAL_CHECK_H_
