// The path by which this program is started again. Reads a symbolic link and is pure otherwise; any thread.
#ifndef TETHYS_DEPLOY_PROCESS_OWN_PROGRAM_H_
#define TETHYS_DEPLOY_PROCESS_OWN_PROGRAM_H_

#include <string>

namespace tethys {

// /proc/self/exe: this build, even if another has replaced its file meanwhile. In a bundle (deploy/bundle.sh)
// that link leads to the bundle's loader, so the result is the start script one folder up.
std::string OwnProgram();

// The folder of the unpacked bundle that this program runs from; empty if it runs from none.
std::string OwnBundle();

}  // namespace tethys

#endif  // TETHYS_DEPLOY_PROCESS_OWN_PROGRAM_H_
