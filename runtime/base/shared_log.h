// The log (logging.h) of a process that shares its standard error with other processes, as under a scheduler:
// each line names its process.
#ifndef TETHYS_RUNTIME_BASE_SHARED_LOG_H_
#define TETHYS_RUNTIME_BASE_SHARED_LOG_H_

#include <string>

namespace tethys {

// From now on every line of the log begins with "[OWNER] ", and lines of severity Info are left out unless
// `all` is set. Call it before other threads log.
void ShareStandardError(const std::string& owner, bool all);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_BASE_SHARED_LOG_H_
