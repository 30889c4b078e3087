// Lets a command read its input files several times, even files that can be read only once, such as a pipe
// that a shell makes of <(COMMAND). Blocks until each pipe has been read to its end.
#ifndef TETHYS_DEPLOY_FLAGS_PIPED_FILES_H_
#define TETHYS_DEPLOY_FLAGS_PIPED_FILES_H_

#include "deploy/flags/flags.h"
#include "runtime/base/status.h"

namespace tethys {

// Reads every pipe among the arguments and the flags with FlagSpec::is_input into memory, so that its path in
// `flags` can be opened any number of times from now on, by this process and by the programs that it starts.
// A path such as /dev/fd/63 stays the same if only this process reads the file. ResourceExhausted: a pipe
// delivers more than kMaxPipedBytes.
absl::Status KeepPipedFiles(const CommandSpec& spec, Flags& flags);

inline constexpr int64_t kMaxPipedBytes = int64_t{1} << 30;

}  // namespace tethys

#endif  // TETHYS_DEPLOY_FLAGS_PIPED_FILES_H_
