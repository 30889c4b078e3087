// The functions of the CUDA runtime that the CUDA back end calls, for the host. They are linked in place of
// the runtime. Work runs at once, with two exceptions. cudaMemcpy from pageable memory to the device reads at
// once and writes at cudaDeviceSynchronize. After SetReadsPageableMemory(true), cudaMemcpyAsync from such
// memory runs when a stream is synchronized.
#include "tests/testing/cuda_runtime_on_host.h"

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <set>
#include <utility>
#include <vector>

namespace {

constexpr size_t kAlignment = 256;
constexpr size_t kMemoryBytes = 64 << 20;  // Enough memory for the tests; a test can exceed it on purpose.

std::map<void*, size_t> blocks;  // The bytes of each allocation, by address.
std::set<void*> pinned;          // Allocations of pinned host memory.
size_t used_bytes = 0;
cudaError_t last_error = cudaSuccess;
bool reads_pageable_memory = false;
std::vector<std::function<void()>> late_copies;
std::vector<std::function<void()>> staged_copies;  // Copies of cudaMemcpy that are not written yet.

// Fills the memory with NaN, so that missing zeroing is noticed.
cudaError_t Allocate(void** memory, size_t bytes) {
  if (bytes > kMemoryBytes - used_bytes) return last_error = cudaErrorMemoryAllocation;
  *memory = std::aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
  std::memset(*memory, 0xff, bytes);
  used_bytes += blocks[*memory] = bytes;
  return cudaSuccess;
}
cudaError_t Copy(void* to, const void* from, size_t bytes) {
  std::memcpy(to, from, bytes);
  return cudaSuccess;
}
bool IsPinned(const void* host) {
  return std::any_of(pinned.begin(), pinned.end(), [&](void* block) {
    return host >= block && host < static_cast<char*>(block) + blocks.at(block);
  });
}
cudaError_t Free(void* memory) {
  pinned.erase(memory);
  used_bytes -= blocks.extract(memory).mapped();
  std::free(memory);
  return cudaSuccess;
}
cudaError_t NothingToDo() { return cudaSuccess; }

}  // namespace

const char* cublasLtGetStatusString(cublasStatus_t) { return "an error on the host"; }
const char* cudnnGetErrorString(cudnnStatus_t) { return "an error on the host"; }
void cudnnGetLastErrorString(char* text, size_t) { *text = '\0'; }
const char* cudaGetErrorString(cudaError_t) { return "an error on the host"; }
const char* cudaGetErrorName(cudaError_t) { return "cudaErrorOnHost"; }
cudaError_t cudaGetLastError() { return std::exchange(last_error, cudaSuccess); }
cudaError_t cudaDeviceSynchronize() {
  for (const auto& copy : std::exchange(staged_copies, {})) copy();
  return cudaSuccess;
}
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes*, const void*) { return NothingToDo(); }

cudaError_t cudaMalloc(void** memory, size_t bytes) { return Allocate(memory, bytes); }
cudaError_t cudaMallocHost(void** memory, size_t bytes) {
  const cudaError_t error = Allocate(memory, bytes);
  if (error == cudaSuccess) pinned.insert(*memory);
  return error;
}
cudaError_t cudaFree(void* memory) { return Free(memory); }
cudaError_t cudaFreeHost(void* memory) { return Free(memory); }
cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  *total = kMemoryBytes;
  *free = kMemoryBytes - used_bytes;
  return cudaSuccess;
}
cudaError_t cudaMemset(void* memory, int value, size_t bytes) {
  std::memset(memory, value, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  if (kind != cudaMemcpyHostToDevice || IsPinned(from)) return Copy(to, from, bytes);
  const auto* begin = static_cast<const char*>(from);
  staged_copies.push_back(
      [to, staged = std::vector<char>(begin, begin + bytes)] { Copy(to, staged.data(), staged.size()); });
  return cudaSuccess;
}
cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                              size_t height, cudaMemcpyKind, cudaStream_t) {
  for (size_t row = 0; row < height; ++row) {
    std::memcpy(static_cast<char*>(to) + row * to_pitch, static_cast<const char*>(from) + row * from_pitch,
                width);
  }
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t) {
  if (!reads_pageable_memory || kind != cudaMemcpyHostToDevice || IsPinned(from))
    return Copy(to, from, bytes);
  late_copies.push_back([=] { Copy(to, from, bytes); });
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t) {
  std::memset(to, value, bytes);
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr, int) {
  *value = reads_pageable_memory;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* memory) {
  *attributes = {};
  attributes->type = IsPinned(memory) ? cudaMemoryTypeHost : cudaMemoryTypeUnregistered;
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = nullptr;
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t) { return NothingToDo(); }
cudaError_t cudaStreamSynchronize(cudaStream_t) {
  for (const auto& copy : std::exchange(late_copies, {})) copy();
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned) { return NothingToDo(); }
cudaError_t cudaStreamIsCapturing(cudaStream_t, cudaStreamCaptureStatus* status) {
  *status = cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = nullptr;
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t) { return NothingToDo(); }
cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t) { return NothingToDo(); }
cudaError_t cudaEventRecordWithFlags(cudaEvent_t, cudaStream_t, unsigned) { return NothingToDo(); }
cudaError_t cudaEventQuery(cudaEvent_t) { return NothingToDo(); }
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t, cudaEvent_t) {
  *milliseconds = 0;
  return cudaSuccess;
}

namespace tethys::cuda {

void SetReadsPageableMemory(bool reads) { reads_pageable_memory = reads; }

}  // namespace tethys::cuda
