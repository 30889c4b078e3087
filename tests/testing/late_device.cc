#include "tests/testing/late_device.h"

#include <cstring>
#include <map>
#include <utility>
#include <vector>

#include "tests/testing/late_stream.h"

namespace tethys::testing {
namespace {

class LateDense final : public DensePrimitive {
 public:
  LateDense(std::unique_ptr<DensePrimitive> now, Stream& cpu) : now_(std::move(now)), cpu_(cpu) {}
  absl::Status Forward(Stream& stream, const void* x, const float* weights, const float* bias,
                       void* y) override {
    Late(stream).Enqueue([=, this] { return now_->Forward(cpu_, x, weights, bias, y); });
    return absl::OkStatus();
  }
  absl::Status Backward(Stream& stream, const void* x, const float* weights, const void* y, void* dy,
                        void* dx, float* dweights, float* dbias) override {
    Late(stream).Enqueue([=, this] { return now_->Backward(cpu_, x, weights, y, dy, dx, dweights, dbias); });
    return absl::OkStatus();
  }
  std::string Describe() const override { return now_->Describe(); }

 private:
  const std::unique_ptr<DensePrimitive> now_;
  Stream& cpu_;
};

class LateConvolution final : public ConvolutionPrimitive {
 public:
  LateConvolution(std::unique_ptr<ConvolutionPrimitive> now, Stream& cpu) : now_(std::move(now)), cpu_(cpu) {}
  absl::Status Forward(Stream& stream, const void* x, const float* filters, const float* bias,
                       void* y) override {
    Late(stream).Enqueue([=, this] { return now_->Forward(cpu_, x, filters, bias, y); });
    return absl::OkStatus();
  }
  absl::Status Backward(Stream& stream, const void* x, const float* filters, const void* y, void* dy,
                        void* dx, float* dfilters, float* dbias) override {
    Late(stream).Enqueue([=, this] { return now_->Backward(cpu_, x, filters, y, dy, dx, dfilters, dbias); });
    return absl::OkStatus();
  }
  absl::Status DataGradient(Stream& stream, const float* filters, const void* dy, void* dx) override {
    Late(stream).Enqueue([=, this] { return now_->DataGradient(cpu_, filters, dy, dx); });
    return absl::OkStatus();
  }
  absl::Status FilterGradient(Stream& stream, const void* x, const void* dy, float* dfilters,
                              float* dbias) override {
    Late(stream).Enqueue([=, this] { return now_->FilterGradient(cpu_, x, dy, dfilters, dbias); });
    return absl::OkStatus();
  }
  int64_t workspace_bytes() const override { return now_->workspace_bytes(); }
  std::string Describe() const override { return now_->Describe(); }

 private:
  const std::unique_ptr<ConvolutionPrimitive> now_;
  Stream& cpu_;
};

class LateMaxPooling final : public MaxPoolingPrimitive {
 public:
  LateMaxPooling(std::unique_ptr<MaxPoolingPrimitive> now, Stream& cpu) : now_(std::move(now)), cpu_(cpu) {}
  absl::Status Forward(Stream& stream, const void* x, void* y) override {
    Late(stream).Enqueue([=, this] { return now_->Forward(cpu_, x, y); });
    return absl::OkStatus();
  }
  absl::Status Backward(Stream& stream, const void* x, const void* y, const void* dy, void* dx) override {
    Late(stream).Enqueue([=, this] { return now_->Backward(cpu_, x, y, dy, dx); });
    return absl::OkStatus();
  }
  int64_t workspace_bytes() const override { return now_->workspace_bytes(); }

 private:
  const std::unique_ptr<MaxPoolingPrimitive> now_;
  Stream& cpu_;
};

class LateAveragePooling final : public AveragePoolingPrimitive {
 public:
  LateAveragePooling(std::unique_ptr<AveragePoolingPrimitive> now, Stream& cpu)
      : now_(std::move(now)), cpu_(cpu) {}
  absl::Status Forward(Stream& stream, const void* x, void* y) override {
    Late(stream).Enqueue([=, this] { return now_->Forward(cpu_, x, y); });
    return absl::OkStatus();
  }
  absl::Status Backward(Stream& stream, const void* dy, void* dx) override {
    Late(stream).Enqueue([=, this] { return now_->Backward(cpu_, dy, dx); });
    return absl::OkStatus();
  }

