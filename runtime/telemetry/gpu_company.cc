#include "runtime/telemetry/gpu_company.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

namespace tethys {
namespace {

// The processes in `after` that are not in `before`: this process alone, unless another process appeared
// between the two lists.
std::set<uint32_t> Newcomers(const std::vector<uint32_t>& before, const std::vector<uint32_t>& after) {
  std::set<uint32_t> newcomers(after.begin(), after.end());
  for (const uint32_t process : before) newcomers.erase(process);
  const auto own = static_cast<uint32_t>(getpid());
  if (newcomers.count(own) > 0) return {own};
  return newcomers;
}

}  // namespace

GpuCompany::GpuCompany(const std::string& library) {
  absl::StatusOr<std::vector<std::unique_ptr<NvmlGpu>>> gpus = NvmlGpu::OpenAll(library);
  if (!gpus.ok()) return;
  for (std::unique_ptr<NvmlGpu>& gpu : *gpus) {
    auto before = gpu->Processes();
    const std::string uuid = gpu->uuid();
    listed_[uuid] = {std::move(gpu), std::move(before)};
  }
}

void GpuCompany::Watch(const std::string& uuid) {
  gpu_ = nullptr;
  own_.clear();
  const auto found = listed_.find(uuid);
  if (found == listed_.end() || !found->second.before.has_value()) return;
  gpu_ = found->second.gpu.get();
  if (const auto after = gpu_->Processes()) own_ = Newcomers(*found->second.before, *after);
}

GpuCompanyReading GpuCompany::Read() {
  GpuCompanyReading reading;
  // Reports nothing if the driver's list does not show this process, because the list may then lack other
  // processes, too.
  if (gpu_ == nullptr || own_.empty()) return reading;
  if (const auto processes = gpu_->Processes()) {
    const bool shows_own = std::any_of(processes->begin(), processes->end(),
                                       [&](uint32_t process) { return own_.count(process) > 0; });
    reading.processes = static_cast<int>(processes->size()) - (shows_own ? 1 : 0);
  }
  if (own_.size() != 1) return reading;
  if (const auto use = gpu_->ProcessUse()) {
    double share = 0;
    for (const GpuProcessUse& other : *use) share += own_.count(other.process) > 0 ? 0 : other.share;
    reading.share = std::min(1.0, share);
  }
  return reading;
}

}  // namespace tethys
