// The CPU device. A call completes its work before it returns, so streams and events never wait.
#include <oneapi/dnnl/dnnl.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "runtime/device/cpu/primitives.h"
#include "runtime/device/device.h"
#include "runtime/device/input_scaling.h"
#include "runtime/tensor/arena.h"

namespace tethys {
namespace {

constexpr int kMaxThreads = 1024;
constexpr int64_t kMaxBytes = int64_t{1} << 40;
constexpr int64_t kMaxAxis = int64_t{1} << 31;  // Largest axis; the product of two fits into an int64_t.

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
  CpuDevice(int threads, const cpu::Kernels& kernels) : threads_(threads), kernels_(kernels) {}

  std::string Describe() const override {
    const dnnl_version_t& version = *dnnl_version();
    return absl::StrCat("cpu, oneDNN ", version.major, ".", version.minor, ".", version.patch, ", ",
                        kernels_.instruction_set, ", ", threads_, threads_ == 1 ? " thread" : " threads");
  }

  bool reads_host_memory() const override { return true; }

  absl::StatusOr<std::unique_ptr<Buffer>> Allocate(int64_t bytes, MemoryKind) override {
    if (bytes < 0 || bytes > kMaxBytes) {
      return absl::InvalidArgumentError(
          absl::StrCat("a buffer of ", bytes, " bytes was requested; it must have 0 to ", kMaxBytes));
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
    kernels_.round_to_bfloat16(count, in, out);
    return absl::OkStatus();
  }
  absl::Status WidenBfloat16(Stream&, const Bfloat16* in, float* out, int64_t count) override {
    kernels_.widen_bfloat16(count, in, out);
    return absl::OkStatus();
  }

  absl::StatusOr<std::unique_ptr<DensePrimitive>> CreateDense(const DenseShape& shape) override {
    TETHYS_RETURN_IF_ERROR(CheckAxis("rows of a dense layer", shape.rows));
    TETHYS_RETURN_IF_ERROR(CheckAxis("inputs of a dense layer", shape.in));
    TETHYS_RETURN_IF_ERROR(CheckAxis("outputs of a dense layer", shape.out));
    return cpu::CreateDense(shape, threads_, kernels_);
  }

  absl::StatusOr<std::unique_ptr<ConvolutionPrimitive>> CreateConvolution(
      const ConvolutionShape& shape) override {
    TETHYS_RETURN_IF_ERROR(CheckImages("a convolution", shape.rows, shape.in, shape.window));
    TETHYS_RETURN_IF_ERROR(CheckAxis("filters of a convolution", shape.out));
    TETHYS_RETURN_IF_ERROR(CheckGroups(shape));
    return cpu::CreateConvolution(shape, threads_, kernels_, scratch_);
  }
  absl::StatusOr<std::unique_ptr<MaxPoolingPrimitive>> CreateMaxPooling(
      const MaxPoolingShape& shape) override {
    TETHYS_RETURN_IF_ERROR(CheckImages("max pooling", shape.rows, shape.in, shape.window));
    TETHYS_RETURN_IF_ERROR(CheckUndilated(shape.window));
    return cpu::CreateMaxPooling(shape, kernels_);
  }

  absl::StatusOr<std::unique_ptr<AveragePoolingPrimitive>> CreateAveragePooling(
      const AveragePoolingShape& shape) override {
    TETHYS_RETURN_IF_ERROR(CheckImages("average pooling", shape.rows, shape.in, shape.window));
    TETHYS_RETURN_IF_ERROR(CheckUndilated(shape.window));
    return cpu::CreateAveragePooling(shape, kernels_);
  }
  absl::StatusOr<std::unique_ptr<BatchNormalisationPrimitive>> CreateBatchNormalisation(
      const BatchNormalisationShape& shape, WorkerSums* sums) override {
    TETHYS_RETURN_IF_ERROR(CheckShape(shape, sums));
    return cpu::CreateBatchNormalisation(shape, sums, kernels_);
  }
  absl::StatusOr<std::unique_ptr<SumPrimitive>> CreateSum(const SumShape& shape) override {
    TETHYS_RETURN_IF_ERROR(CheckShape(shape, activation_type()));
    return cpu::CreateSum(shape, kernels_);
  }
  absl::StatusOr<std::unique_ptr<BiasPrimitive>> CreateBias(int64_t rows, int64_t columns) override {
    TETHYS_RETURN_IF_ERROR(CheckAxis("rows of a bias", rows));
    TETHYS_RETURN_IF_ERROR(CheckAxis("columns of a bias", columns));
    return cpu::CreateBias(rows, columns);
  }
  absl::StatusOr<std::unique_ptr<ActivationPrimitive>> CreateActivation(
      int64_t count, ActivationFunction function) override {
    TETHYS_RETURN_IF_ERROR(CheckCount(count));
    return cpu::CreateActivation(count, function, kernels_);
  }
  absl::StatusOr<std::unique_ptr<DropoutPrimitive>> CreateDropout(const DropoutShape& shape) override {
    TETHYS_RETURN_IF_ERROR(CheckShape(shape));
    return cpu::CreateDropout(shape, kernels_);
  }

  absl::StatusOr<std::unique_ptr<LossPrimitive>> CreateSoftmaxCrossEntropy(
      const SoftmaxCrossEntropyShape& shape) override {
    TETHYS_RETURN_IF_ERROR(CheckShape(shape));
    return cpu::CreateSoftmaxCrossEntropy(shape, kernels_);
  }
  absl::StatusOr<std::unique_ptr<LossPrimitive>> CreateMeanSquaredError(
      const MeanSquaredErrorShape& shape) override {
    TETHYS_RETURN_IF_ERROR(CheckShape(shape));
    return cpu::CreateMeanSquaredError(shape);
  }

  absl::StatusOr<std::unique_ptr<InputConversionPrimitive>> CreateInputConversion(
      int64_t count, const InputScaling& scaling) override {
    TETHYS_RETURN_IF_ERROR(CheckScaling(count, scaling));
    return cpu::CreateInputConversion(count, scaling, kernels_);
  }

  absl::StatusOr<std::unique_ptr<UpdatePrimitive>> CreateUpdate(const UpdateRule& rule,
                                                                std::vector<UpdateRegion> regions) override {
    TETHYS_RETURN_IF_ERROR(CheckRule(rule));
    return cpu::CreateUpdate(rule, std::move(regions), kernels_);
  }

  absl::StatusOr<std::unique_ptr<ClipPrimitive>> CreateClip(double limit,
                                                            std::vector<UpdateRegion> regions) override {
    if (!(limit > 0)) {
      return absl::InvalidArgumentError(absl::StrCat("gradients cannot be clipped to a norm of ", limit));
    }
    return cpu::CreateClip(limit, std::move(regions), kernels_);
  }

 private:
  static absl::Status CheckAxis(absl::string_view what, int64_t size) {
    if (size >= 1 && size <= kMaxAxis) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(what, ": ", size, " is not in [1, ", kMaxAxis, "]"));
  }

