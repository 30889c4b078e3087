#include "deploy/process/own_program.h"

#include <errno.h>
#include <unistd.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace tethys {

std::string OwnProgram() {
  constexpr char kLink[] = "/proc/self/exe";
  char target[4096];
  const ssize_t length = readlink(kLink, target, sizeof(target));
  if (length <= 0 || length == sizeof(target)) return kLink;
  const absl::string_view path(target, static_cast<size_t>(length));
  if (!absl::StartsWith(path.substr(path.rfind('/') + 1), "ld-linux")) return kLink;
  // The start script names lib/tethys by its absolute path.
  const absl::string_view program = program_invocation_name;
  return std::string(program.substr(0, program.rfind('/') + 1)) + "../tethys";
}

std::string OwnProgramForOthers() {
  return absl::StrReplaceAll(OwnProgram(), {{"/proc/self/", absl::StrCat("/proc/", getpid(), "/")}});
}

std::string OwnBundle() {
  const std::string program = OwnProgram();
  absl::string_view folder = program;
  return absl::ConsumeSuffix(&folder, "/lib/../tethys") ? std::string(folder) : "";
}

}  // namespace tethys
