// The CPU device. A call completes its work before it returns, so streams and events never wait.
#include <oneapi/dnnl/dnnl.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "runtime/base/thread.h"
#include "runtime/device/cpu/primitives.h"
#include "runtime/device/device.h"
#include "runtime/device/input_scaling.h"
#include "runtime/tensor/arena.h"

namespace tethys {
namespace {

constexpr int kMaxThreads = 1024;
constexpr int64_t kMaxBytes = int64_t{1} << 40;

class CpuStream final : public Stream {
 public:
  absl::Status Synchronize() override { return absl::OkStatus(); }
};

class CpuEvent final : public Event {
 public:
  absl::Status Record(Stream&) override { return absl::OkStatus(); }
  absl::Status Wait(Stream&) const override { return absl::OkStatus(); }
  absl::StatusOr<bool> Happened() const override { return true; }
};

class CpuTimedEvent final : public TimedEvent {
 public:
  absl::Status Record(Stream&) override {
    recorded_ns_ = MonotonicClock().Now();
    return absl::OkStatus();
  }
  absl::Status Wait(Stream&) const override { return absl::OkStatus(); }
  absl::StatusOr<bool> Happened() const override { return true; }
  absl::StatusOr<Nanoseconds> Since(const TimedEvent& earlier) const override {
    return recorded_ns_ - static_cast<const CpuTimedEvent&>(earlier).recorded_ns_;
  }

 private:
  Nanoseconds recorded_ns_ = 0;
};

class CpuBuffer final : public Buffer {
 public:
  CpuBuffer(int64_t bytes, Arena arena) : bytes_(bytes), arena_(std::move(arena)) {}
  void* data() override { return arena_.data(); }
  int64_t bytes() const override { return bytes_; }

 private:
  const int64_t bytes_;
  Arena arena_;
};

class CpuDevice final : public Device {
 public:
  CpuDevice(int threads, const cpu::Kernels& kernels) : context_{.threads = threads, .kernels = kernels} {}

  std::string Describe() const override {
    const dnnl_version_t& version = *dnnl_version();
    return absl::StrCat("cpu, oneDNN ", version.major, ".", version.minor, ".", version.patch, ", ",
                        context_.kernels.instruction_set, ", ", context_.threads,
                        context_.threads == 1 ? " thread" : " threads");
  }

  bool reads_host_memory() const override { return true; }

  absl::StatusOr<std::unique_ptr<Buffer>> Allocate(int64_t bytes, MemoryKind) override {
    if (bytes < 0 || bytes > kMaxBytes) {
      return absl::InvalidArgumentError(absl::StrCat(
          "a buffer of ", bytes, " bytes was requested; a buffer must have 0 to ", kMaxBytes, " bytes"));
    }
    TETHYS_ASSIGN_OR_RETURN(
        Arena arena, Arena::Allocate((bytes + sizeof(float) - 1) / static_cast<int64_t>(sizeof(float))));
    return std::make_unique<CpuBuffer>(bytes, std::move(arena));
  }

  absl::StatusOr<std::unique_ptr<Stream>> CreateStream() override { return std::make_unique<CpuStream>(); }
  absl::StatusOr<std::unique_ptr<Event>> CreateEvent() override { return std::make_unique<CpuEvent>(); }
  absl::StatusOr<std::unique_ptr<TimedEvent>> CreateTimedEvent() override {
    return std::make_unique<CpuTimedEvent>();
  }

  absl::Status CopyToDevice(Stream&, void* device, const void* host, int64_t bytes) override {
    if (bytes > 0) std::memcpy(device, host, bytes);
    return absl::OkStatus();
  }
  absl::Status CopyToHost(Stream&, void* host, const void* device, int64_t bytes) override {
    if (bytes > 0) std::memcpy(host, device, bytes);
    return absl::OkStatus();
  }
  absl::Status CopyOnDevice(Stream&, void* to, const void* from, int64_t bytes) override {
    if (bytes > 0) std::memcpy(to, from, bytes);
    return absl::OkStatus();
  }

  absl::Status CopyColumns(Stream&, const ColumnCopy& copy) override {
    const auto* const from = static_cast<const char*>(copy.from);
    auto* const to = static_cast<char*>(copy.to);
    for (int64_t r = 0; r < copy.rows; ++r) {
      std::copy_n(from + r * copy.from_width, copy.columns, to + r * copy.to_width);
    }
    return absl::OkStatus();
  }

  absl::Status RoundToBfloat16(Stream&, const float* in, Bfloat16* out, int64_t count) override {
    context_.kernels.round_to_bfloat16(count, in, out);
    return absl::OkStatus();
  }
  absl::Status WidenBfloat16(Stream&, const Bfloat16* in, float* out, int64_t count) override {
    context_.kernels.widen_bfloat16(count, in, out);
    return absl::OkStatus();
  }

#define TETHYS_DEFINE_CREATE(Shape)                    \
  Created<Shape> Create(const Shape& shape) override { \
    TETHYS_RETURN_IF_ERROR(CheckShape(shape));         \
    return cpu::Create(shape, context_);               \
  }
  TETHYS_PRIMITIVES(TETHYS_DEFINE_CREATE)
#undef TETHYS_DEFINE_CREATE

  absl::StatusOr<std::unique_ptr<InputConversionPrimitive>> CreateInputConversion(
      int64_t count, const InputScaling& scaling) override {
    TETHYS_RETURN_IF_ERROR(CheckScaling(count, scaling));
    return cpu::CreateInputConversion(count, scaling, context_.kernels);
  }

  absl::StatusOr<std::unique_ptr<UpdatePrimitive>> CreateUpdate(const UpdateRule& rule,
                                                                std::vector<UpdateRegion> regions) override {
    TETHYS_RETURN_IF_ERROR(CheckRule(rule));
    return cpu::CreateUpdate(rule, std::move(regions), context_.threads, context_.kernels);
  }

  absl::StatusOr<std::unique_ptr<ClipPrimitive>> CreateClip(double limit,
                                                            std::vector<UpdateRegion> regions) override {
    if (!(limit > 0)) {
      return absl::InvalidArgumentError(
          absl::StrCat("gradients cannot be clipped to a norm of ", limit, "; the norm must be above 0"));
    }
    return cpu::CreateClip(limit, std::move(regions), context_.kernels);
  }

 private:
  const cpu::Context context_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Device>> CreateCpuDevice(int threads) {
  if (threads < 1 || threads > kMaxThreads) {
    return absl::InvalidArgumentError(
        absl::StrCat("device.threads_per_rank is ", threads, "; it must be in [1, ", kMaxThreads, "]"));
  }
  if (threads > 1 && dnnl_version()->cpu_runtime != DNNL_RUNTIME_OMP) {
    return absl::FailedPreconditionError(absl::StrCat(
        "device.threads_per_rank is ", threads, ", but this oneDNN was not built on OpenMP: set it to 1"));
  }
  // Checks in advance that the threads can be started, because the OpenMP runtime ends the process if it
  // cannot start a thread.
  TETHYS_RETURN_IF_ERROR(CheckThreads(threads - 1));
  return std::make_unique<CpuDevice>(threads, cpu::SelectKernels());
}

}  // namespace tethys
