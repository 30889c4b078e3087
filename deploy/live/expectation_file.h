// RUN_DIR/prediction.json: the prediction for a run, made before it started (proto::Expectation in protobuf's
// JSON mapping). The command that makes a run writes it, and every live view of the run reads it. Blocking on
// a local file; any thread.
#ifndef TETHYS_DEPLOY_LIVE_EXPECTATION_FILE_H_
#define TETHYS_DEPLOY_LIVE_EXPECTATION_FILE_H_

#include <string>

#include "absl/types/optional.h"
#include "proto/live.pb.h"
#include "runtime/base/status.h"

namespace tethys {

extern const char kExpectationFile[];  // The file's name in the run directory.

// Writes the expectation. nullopt removes the expectation that an earlier attempt stored.
absl::Status WriteExpectation(const std::string& run_dir,
                              const absl::optional<proto::Expectation>& expectation);

// InvalidArgument: the text is no expectation, or contains an impossible value (negative, not finite).
absl::StatusOr<proto::Expectation> ParseExpectation(absl::string_view text);

// NotFound: there is no such file. DataLoss: the file is damaged or of another version. Both errors name the
// path.
absl::StatusOr<proto::Expectation> ReadExpectation(const std::string& run_dir);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_LIVE_EXPECTATION_FILE_H_
