#include <cstdio>

#include "deploy/command/verbs.h"
#include "deploy/hosts/host_needs.h"
#include "deploy/run/needs_flags.h"
#include "workers/device_factory.h"

namespace tethys {
namespace {

// Creates and destroys a device on the last GPU that is needed. This checks the number of GPUs, the libraries
// and the driver.
absl::Status CheckGpus(const HostNeeds& needs) {
  proto::Device config;
  config.set_kind(proto::Device::CUDA);
  if (needs.bf16) config.set_precision(proto::Device::BF16);
  config.set_tf32(needs.tf32);
  return CreateDeviceOf(proto::Device::CUDA, config, needs.gpus - 1, needs.cuda_library_path).status();
}

int Ready(const Flags& flags) {
  const absl::StatusOr<HostNeeds> needs = ParseNeeds(flags);
  if (!needs.ok()) return Fail("ready", needs.status(), kExitBadRequest);
  std::vector<std::string> lacks = LackingFiles(*needs);
  if (needs->gpus > 0) {
    const absl::Status usable = CheckGpus(*needs);
    if (!usable.ok()) lacks.emplace_back(usable.message());
  }
  std::fputs(LackText(lacks).c_str(), stdout);
  return kExitSuccess;
}

}  // namespace

Command ReadyCommand() {
  return {
      {.verb = "ready",
       .summary = "Lists data files and GPUs that a job needs and this machine lacks; started by launchers.",
       .description = "Prints a line for each named data file and GPU that is missing, and a last "
                      "line in any case. The exit status is 0 even if something is missing.",
       .flags = NeedsFlagSpecs(),
       .examples = {"tethys ready --file=4422102:/data/t10k-images-idx3-ubyte.gz --gpus=2"},
       .hidden = true},
      Ready};
}

}  // namespace tethys