 private:
  const std::unique_ptr<AveragePoolingPrimitive> now_;
  Stream& cpu_;
};

class LateBatchNormalisation final : public BatchNormalisationPrimitive {
 public:
  LateBatchNormalisation(std::unique_ptr<BatchNormalisationPrimitive> now, Stream& cpu)
      : now_(std::move(now)), cpu_(cpu) {}
  absl::Status Forward(Stream& stream, const void* x, const float* weights, const ScaleAndOffset& variables,
                       void* y) override {
    Late(stream).Enqueue([=, this] { return now_->Forward(cpu_, x, weights, variables, y); });
    return absl::OkStatus();
  }
  absl::Status Repeat(Stream& stream, const void* x, const ScaleAndOffset& variables, void* y) override {
    Late(stream).Enqueue([=, this] { return now_->Repeat(cpu_, x, variables, y); });
    return absl::OkStatus();
  }
  absl::Status Backward(Stream& stream, const void* x, const ScaleAndOffset& variables, const void* dy,
                        void* dx, float* dscale, float* doffset) override {
    Late(stream).Enqueue([=, this] { return now_->Backward(cpu_, x, variables, dy, dx, dscale, doffset); });
    return absl::OkStatus();
  }
  absl::Status Infer(Stream& stream, const void* x, const float* mean, const float* variance,
                     const ScaleAndOffset& variables, void* y) override {
    Late(stream).Enqueue([=, this] { return now_->Infer(cpu_, x, mean, variance, variables, y); });
    return absl::OkStatus();
  }
  absl::Status UpdateMovingStatistics(Stream& stream, const float* share, const int32_t* refused, float* mean,
                                      float* variance) override {
    Late(stream).Enqueue(
        [=, this] { return now_->UpdateMovingStatistics(cpu_, share, refused, mean, variance); });
    return absl::OkStatus();
  }
  int64_t workspace_bytes() const override { return now_->workspace_bytes(); }

 private:
  const std::unique_ptr<BatchNormalisationPrimitive> now_;
  Stream& cpu_;
};

class LateDropout final : public DropoutPrimitive {
 public:
  LateDropout(std::unique_ptr<DropoutPrimitive> now, Stream& cpu) : now_(std::move(now)), cpu_(cpu) {}
  absl::Status Run(Stream& stream, const uint64_t* first_row, const void* in, void* out) override {
    Late(stream).Enqueue([=, this] { return now_->Run(cpu_, first_row, in, out); });
    return absl::OkStatus();
  }

 private:
  const std::unique_ptr<DropoutPrimitive> now_;
  Stream& cpu_;
};

class LateBias final : public BiasPrimitive {
 public:
  LateBias(std::unique_ptr<BiasPrimitive> now, Stream& cpu) : now_(std::move(now)), cpu_(cpu) {}
  absl::Status Forward(Stream& stream, const float* bias, void* y) override {
    Late(stream).Enqueue([=, this] { return now_->Forward(cpu_, bias, y); });
    return absl::OkStatus();
  }
  absl::Status Backward(Stream& stream, const void* dy, float* dbias) override {
    Late(stream).Enqueue([=, this] { return now_->Backward(cpu_, dy, dbias); });
    return absl::OkStatus();
  }

 private:
  const std::unique_ptr<BiasPrimitive> now_;
  Stream& cpu_;
};

class LateSum final : public SumPrimitive {
 public:
  LateSum(std::unique_ptr<SumPrimitive> now, Stream& cpu) : now_(std::move(now)), cpu_(cpu) {}
  absl::Status Run(Stream& stream, const void* a, const void* b, void* sum) override {
    Late(stream).Enqueue([=, this] { return now_->Run(cpu_, a, b, sum); });
    return absl::OkStatus();
  }

 private:
  const std::unique_ptr<SumPrimitive> now_;
  Stream& cpu_;
};

class LateActivation final : public ActivationPrimitive {
 public:
  LateActivation(std::unique_ptr<ActivationPrimitive> now, Stream& cpu) : now_(std::move(now)), cpu_(cpu) {}
  absl::Status Forward(Stream& stream, const void* x, void* y) override {
    Late(stream).Enqueue([=, this] { return now_->Forward(cpu_, x, y); });
    return absl::OkStatus();
  }
  absl::Status Backward(Stream& stream, const void* y, const void* dy, void* dx) override {
    Late(stream).Enqueue([=, this] { return now_->Backward(cpu_, y, dy, dx); });
    return absl::OkStatus();
  }

 private:
  const std::unique_ptr<ActivationPrimitive> now_;
  Stream& cpu_;
};

class LateLoss final : public LossPrimitive {
 public:
  LateLoss(std::unique_ptr<LossPrimitive> now, Stream& cpu) : now_(std::move(now)), cpu_(cpu) {}
  absl::Status Run(Stream& stream, const LossTensors& tensors) override {
    Late(stream).Enqueue([=, this] { return now_->Run(cpu_, tensors); });
    return absl::OkStatus();
  }

