// The identity of this program: version, commit and build. Pure; any thread.
#ifndef TETHYS_DEPLOY_COMMAND_VERSION_H_
#define TETHYS_DEPLOY_COMMAND_VERSION_H_

#include <string>

namespace tethys {

// "Tethys 0.1.0, commit 0a00dc8f3c11, build 0118d2aaf032...": the build id comes last, for scripts. The
// commit is left out if the program was not built from a git repository. Uncommitted changes show only in the
// build id.
std::string VersionText();
// Like VersionText, but with only the beginning of the build id, for people.
std::string ShortVersionText();

}  // namespace tethys

#endif  // TETHYS_DEPLOY_COMMAND_VERSION_H_
