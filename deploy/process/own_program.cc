#include "deploy/process/own_program.h"

#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "runtime/base/own_library.h"

namespace tethys {

std::string OwnProgram() { return RunsInBundle() ? ProgramFolder() + "/../tethys" : "/proc/self/exe"; }

std::string OwnProgramForOthers() {
  return absl::StrReplaceAll(OwnProgram(), {{"/proc/self/", absl::StrCat("/proc/", getpid(), "/")}});
}

std::string OwnBundle() {
  const std::string program = OwnProgram();
  absl::string_view folder = program;
  return absl::ConsumeSuffix(&folder, "/lib/../tethys") ? std::string(folder) : "";
}

}  // namespace tethys
