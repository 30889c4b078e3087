#include "deploy/run/needs_flags.h"

#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "deploy/run/role_process.h"

namespace tethys {

std::vector<FlagSpec> NeedsFlagSpecs() {
  return {{.name = "file",
           .value = "BYTES:PATH",
           .help = "A file that must exist and have this size.",
           .repeated = true},
          {.name = "gpus", .value = "N", .help = "GPUs that workers must be able to use. Default 0."},
          {.name = "bf16", .help = "The GPUs must compute in bfloat16."},
          {.name = "tf32", .help = "The GPUs must compute in TF32."},
          CudaLibraryPathFlag()};
}

absl::StatusOr<HostNeeds> ParseNeeds(const Flags& flags) {
  HostNeeds needs;
  for (const std::string& text : flags.GetAll("file")) {
    const std::pair<std::string, std::string> parts = absl::StrSplit(text, absl::MaxSplits(':', 1));
    int64_t size = -1;
    if (!absl::SimpleAtoi(parts.first, &size) || size < 0 || parts.second.empty()) {
      return absl::InvalidArgumentError(absl::StrCat("--file=", text, ": must be BYTES:PATH"));
    }
    needs.files[parts.second] = size;
  }
  TETHYS_ASSIGN_OR_RETURN(const int64_t gpus, flags.GetInteger("gpus", 0, 0, 1 << 20));
  needs.gpus = static_cast<int>(gpus);
  needs.bf16 = flags.Has("bf16");
  needs.tf32 = flags.Has("tf32");
  needs.cuda_library_path = flags.GetAll("cuda_library_path");
  return needs;
}

}  // namespace tethys
