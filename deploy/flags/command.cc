#include "deploy/flags/command.h"

#include <cstdio>

namespace tethys {

int Fail(const std::string& verb, const absl::Status& status, int exit_status) {
  std::fflush(stdout);
  std::fprintf(stderr, "tethys %s: %s\n", verb.c_str(), std::string(status.message()).c_str());
  return exit_status;
}

}  // namespace tethys
