// The path by which this program is started again. Reads a symbolic link and is pure otherwise; any thread.
#ifndef TETHYS_DEPLOY_PROCESS_OWN_PROGRAM_H_
#define TETHYS_DEPLOY_PROCESS_OWN_PROGRAM_H_

#include <string>

namespace tethys {

// Returns /proc/self/exe, which stays this build even if another build replaces the program's file. In a
// bundle (deploy/bundle.sh), where /proc/self/exe is a dynamic loader, returns the bundle's start script.
std::string OwnProgram();

// Like OwnProgram, but a path that a shell, or another child process, can use, too: /proc/PID/exe instead of
// /proc/self/exe.
std::string OwnProgramForOthers();

// The folder of the unpacked bundle that this program runs from; empty if it does not run from a bundle.
std::string OwnBundle();

}  // namespace tethys

#endif  // TETHYS_DEPLOY_PROCESS_OWN_PROGRAM_H_
