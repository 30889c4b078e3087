#include "runtime/base/own_library.h"

#include <dlfcn.h>
#include <errno.h>

#include <filesystem>
#include <system_error>

#include "absl/strings/match.h"

namespace tethys {
namespace {

std::filesystem::path Executable() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error);
}

}  // namespace

bool RunsInBundle() { return absl::StartsWith(Executable().filename().string(), "ld-linux"); }

std::string ProgramFolder() {
  // The bundle's start script names the program by its absolute path.
  const std::filesystem::path program = RunsInBundle() ? program_invocation_name : Executable();
  return program.parent_path();
}

absl::StatusOr<const void*> OpenOwnLibrary(const OwnLibrary& library) {
  const std::string& path = library.path;
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
    return absl::FailedPreconditionError(absl::StrCat("there is no ", path, library.if_missing));
  }
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const std::string reason = dlerror();
    if (library.cannot_open) return library.cannot_open(path, reason);
    return absl::FailedPreconditionError(absl::StrCat("cannot open ", path, ": ", reason));
  }
  const auto entry = reinterpret_cast<const void* (*)()>(dlsym(handle, library.entry));
  if (entry == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, " is not a library of Tethys: it has no ", library.entry));
  }
  const void* table = entry();
  const absl::string_view fingerprint = *static_cast<const char* const*>(table);
  if (fingerprint != library.fingerprint) {
    return absl::FailedPreconditionError(absl::StrCat(path, " is of another build (", fingerprint,
                                                      ") than this program (", library.fingerprint,
                                                      "): build both together, and copy both"));
  }
  return table;
}

}  // namespace tethys
