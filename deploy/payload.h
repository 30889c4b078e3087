// What is copied to machines that lack this build. Called before a job starts; blocks for seconds where it
// has to pack. Thread-compatible.
#ifndef TETHYS_DEPLOY_PAYLOAD_H_
#define TETHYS_DEPLOY_PAYLOAD_H_

#include <string>

#include "runtime/base/status.h"

namespace tethys {

struct Payload {
  std::string path;
  bool packed;               // A bundle of deploy/bundle.sh; else the program alone.
  double installed_kib = 0;  // What it takes up there, roughly.
};

// `bundle`, where one is named; else the bundle beside the program. Without any, a program that runs out of
// an unpacked bundle packs that again, in the directory `scratch`, and another one goes alone. `program`: as
// OwnProgram tells it.
absl::StatusOr<Payload> FindPayload(const std::string& program, const std::string& bundle,
                                    const std::string& scratch);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_PAYLOAD_H_
