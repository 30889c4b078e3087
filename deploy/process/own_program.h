// How this program is started again. Pure but for reading a link; any thread.
#ifndef TETHYS_DEPLOY_PROCESS_OWN_PROGRAM_H_
#define TETHYS_DEPLOY_PROCESS_OWN_PROGRAM_H_

#include <string>

namespace tethys {

// /proc/self/exe: this build, even when another has taken its place meanwhile. Out of a bundle
// (deploy/bundle.sh) that link leads to the bundle's loader; then it is the start script one folder up.
std::string OwnProgram();

// The folder of the unpacked bundle that this program runs out of; empty: it runs out of none.
std::string OwnBundle();

}  // namespace tethys

#endif  // TETHYS_DEPLOY_PROCESS_OWN_PROGRAM_H_
