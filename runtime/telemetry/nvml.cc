#include "runtime/telemetry/nvml.h"

#include <dlfcn.h>

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_replace.h"
#include "absl/time/clock.h"
#include "runtime/base/logging.h"

namespace tethys {
namespace {

constexpr size_t kUuidBytes = 16;

// The part of NVML's binary interface that this program uses, as NVML's reference defines it; the interface
// has not changed since the functions were introduced.
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
struct NvmlProcess {
  unsigned process;
  unsigned long long memory_bytes;
  unsigned gpu_instance;
  unsigned compute_instance;
};
struct NvmlProcessUse {
  unsigned process;
  unsigned long long time;                             // In microseconds since 1970.
  unsigned multiprocessors, memory, encoder, decoder;  // In percent.
};
struct NvmlFunctions {
  NvmlReturn (*init)();
  NvmlReturn (*shutdown)();
  const char* (*error_string)(NvmlReturn);
  NvmlReturn (*handle_by_uuid)(const char* uuid, NvmlDevice*);
  NvmlReturn (*utilization)(NvmlDevice, NvmlUtilization*);
  NvmlReturn (*memory)(NvmlDevice, NvmlMemory*);
  NvmlReturn (*power)(NvmlDevice, unsigned* milliwatts);
  // The functions below are null if the installed library lacks them.
  NvmlReturn (*count)(unsigned* gpus);
  NvmlReturn (*handle_by_index)(unsigned index, NvmlDevice*);
  NvmlReturn (*uuid)(NvmlDevice, char* text, unsigned length);
  NvmlReturn (*processes)(NvmlDevice, unsigned* count, NvmlProcess*);
  NvmlReturn (*process_use)(NvmlDevice, NvmlProcessUse*, unsigned* count, unsigned long long since);
};
}
constexpr NvmlReturn kSuccess = 0;
constexpr NvmlReturn kNotSupported = 3;
constexpr NvmlReturn kNotFound = 6;
constexpr NvmlReturn kTooSmall = 7;
constexpr unsigned kMostProcesses = 4096;
constexpr unsigned kMostGpus = 1024;
// The size of the buffer for a UUID's text: the 96 bytes that NVML's reference requires, plus a terminating
// zero byte.
constexpr unsigned kUuidTextBytes = 97;

struct CloseLibrary {
  void operator()(void* handle) const { dlclose(handle); }
};
using Library = std::unique_ptr<void, CloseLibrary>;

template <typename Function>
absl::Status Find(const Library& library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library.get(), name));
  if (function != nullptr) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("the library has no function ", name,
                   ": the library is damaged, or older than every driver for CUDA 13"));
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
  Find(library, "nvmlDeviceGetCount_v2", nvml.count).IgnoreError();
  Find(library, "nvmlDeviceGetHandleByIndex_v2", nvml.handle_by_index).IgnoreError();
  Find(library, "nvmlDeviceGetUUID", nvml.uuid).IgnoreError();
  Find(library, "nvmlDeviceGetComputeRunningProcesses_v3", nvml.processes).IgnoreError();
  Find(library, "nvmlDeviceGetProcessUtilization", nvml.process_use).IgnoreError();
  return nvml;
}

// The UUID as text, "01234567-89ab-cdef-0123-456789abcdef". NVML expects "GPU-" before it or, for a part of a
// GPU, "MIG-".
std::string UuidText(const std::string& uuid) {
  const std::string hex = absl::BytesToHexString(uuid);
  return absl::StrCat(hex.substr(0, 8), "-", hex.substr(8, 4), "-", hex.substr(12, 4), "-", hex.substr(16, 4),
                      "-", hex.substr(20));
}

// The UUID, as 16 bytes, that NVML gives as the text "GPU-01234567-89ab-cdef-0123-456789abcdef"; empty for
// any other text.
std::string UuidBytes(absl::string_view text) {
  const std::string hex = absl::StrReplaceAll(text.substr(std::min<size_t>(4, text.size())), {{"-", ""}});
  std::string uuid;
  for (size_t i = 0; i + 2 <= hex.size(); i += 2) {
    uint32_t byte = 0;
    if (!absl::ascii_isxdigit(static_cast<unsigned char>(hex[i])) ||
        !absl::SimpleHexAtoi(hex.substr(i, 2), &byte)) {
      return "";
    }
    uuid += static_cast<char>(byte);
  }
  return uuid.size() == kUuidBytes ? uuid : "";
}

class LoadedNvmlGpu final : public NvmlGpu {
 public:
  LoadedNvmlGpu(Library library, const NvmlFunctions& nvml) : library_(std::move(library)), nvml_(nvml) {}
  ~LoadedNvmlGpu() override {
    if (initialized_) nvml_.shutdown();
  }

  absl::Status Begin() {
    const NvmlReturn begun = nvml_.init();
    initialized_ = begun == kSuccess;
    if (initialized_) return absl::OkStatus();
    return absl::FailedPreconditionError(
        absl::StrCat("the library cannot initialize: ", nvml_.error_string(begun), " (", begun, ")"));
  }

  absl::Status FindByUuid(const std::string& uuid) {
    uuid_ = uuid;
    const std::string text = UuidText(uuid);
    NvmlReturn found = kNotFound;
    for (const char* kind : {"GPU-", "MIG-"}) {
      found = nvml_.handle_by_uuid(absl::StrCat(kind, text).c_str(), &gpu_);
      if (found == kSuccess) return absl::OkStatus();
    }
    return absl::NotFoundError(
        absl::StrCat("the library finds no GPU ", text, ": ", nvml_.error_string(found), " (", found, ")"));
  }

