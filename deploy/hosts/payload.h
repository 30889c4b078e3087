// What is copied to machines that lack this build: a bundle, the program with all its libraries
// (deploy/bundle.sh). Called before a job starts; blocks for seconds where it has to be made.
// Thread-compatible.
#ifndef TETHYS_DEPLOY_HOSTS_PAYLOAD_H_
#define TETHYS_DEPLOY_HOSTS_PAYLOAD_H_

#include <functional>
#include <string>

#include "runtime/base/status.h"

namespace tethys {

struct Payload {
  std::string path;          // Of a bundle of this build.
  double installed_kib = 0;  // What it takes up there, roughly.
};

struct PayloadOptions {
  std::string program = {};                           // As OwnProgram tells it.
  std::string build = {};                             // Its id.
  std::string bundle = {};                            // The one to take; empty: the one beside the program.
  std::string scratch = {};                           // A directory for what is needed once.
  std::function<void(const std::string&)> note = {};  // Takes lines for the user.
};

// `bundle`, where one is named; else the bundle beside the program, which is made when there is none of this
// build, and stays there for the next time (or lies in `scratch`, where that folder cannot be written). A
// program that runs out of an unpacked bundle packs that again. FailedPrecondition, NotFound: the bundle that
// is named is of another build, is none, or is not there. An error says what to do.
absl::StatusOr<Payload> FindPayload(const PayloadOptions& options);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_HOSTS_PAYLOAD_H_