 private:
  const std::unique_ptr<LossPrimitive> now_;
  Stream& cpu_;
};

class LateInputConversion final : public InputConversionPrimitive {
 public:
  LateInputConversion(std::unique_ptr<InputConversionPrimitive> now, Stream& cpu)
      : now_(std::move(now)), cpu_(cpu) {}
  absl::Status Run(Stream& stream, const void* in, void* out) override {
    Late(stream).Enqueue([=, this] { return now_->Run(cpu_, in, out); });
    return absl::OkStatus();
  }

 private:
  const std::unique_ptr<InputConversionPrimitive> now_;
  Stream& cpu_;
};

class LateClip final : public ClipPrimitive {
 public:
  LateClip(std::unique_ptr<ClipPrimitive> now, Stream& cpu) : now_(std::move(now)), cpu_(cpu) {}
  absl::Status Run(Stream& stream, const float* gradient_sums, UpdateRates* rates) override {
    Late(stream).Enqueue([=, this] { return now_->Run(cpu_, gradient_sums, rates); });
    return absl::OkStatus();
  }

 private:
  const std::unique_ptr<ClipPrimitive> now_;
  Stream& cpu_;
};

class LateUpdate final : public UpdatePrimitive {
 public:
  LateUpdate(std::unique_ptr<UpdatePrimitive> now, Stream& cpu) : now_(std::move(now)), cpu_(cpu) {}
  absl::Status Run(Stream& stream, const UpdateStep& step, float* parameters, const float* gradient_sums,
                   absl::Span<float* const> slots, int32_t* bad) override {
    Late(stream).Enqueue([=, this, slots = std::vector<float*>(slots.begin(), slots.end())] {
      return now_->Run(cpu_, step, parameters, gradient_sums, slots, bad);
    });
    return absl::OkStatus();
  }

 private:
  const std::unique_ptr<UpdatePrimitive> now_;
  Stream& cpu_;
};

// The pinned buffers of a device: address and size in bytes.
using PinnedBuffers = std::map<const char*, int64_t>;

class LatePinnedBuffer final : public Buffer {
 public:
  LatePinnedBuffer(std::unique_ptr<Buffer> memory, std::shared_ptr<PinnedBuffers> all)
      : memory_(std::move(memory)), all_(std::move(all)) {
    (*all_)[begin()] = memory_->bytes();
  }
  ~LatePinnedBuffer() override { all_->erase(begin()); }
  void* data() override { return memory_->data(); }
  int64_t bytes() const override { return memory_->bytes(); }

 private:
  const char* begin() { return static_cast<const char*>(memory_->data()); }

  const std::unique_ptr<Buffer> memory_;
  const std::shared_ptr<PinnedBuffers> all_;
};

class LateDevice final : public Device {
 public:
  explicit LateDevice(LateDeviceOptions options)
      : options_(options), cpu_(CreateCpuDevice(1).value()), cpu_stream_(cpu_->CreateStream().value()) {}

  std::string Describe() const override { return "a late device"; }
  bool reads_host_memory() const override { return false; }
  absl::StatusOr<absl::optional<int64_t>> FreeMemory() override {
    return absl::optional<int64_t>(free_bytes_);
  }

  std::string identity() const override { return options_.identity; }
  absl::StatusOr<std::string> NewGroupId() override {
    return absl::StrCat("group ", ++groups_, " of ", options_.identity);
  }
  absl::StatusOr<std::unique_ptr<StreamCommunicator>> JoinGroup(const StreamGroup& group) override {
    return options_.join(group);
  }

  bool captures() const override { return true; }
  int live_graphs() const { return *live_graphs_; }
  absl::StatusOr<std::unique_ptr<Graph>> Capture(Stream& stream,
                                                 absl::FunctionRef<absl::Status()> work) override {
    capturing_ = true;
    auto graph = CaptureLate(Late(stream), work, time_, live_graphs_);
    capturing_ = false;
    return graph;
  }

