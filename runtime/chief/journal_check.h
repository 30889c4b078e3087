// Checks a journal (runtime/chief/journal.h): every sample of every epoch used exactly once. Called by the
// chief when its job has ended, and by tests. Thread-compatible.
//
// The text is read twice, as a stream: first for where each attempt starts, by which the check knows what of
// an earlier attempt is undone; then for what was used. Uses that touch are kept as one interval, so memory
// grows with what is out of order (some seconds of a job, or the gaps of a damaged journal), not with the
// journal's length.
#ifndef TETHYS_RUNTIME_CHIEF_JOURNAL_CHECK_H_
#define TETHYS_RUNTIME_CHIEF_JOURNAL_CHECK_H_

#include <cstdint>
#include <string>

#include "runtime/base/status.h"

namespace tethys::journal {

struct CheckResult {
  int64_t samples = 0;  // Used, over all epochs, without those undone by a resume.
  int64_t attempts = 0;
  bool ended = false;  // The job ended well; otherwise only what was done so far was checked for repeats.
};

// Finds every sample of every epoch used exactly once by the workers and, with parameter servers, applied
// exactly once on each server; a batch torn by a loss is missing on some. What an attempt did after the least
// state from which a later one started is undone and does not count. DataLoss names a sample that is missing
// or repeated, and where, or the line that cannot be read.
absl::StatusOr<CheckResult> Check(absl::string_view text);

// The same of a file, which must not grow meanwhile. Blocks on the disk. Unavailable: the file cannot be
// read, so nothing is known of the samples.
absl::StatusOr<CheckResult> CheckFile(const std::string& path);

}  // namespace tethys::journal

#endif  // TETHYS_RUNTIME_CHIEF_JOURNAL_CHECK_H_
