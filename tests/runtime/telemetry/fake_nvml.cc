// The part of NVIDIA's management library that runtime/telemetry/nvml.cc calls, with two fake GPUs. The whole
// GPU reports everything. The part of a GPU (MIG) does not support utilization and fails to report power.
#include <cstring>

namespace {
constexpr char kWhole[] = "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f";
constexpr char kPart[] = "MIG-ffffffff-ffff-ffff-ffff-ffffffffffff";
int begun = 0;
char whole, part;  // Their addresses are the device handles.
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
#ifndef FAKE_NVML_WITHOUT_POWER
int nvmlDeviceGetPowerUsage(void* device, unsigned* milliwatts) {
  *milliwatts = 412500;
  return device == &whole ? 0 : 999;
}
#endif
}