  absl::StatusOr<std::unique_ptr<Buffer>> Allocate(int64_t bytes, MemoryKind kind) override {
    if (capturing_) return absl::FailedPreconditionError("memory was allocated while a graph was captured");
    TETHYS_ASSIGN_OR_RETURN(std::unique_ptr<Buffer> buffer, cpu_->Allocate(bytes, kind));
    if (kind == MemoryKind::kDevice) free_bytes_ -= bytes;
    if (kind == MemoryKind::kPinnedHost) {
      return std::make_unique<LatePinnedBuffer>(std::move(buffer), pinned_);
    }
    return buffer;
  }
  absl::StatusOr<std::unique_ptr<Stream>> CreateStream() override {
    return std::make_unique<LateStream>(time_);
  }
  absl::StatusOr<std::unique_ptr<Event>> CreateEvent() override {
    return std::make_unique<LateEvent>(/*timed=*/false, options_.hangs);
  }
  absl::StatusOr<std::unique_ptr<TimedEvent>> CreateTimedEvent() override {
    return std::make_unique<LateEvent>(/*timed=*/true, options_.hangs);
  }

  absl::Status CopyToDevice(Stream& stream, void* device, const void* host, int64_t bytes) override {
    if (IsPinned(host)) {
      Late(stream).Enqueue([=] { return Copy(device, host, bytes); });
      return absl::OkStatus();
    }
    TETHYS_RETURN_IF_ERROR(CheckUncaptured(stream));
    const auto* begin = static_cast<const char*>(host);
    Late(stream).Enqueue([device, bytes, read = std::vector<char>(begin, begin + bytes)] {
      return Copy(device, read.data(), bytes);
    });
    return absl::OkStatus();
  }
  absl::Status CopyToHost(Stream& stream, void* host, const void* device, int64_t bytes) override {
    if (!IsPinned(host)) TETHYS_RETURN_IF_ERROR(CheckUncaptured(stream));
    Late(stream).Enqueue([=] { return Copy(host, device, bytes); });
    return absl::OkStatus();
  }
  absl::Status CopyOnDevice(Stream& stream, void* to, const void* from, int64_t bytes) override {
    Late(stream).Enqueue([=] { return Copy(to, from, bytes); });
    return absl::OkStatus();
  }

  absl::Status CopyColumns(Stream& stream, const ColumnCopy& copy) override {
    Late(stream).Enqueue([=, this] { return cpu_->CopyColumns(*cpu_stream_, copy); });
    return absl::OkStatus();
  }

  absl::Status RoundToBfloat16(Stream& stream, const float* in, Bfloat16* out, int64_t count) override {
    Late(stream).Enqueue([=, this] { return cpu_->RoundToBfloat16(*cpu_stream_, in, out, count); });
    return absl::OkStatus();
  }
  absl::Status WidenBfloat16(Stream& stream, const Bfloat16* in, float* out, int64_t count) override {
    Late(stream).Enqueue([=, this] { return cpu_->WidenBfloat16(*cpu_stream_, in, out, count); });
    return absl::OkStatus();
  }

  void BeginRange(const char* name, int64_t number) override {
    if (options_.ranges != nullptr) options_.ranges->push_back(absl::StrCat(name, " ", number));
  }
  void EndRange() override {
    if (options_.ranges != nullptr) options_.ranges->emplace_back();
  }