  // True if there is a GPU with this index, and the GPU has a UUID.
  bool FindByIndex(unsigned index) {
    char text[kUuidTextBytes] = {};
    if (nvml_.handle_by_index == nullptr || nvml_.uuid == nullptr) return false;
    if (nvml_.handle_by_index(index, &gpu_) != kSuccess) return false;
    if (nvml_.uuid(gpu_, text, sizeof(text) - 1) != kSuccess) return false;
    uuid_ = UuidBytes(text);
    return !uuid_.empty();
  }

  unsigned Count() const {
    unsigned count = 0;
    if (nvml_.count == nullptr || nvml_.count(&count) != kSuccess) return 0;
    return std::min(count, kMostGpus);
  }

  const std::string& uuid() const override { return uuid_; }

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

  absl::optional<std::vector<uint32_t>> Processes() override {
    if (nvml_.processes == nullptr) return absl::nullopt;
    std::vector<NvmlProcess> found;
    const bool told = Fill(found, [&](NvmlProcess* processes, unsigned* count) {
      return nvml_.processes(gpu_, count, processes);
    });
    if (!told) return absl::nullopt;
    std::vector<uint32_t> processes;
    for (const NvmlProcess& process : found) processes.push_back(process.process);
    return processes;
  }

  absl::optional<std::vector<GpuProcessUse>> ProcessUse() override {
    if (nvml_.process_use == nullptr) return absl::nullopt;
    const auto since = static_cast<unsigned long long>(absl::ToUnixMicros(absl::Now() - absl::Seconds(1)));
    std::vector<NvmlProcessUse> samples;
    const bool told = Fill(samples, [&](NvmlProcessUse* found, unsigned* count) {
      return nvml_.process_use(gpu_, found, count, since);
    });
    if (!told) return absl::nullopt;
    std::map<uint32_t, NvmlProcessUse> newest;
    for (const NvmlProcessUse& sample : samples) {
      const auto [known, added] = newest.emplace(sample.process, sample);
      if (!added && known->second.time < sample.time) known->second = sample;
    }
    std::vector<GpuProcessUse> use;
    for (const auto& [process, sample] : newest) {
      use.push_back({process, std::min(1.0, sample.multiprocessors / 100.0)});
    }
    return use;
  }

 private:
  // Fills `list` by a call that writes at most `count` elements and sets `count` to the number of elements
  // that exist. False: the driver reports no list.
  template <typename Element, typename Call>
  bool Fill(std::vector<Element>& list, Call call) {
    for (unsigned size = 64; size <= kMostProcesses; size *= 4) {
      list.assign(size, {});
      unsigned count = size;
      const NvmlReturn code = call(list.data(), &count);
      if (code == kTooSmall) continue;
      // NVML reports an empty list of samples as "not found".
      if (code != kSuccess && code != kNotFound) return false;
      list.resize(code == kSuccess ? std::min(count, size) : 0);
      return true;
    }
    return false;
  }

  bool Succeeded(const char* call, NvmlReturn code) {
    if (code != kSuccess && code != kNotSupported && !std::exchange(told_, true)) {
      TETHYS_LOG(Warning, call, ": ", nvml_.error_string(code), " (", code,
                 "); measurements of the GPU are left out where this call fails");
    }
    return code == kSuccess;
  }

  const Library library_;
  const NvmlFunctions nvml_;
  NvmlDevice gpu_ = nullptr;
  std::string uuid_;
  bool initialized_ = false;
  bool told_ = false;
};

// Opens the library for a GPU object that is bound to no GPU yet. (Each object opens the library; the system
// loads and initialises it only once.)
absl::StatusOr<std::unique_ptr<LoadedNvmlGpu>> Load(const std::string& library) {
  Library handle(dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL));
  if (handle == nullptr) return absl::NotFoundError(absl::StrCat("cannot open ", library, ": ", dlerror()));
  const absl::StatusOr<NvmlFunctions> nvml = FindAll(handle);
  if (!nvml.ok()) return Annotate(nvml.status(), library);
  auto gpu = std::make_unique<LoadedNvmlGpu>(std::move(handle), *nvml);
  const absl::Status begun = gpu->Begin();
  if (!begun.ok()) return Annotate(begun, library);
  return gpu;
}

}  // namespace

absl::StatusOr<std::unique_ptr<NvmlGpu>> NvmlGpu::Open(const std::string& uuid, const std::string& library) {
  if (uuid.size() != kUuidBytes) {
    return absl::NotFoundError(absl::StrCat("the UUID of a GPU has ", kUuidBytes,
                                            " bytes, but the identity of this device has ", uuid.size()));
  }
  TETHYS_ASSIGN_OR_RETURN(std::unique_ptr<LoadedNvmlGpu> gpu, Load(library));
  const absl::Status found = gpu->FindByUuid(uuid);
  if (!found.ok()) return Annotate(found, library);
  return gpu;
}

absl::StatusOr<std::vector<std::unique_ptr<NvmlGpu>>> NvmlGpu::OpenAll(const std::string& library) {
  TETHYS_ASSIGN_OR_RETURN(std::unique_ptr<LoadedNvmlGpu> gpu, Load(library));
  std::vector<std::unique_ptr<NvmlGpu>> gpus;
  const unsigned count = gpu->Count();
  for (unsigned index = 0; index < count; ++index) {
    if (gpu == nullptr) {
      TETHYS_ASSIGN_OR_RETURN(gpu, Load(library));
    }
    if (gpu->FindByIndex(index)) gpus.push_back(std::move(gpu));
  }
  return gpus;
}

}  // namespace tethys
