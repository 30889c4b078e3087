#include "runtime/telemetry/nvml.h"

#include <dlfcn.h>

#include <utility>

#include "absl/strings/escaping.h"
#include "runtime/base/logging.h"

namespace tethys {
namespace {

constexpr size_t kUuidBytes = 16;

// The part of NVML's binary interface that is used here, as its reference gives it; it has not changed since
// the functions were introduced.
extern "C" {
using NvmlReturn = int;
using NvmlDevice = struct NvmlDeviceHandle*;
struct NvmlUtilization {  // In percent.
  unsigned gpu;
  unsigned memory;
};
struct NvmlMemory {  // In bytes.
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
};
struct NvmlFunctions {
  NvmlReturn (*init)();
  NvmlReturn (*shutdown)();
  const char* (*error_string)(NvmlReturn);
  NvmlReturn (*handle_by_uuid)(const char* uuid, NvmlDevice*);
  NvmlReturn (*utilization)(NvmlDevice, NvmlUtilization*);
  NvmlReturn (*memory)(NvmlDevice, NvmlMemory*);
  NvmlReturn (*power)(NvmlDevice, unsigned* milliwatts);
};
}
constexpr NvmlReturn kSuccess = 0;
constexpr NvmlReturn kNotSupported = 3;
constexpr NvmlReturn kNotFound = 6;

struct CloseLibrary {
  void operator()(void* handle) const { dlclose(handle); }
};
using Library = std::unique_ptr<void, CloseLibrary>;

template <typename Function>
absl::Status Find(const Library& library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library.get(), name));
  if (function != nullptr) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("it has no function ", name, ": it is damaged, or older than every driver for CUDA 13"));
}

absl::StatusOr<NvmlFunctions> FindAll(const Library& library) {
  NvmlFunctions nvml{};
  TETHYS_RETURN_IF_ERROR(Find(library, "nvmlInit_v2", nvml.init));
  TETHYS_RETURN_IF_ERROR(Find(library, "nvmlShutdown", nvml.shutdown));
  TETHYS_RETURN_IF_ERROR(Find(library, "nvmlErrorString", nvml.error_string));
  TETHYS_RETURN_IF_ERROR(Find(library, "nvmlDeviceGetHandleByUUID", nvml.handle_by_uuid));
  TETHYS_RETURN_IF_ERROR(Find(library, "nvmlDeviceGetUtilizationRates", nvml.utilization));
  TETHYS_RETURN_IF_ERROR(Find(library, "nvmlDeviceGetMemoryInfo", nvml.memory));
  TETHYS_RETURN_IF_ERROR(Find(library, "nvmlDeviceGetPowerUsage", nvml.power));
  return nvml;
}

// The UUID as text, "01234567-89ab-cdef-0123-456789abcdef". NVML expects "GPU-" before it or, for a part of a
// GPU, "MIG-".
std::string UuidText(const std::string& uuid) {
  const std::string hex = absl::BytesToHexString(uuid);
  return absl::StrCat(hex.substr(0, 8), "-", hex.substr(8, 4), "-", hex.substr(12, 4), "-", hex.substr(16, 4),
                      "-", hex.substr(20));
}

class LoadedNvmlGpu final : public NvmlGpu {
 public:
  LoadedNvmlGpu(Library library, const NvmlFunctions& nvml) : library_(std::move(library)), nvml_(nvml) {}
  ~LoadedNvmlGpu() override {
    if (initialized_) nvml_.shutdown();
  }

  absl::Status Initialize(const std::string& uuid) {
    const NvmlReturn begun = nvml_.init();
    if (begun != kSuccess) {
      return absl::FailedPreconditionError(
          absl::StrCat("it cannot initialize: ", nvml_.error_string(begun), " (", begun, ")"));
    }
    initialized_ = true;
    const std::string text = UuidText(uuid);
    NvmlReturn found = kNotFound;
    for (const char* kind : {"GPU-", "MIG-"}) {
      found = nvml_.handle_by_uuid(absl::StrCat(kind, text).c_str(), &gpu_);
      if (found == kSuccess) return absl::OkStatus();
    }
    return absl::NotFoundError(
        absl::StrCat("it finds no GPU ", text, ": ", nvml_.error_string(found), " (", found, ")"));
  }

  GpuReading Read() override {
    GpuReading reading;
    NvmlUtilization utilization{};
    if (Succeeded("nvmlDeviceGetUtilizationRates", nvml_.utilization(gpu_, &utilization))) {
      reading.percent = utilization.gpu;
    }
    NvmlMemory memory{};
    if (Succeeded("nvmlDeviceGetMemoryInfo", nvml_.memory(gpu_, &memory))) {
      reading.memory_bytes = static_cast<int64_t>(memory.used);
    }
    unsigned milliwatts = 0;
    if (Succeeded("nvmlDeviceGetPowerUsage", nvml_.power(gpu_, &milliwatts))) {
      reading.power_watts = milliwatts / 1000.0;
    }
    return reading;
  }

 private:
  bool Succeeded(const char* call, NvmlReturn code) {
    if (code != kSuccess && code != kNotSupported && !std::exchange(told_, true)) {
      TETHYS_LOG(Warning, call, ": ", nvml_.error_string(code), " (", code,
                 "); values of the GPU are left out where it fails");
    }
    return code == kSuccess;
  }

  const Library library_;
  const NvmlFunctions nvml_;
  NvmlDevice gpu_ = nullptr;
  bool initialized_ = false;
  bool told_ = false;
};

}  // namespace

absl::StatusOr<std::unique_ptr<NvmlGpu>> NvmlGpu::Open(const std::string& uuid, const std::string& library) {
  if (uuid.size() != kUuidBytes) {
    return absl::NotFoundError(absl::StrCat("the UUID of a GPU has ", kUuidBytes,
                                            " bytes, this device's identity has ", uuid.size()));
  }
  Library handle(dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL));
  if (handle == nullptr) return absl::NotFoundError(absl::StrCat("cannot open ", library, ": ", dlerror()));
  const absl::StatusOr<NvmlFunctions> nvml = FindAll(handle);
  if (!nvml.ok()) return Annotate(nvml.status(), library);
  auto gpu = std::make_unique<LoadedNvmlGpu>(std::move(handle), *nvml);
  const absl::Status initialized = gpu->Initialize(uuid);
  if (!initialized.ok()) return Annotate(initialized, library);
  return gpu;
}

}  // namespace tethys