  Created<DenseShape> Create(const DenseShape& shape) override {
    TETHYS_ASSIGN_OR_RETURN(auto now, cpu_->Create(shape));
    return std::make_unique<LateDense>(std::move(now), *cpu_stream_);
  }
  Created<ConvolutionShape> Create(const ConvolutionShape& shape) override {
    TETHYS_ASSIGN_OR_RETURN(auto now, cpu_->Create(shape));
    return std::make_unique<LateConvolution>(std::move(now), *cpu_stream_);
  }
  Created<MaxPoolingShape> Create(const MaxPoolingShape& shape) override {
    TETHYS_ASSIGN_OR_RETURN(auto now, cpu_->Create(shape));
    return std::make_unique<LateMaxPooling>(std::move(now), *cpu_stream_);
  }
  Created<AveragePoolingShape> Create(const AveragePoolingShape& shape) override {
    TETHYS_ASSIGN_OR_RETURN(auto now, cpu_->Create(shape));
    return std::make_unique<LateAveragePooling>(std::move(now), *cpu_stream_);
  }
  Created<BatchNormalisationShape> Create(const BatchNormalisationShape& shape) override {
    // A CPU primitive needs the sums of other workers while it runs, but a late device can only enqueue them.
    if (shape.sums != nullptr) return absl::UnimplementedError("late devices sum nothing over workers");
    TETHYS_ASSIGN_OR_RETURN(auto now, cpu_->Create(shape));
    return std::make_unique<LateBatchNormalisation>(std::move(now), *cpu_stream_);
  }
  Created<DropoutShape> Create(const DropoutShape& shape) override {
    TETHYS_ASSIGN_OR_RETURN(auto now, cpu_->Create(shape));
    return std::make_unique<LateDropout>(std::move(now), *cpu_stream_);
  }
  Created<SumShape> Create(const SumShape& shape) override {
    TETHYS_ASSIGN_OR_RETURN(auto now, cpu_->Create(shape));
    return std::make_unique<LateSum>(std::move(now), *cpu_stream_);
  }
  Created<ActivationShape> Create(const ActivationShape& shape) override {
    TETHYS_ASSIGN_OR_RETURN(auto now, cpu_->Create(shape));
    return std::make_unique<LateActivation>(std::move(now), *cpu_stream_);
  }
  Created<BiasShape> Create(const BiasShape& shape) override {
    TETHYS_ASSIGN_OR_RETURN(auto now, cpu_->Create(shape));
    return std::make_unique<LateBias>(std::move(now), *cpu_stream_);
  }
  Created<SoftmaxCrossEntropyShape> Create(const SoftmaxCrossEntropyShape& shape) override {
    TETHYS_ASSIGN_OR_RETURN(auto now, cpu_->Create(shape));
    return std::make_unique<LateLoss>(std::move(now), *cpu_stream_);
  }
  Created<MeanSquaredErrorShape> Create(const MeanSquaredErrorShape& shape) override {
    TETHYS_ASSIGN_OR_RETURN(auto now, cpu_->Create(shape));
    return std::make_unique<LateLoss>(std::move(now), *cpu_stream_);
  }
  absl::StatusOr<std::unique_ptr<InputConversionPrimitive>> CreateInputConversion(
      int64_t count, const InputScaling& scaling) override {
    TETHYS_ASSIGN_OR_RETURN(auto now, cpu_->CreateInputConversion(count, scaling));
    return std::make_unique<LateInputConversion>(std::move(now), *cpu_stream_);
  }
  absl::StatusOr<std::unique_ptr<UpdatePrimitive>> CreateUpdate(const UpdateRule& rule,
                                                                std::vector<UpdateRegion> regions) override {
    TETHYS_ASSIGN_OR_RETURN(auto now, cpu_->CreateUpdate(rule, std::move(regions)));
    return std::make_unique<LateUpdate>(std::move(now), *cpu_stream_);
  }
  absl::StatusOr<std::unique_ptr<ClipPrimitive>> CreateClip(double limit,
                                                            std::vector<UpdateRegion> regions) override {
    TETHYS_ASSIGN_OR_RETURN(auto now, cpu_->CreateClip(limit, std::move(regions)));
    return std::make_unique<LateClip>(std::move(now), *cpu_stream_);
  }

 private:
  static absl::Status Copy(void* to, const void* from, int64_t bytes) {
    if (bytes > 0) std::memcpy(to, from, static_cast<size_t>(bytes));
    return absl::OkStatus();
  }

  static absl::Status CheckUncaptured(Stream& stream) {
    if (Late(stream).capture() == nullptr) return absl::OkStatus();
    return absl::FailedPreconditionError("a copy of pageable memory was captured");
  }

  bool IsPinned(const void* host) const {
    const auto* at = static_cast<const char*>(host);
    const auto next = pinned_->upper_bound(at);
    return next != pinned_->begin() && at < std::prev(next)->first + std::prev(next)->second;
  }

  const LateDeviceOptions options_;
  const std::unique_ptr<Device> cpu_;
  const std::unique_ptr<Stream> cpu_stream_;
  const std::shared_ptr<Nanoseconds> time_ = std::make_shared<Nanoseconds>(0);
  const std::shared_ptr<PinnedBuffers> pinned_ = std::make_shared<PinnedBuffers>();
  int64_t free_bytes_ = options_.memory_bytes;
  int groups_ = 0;  // The number of ids that NewGroupId has returned.
  bool capturing_ = false;
  const std::shared_ptr<int> live_graphs_ = std::make_shared<int>(0);
};

}  // namespace

void EnqueueWork(Stream& stream, std::function<absl::Status()> work) {
  Late(stream).Enqueue(std::move(work));
}

void EnqueueWaitingWork(Stream& stream, std::function<absl::StatusOr<bool>()> work) {
  Late(stream).EnqueueWaiting(std::move(work));
}

int LiveGraphs(const Device& device) { return static_cast<const LateDevice&>(device).live_graphs(); }

std::unique_ptr<Device> CreateLateDevice(LateDeviceOptions options) {
  return std::make_unique<LateDevice>(options);
}

}  // namespace tethys::testing
