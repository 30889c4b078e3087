// The part of NVIDIA's management library that runtime/telemetry/nvml.cc calls, with two fake GPUs. The whole
// GPU reports everything. The part of a GPU (MIG) does not support utilization and fails to report power.
#include <cstring>

namespace {
constexpr char kWhole[] = "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f";
constexpr char kPart[] = "MIG-ffffffff-ffff-ffff-ffff-ffffffffffff";
int begun = 0;
char whole, part;  // The addresses of these variables are the device handles.
struct {
  unsigned number, percent;
} processes[512];
unsigned process_count = 0;
}  // namespace

extern "C" {
int nvmlInit_v2() { return ++begun, 0; }
int nvmlShutdown() { return --begun, 0; }
int fake_nvml_begun() { return begun; }
const char* nvmlErrorString(int code) { return code == 6 ? "Not Found" : "Unknown Error"; }

int nvmlDeviceGetHandleByUUID(const char* uuid, void** device) {
  if (std::strcmp(uuid, kWhole) == 0) return *device = &whole, 0;
  if (std::strcmp(uuid, kPart) == 0) return *device = &part, 0;
  return 6;
}
int nvmlDeviceGetUtilizationRates(void* device, unsigned* percent) {
  if (device == &part) return 3;
  percent[0] = 75;
  percent[1] = 20;
  return 0;
}
int nvmlDeviceGetMemoryInfo(void* device, unsigned long long* bytes) {
  bytes[0] = 8ull << 30;
  bytes[2] = device == &whole ? 3ull << 30 : 1ull << 30;
  bytes[1] = bytes[0] - bytes[2];
  return 0;
}

// ---- the whole GPU among all GPUs, and its processes, which fake_nvml_set_processes sets with their shares
// in percent
int nvmlDeviceGetCount_v2(unsigned* count) { return *count = 1, 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned, void** device) { return *device = &whole, 0; }
int nvmlDeviceGetUUID(void*, char* text, unsigned) { return std::strcpy(text, kWhole), 0; }
void fake_nvml_set_processes(const unsigned* numbers, const unsigned* percent, unsigned count) {
  process_count = count;
  for (unsigned i = 0; i < count; ++i) processes[i] = {numbers[i], percent[i]};
}
int nvmlDeviceGetComputeRunningProcesses_v3(void*, unsigned* count, void* out) {
  struct Process {
    unsigned process;
    unsigned long long memory;
    unsigned instance, compute_instance;
  };
  if (*count < process_count) return *count = process_count, 7;
  *count = process_count;
  for (unsigned i = 0; i < process_count; ++i) static_cast<Process*>(out)[i].process = processes[i].number;
  return 0;
}
// Two samples of each process, the newer sample first.
int nvmlDeviceGetProcessUtilization(void*, void* out, unsigned* count, unsigned long long since) {
  struct Sample {
    unsigned process;
    unsigned long long time;
    unsigned percent, memory, encoder, decoder;
  };
  if (process_count == 0) return 6;
  if (*count < 2 * process_count) return *count = 2 * process_count, 7;
  *count = 2 * process_count;
  for (unsigned i = 0; i < process_count; ++i) {
    static_cast<Sample*>(out)[2 * i] = {processes[i].number, since + 2, processes[i].percent, 0, 0, 0};
    static_cast<Sample*>(out)[2 * i + 1] = {processes[i].number, since + 1, 100, 0, 0, 0};
  }
  return 0;
}
#ifndef FAKE_NVML_WITHOUT_POWER
int nvmlDeviceGetPowerUsage(void* device, unsigned* milliwatts) {
  *milliwatts = 412500;
  return device == &whole ? 0 : 999;
}
#endif
}