  static absl::Status CheckImages(absl::string_view what, int64_t rows, const ImageShape& in,
                                  const Window& window) {
    TETHYS_RETURN_IF_ERROR(CheckAxis(absl::StrCat("rows of ", what), rows));
    TETHYS_RETURN_IF_ERROR(CheckAxis(absl::StrCat("channels of ", what), in.channels));
    TETHYS_RETURN_IF_ERROR(CheckWindow(absl::StrCat("height of ", what), in.height, window.height));
    return CheckWindow(absl::StrCat("width of ", what), in.width, window.width);
  }
  static absl::Status CheckWindow(absl::string_view what, int64_t in, const Window::Axis& axis) {
    TETHYS_RETURN_IF_ERROR(CheckAxis(what, in));
    TETHYS_RETURN_IF_ERROR(CheckAxis(absl::StrCat("window, ", what), axis.size));
    TETHYS_RETURN_IF_ERROR(CheckAxis(absl::StrCat("stride, ", what), axis.stride));
    TETHYS_RETURN_IF_ERROR(CheckAxis(absl::StrCat("dilation, ", what), axis.dilation));
    const int64_t extent = axis.extent();
    const bool padding_fits =
        axis.before >= 0 && axis.before < extent && axis.after >= 0 && axis.after < extent;
    if (padding_fits && extent <= in + axis.before + axis.after) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(what, ": a window over ", extent, " does not fit into ",
                                                   in, " padded by ", axis.before, " and ", axis.after,
                                                   "; padding must be in [0, ", extent, ")"));
  }

  const int threads_;
  const cpu::Kernels& kernels_;
  const std::shared_ptr<cpu::Scratch> scratch_ = std::make_shared<cpu::Scratch>();
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
  return std::make_unique<CpuDevice>(threads, cpu::SelectKernels());
}

}  // namespace tethys
