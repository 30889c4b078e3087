// The bundle that is copied to machines that lack this build: the program with all its libraries
// (deploy/bundle.sh). Called before a job starts; blocks for seconds if the bundle has to be made.
// Thread-compatible.
#ifndef TETHYS_DEPLOY_HOSTS_PAYLOAD_H_
#define TETHYS_DEPLOY_HOSTS_PAYLOAD_H_

#include <cstdint>
#include <functional>
#include <string>

#include "runtime/base/status.h"

namespace tethys {

struct Payload {
  std::string path;             // The path of a bundle of this build.
  int64_t installed_bytes = 0;  // The approximate size of the unpacked bundle.
};

struct PayloadOptions {
  std::string program = {};  // The path that OwnProgram returns.
  std::string build = {};    // The id of this build.
  std::string bundle = {};   // The path given by the user (--bundle), or empty.
  std::string scratch = {};  // A directory for temporary files.
  std::string cache = {};    // The user's folder for bundles (BundleCache), or empty.
  std::function<void(const std::string&)> note = {};  // Receives lines for the user.
};

// Returns `bundle` if it is set, and otherwise the bundle beside the program. If no bundle of this build is
// beside the program, makes one and keeps it beside the program or, if that folder is not writable, in
// `cache`. A program that runs from an unpacked bundle packs that bundle again, and keeps the file in
// `cache`. Without a writable cache the file lies in `scratch`. NotFound: the file `bundle` does not exist.
// FailedPrecondition: the file `bundle` is not a bundle of this build. Errors say what to do.
absl::StatusOr<Payload> FindPayload(const PayloadOptions& options);

// .cache/tethys/bundles in the user's home directory; empty if the user has none.
std::string BundleCache();

}  // namespace tethys

#endif  // TETHYS_DEPLOY_HOSTS_PAYLOAD_H_
