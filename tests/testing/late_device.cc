#include "tests/testing/late_device.h"

#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <utility>
#include <vector>

namespace tethys::testing {
namespace {

using Work = std::function<absl::Status()>;

// Work in order. The first error stays and is what Synchronize returns. Each piece of work takes the device
// kWorkTime, whatever else it does.
class LateStream final : public Stream {
 public:
  explicit LateStream(std::shared_ptr<Nanoseconds> time) : time_(std::move(time)) {}

  void Put(Work work) { work_.push_back(std::move(work)); }

  void RunOne() {
    if (work_.empty()) return;
    const Work work = std::move(work_.front());
    work_.pop_front();
    *time_ += kWorkTime;
    const absl::Status status = work();
    if (status_.ok()) status_ = status;
  }

  absl::Status Synchronize() override {
    while (!work_.empty()) RunOne();
    return status_;
  }

  Nanoseconds time() const { return *time_; }

 private:
  const std::shared_ptr<Nanoseconds> time_;
  std::deque<Work> work_;
  absl::Status status_;
};

LateStream& Late(Stream& stream) { return static_cast<LateStream&>(stream); }

class LateEvent final : public TimedEvent {
 public:
  explicit LateEvent(bool hangs) : hangs_(hangs) {}

  absl::Status Record(Stream& stream) override {
    point_ = std::make_shared<Point>(Point{&Late(stream)});
    Late(stream).Put([point = point_] {
      point->happened = true;
      point->time = point->stream->time();
      return absl::OkStatus();
    });
    return absl::OkStatus();
  }

  absl::Status Wait(Stream& stream) const override {
    if (point_ == nullptr) return absl::OkStatus();
    Late(stream).Put([point = point_] {
      while (!point->happened) point->stream->RunOne();
      return absl::OkStatus();
    });
    return absl::OkStatus();
  }

  // Each look lets one piece of work happen.
  absl::StatusOr<bool> Happened() const override {
    if (point_ == nullptr) return true;
    if (!point_->happened && !hangs_) point_->stream->RunOne();
    return point_->happened;
  }

  absl::StatusOr<Nanoseconds> Since(const TimedEvent& earlier) const override {
    const Point* begin = static_cast<const LateEvent&>(earlier).point_.get();
    if (begin == nullptr || point_ == nullptr || !begin->happened || !point_->happened) {
      return absl::FailedPreconditionError("an event was asked for its time before it happened");
    }
    return point_->time - begin->time;
  }

 private:
  struct Point {
    LateStream* stream = nullptr;
    bool happened = false;
    Nanoseconds time = 0;
  };
  const bool hangs_;
  std::shared_ptr<Point> point_;
};

class LateDense final : public DensePrimitive {
 public:
  LateDense(std::unique_ptr<DensePrimitive> now, Stream& cpu) : now_(std::move(now)), cpu_(cpu) {}
  absl::Status Forward(Stream& stream, const float* x, const float* weights, const float* bias,
                       float* y) override {
    Late(stream).Put([=, this] { return now_->Forward(cpu_, x, weights, bias, y); });
    return absl::OkStatus();
  }
  absl::Status Backward(Stream& stream, const float* x, const float* weights, const float* y, float* dy,
                        float* dx, float* dweights, float* dbias) override {
    Late(stream).Put([=, this] { return now_->Backward(cpu_, x, weights, y, dy, dx, dweights, dbias); });
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
  absl::Status Forward(Stream& stream, const float* x, const float* filters, const float* bias,
                       float* y) override {
    Late(stream).Put([=, this] { return now_->Forward(cpu_, x, filters, bias, y); });
    return absl::OkStatus();
  }
  absl::Status Backward(Stream& stream, const float* x, const float* filters, const float* y, float* dy,
                        float* dx, float* dfilters, float* dbias) override {
    Late(stream).Put([=, this] { return now_->Backward(cpu_, x, filters, y, dy, dx, dfilters, dbias); });
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
  absl::Status Forward(Stream& stream, const float* x, float* y) override {
    Late(stream).Put([=, this] { return now_->Forward(cpu_, x, y); });
    return absl::OkStatus();
  }
  absl::Status Backward(Stream& stream, const float* x, const float* y, const float* dy, float* dx) override {
    Late(stream).Put([=, this] { return now_->Backward(cpu_, x, y, dy, dx); });
    return absl::OkStatus();
  }
  int64_t workspace_bytes() const override { return now_->workspace_bytes(); }

 private:
  const std::unique_ptr<MaxPoolingPrimitive> now_;
  Stream& cpu_;
};

class LateSoftmaxCrossEntropy final : public SoftmaxCrossEntropyPrimitive {
 public:
  LateSoftmaxCrossEntropy(std::unique_ptr<SoftmaxCrossEntropyPrimitive> now, Stream& cpu)
      : now_(std::move(now)), cpu_(cpu) {}
  absl::Status Run(Stream& stream, const float* logits, const int32_t* labels, const float* weights,
                   float* dlogits, LossResult* result) override {
    Late(stream).Put([=, this] { return now_->Run(cpu_, logits, labels, weights, dlogits, result); });
    return absl::OkStatus();
  }

 private:
  const std::unique_ptr<SoftmaxCrossEntropyPrimitive> now_;
  Stream& cpu_;
};

class LateInputConversion final : public InputConversionPrimitive {
 public:
  LateInputConversion(std::unique_ptr<InputConversionPrimitive> now, Stream& cpu)
      : now_(std::move(now)), cpu_(cpu) {}
  absl::Status Run(Stream& stream, const uint8_t* in, float* out) override {
    Late(stream).Put([=, this] { return now_->Run(cpu_, in, out); });
    return absl::OkStatus();
  }

 private:
  const std::unique_ptr<InputConversionPrimitive> now_;
  Stream& cpu_;
};

class LateSgd final : public SgdPrimitive {
 public:
  LateSgd(std::unique_ptr<SgdPrimitive> now, Stream& cpu) : now_(std::move(now)), cpu_(cpu) {}
  absl::Status Run(Stream& stream, const SgdStep& step, float* parameters, const float* gradient_sums,
                   float* velocity, int32_t* finite) override {
    Late(stream).Put(
        [=, this] { return now_->Run(cpu_, step, parameters, gradient_sums, velocity, finite); });
    return absl::OkStatus();
  }

 private:
  const std::unique_ptr<SgdPrimitive> now_;
  Stream& cpu_;
};

class LateDevice final : public Device {
 public:
  explicit LateDevice(LateDeviceOptions options)
      : options_(options), cpu_(CreateCpuDevice(1).value()), cpu_stream_(cpu_->CreateStream().value()) {}

  std::string Describe() const override { return "a late device"; }
  bool reads_host_memory() const override { return false; }

  std::string identity() const override { return options_.identity; }
  absl::StatusOr<std::string> NewGroupId() override { return absl::StrCat("group of ", options_.identity); }
  absl::StatusOr<std::unique_ptr<StreamCommunicator>> JoinGroup(const StreamGroup& group) override {
    return options_.join(group);
  }

  absl::StatusOr<std::unique_ptr<Buffer>> Allocate(int64_t bytes, MemoryKind kind) override {
    TETHYS_ASSIGN_OR_RETURN(std::unique_ptr<Buffer> buffer, cpu_->Allocate(bytes, kind));
    // Kept for good: a test's device does not live long enough for it to matter.
    if (kind == MemoryKind::kPinnedHost) pinned_[static_cast<const char*>(buffer->data())] = bytes;
    return buffer;
  }
  absl::StatusOr<std::unique_ptr<Stream>> CreateStream() override {
    return std::make_unique<LateStream>(time_);
  }
  absl::StatusOr<std::unique_ptr<Event>> CreateEvent() override { return CreateTimedEvent(); }
  absl::StatusOr<std::unique_ptr<TimedEvent>> CreateTimedEvent() override {
    return std::make_unique<LateEvent>(options_.hangs);
  }

  absl::Status CopyToDevice(Stream& stream, void* device, const void* host, int64_t bytes) override {
    if (IsPinned(host)) {
      Late(stream).Put([=] { return Copy(device, host, bytes); });
      return absl::OkStatus();
    }
    const auto* begin = static_cast<const char*>(host);
    Late(stream).Put([device, bytes, read = std::vector<char>(begin, begin + bytes)] {
      return Copy(device, read.data(), bytes);
    });
    return absl::OkStatus();
  }
  absl::Status CopyToHost(Stream& stream, void* host, const void* device, int64_t bytes) override {
    Late(stream).Put([=] { return Copy(host, device, bytes); });
    return absl::OkStatus();
  }
  absl::Status CopyOnDevice(Stream& stream, void* to, const void* from, int64_t bytes) override {
    Late(stream).Put([=] { return Copy(to, from, bytes); });
    return absl::OkStatus();
  }

  absl::StatusOr<std::unique_ptr<DensePrimitive>> CreateDense(const DenseShape& shape) override {
    TETHYS_ASSIGN_OR_RETURN(auto now, cpu_->CreateDense(shape));
    return std::make_unique<LateDense>(std::move(now), *cpu_stream_);
  }
  absl::StatusOr<std::unique_ptr<ConvolutionPrimitive>> CreateConvolution(
      const ConvolutionShape& shape) override {
    TETHYS_ASSIGN_OR_RETURN(auto now, cpu_->CreateConvolution(shape));
    return std::make_unique<LateConvolution>(std::move(now), *cpu_stream_);
  }
  absl::StatusOr<std::unique_ptr<MaxPoolingPrimitive>> CreateMaxPooling(
      const MaxPoolingShape& shape) override {
    TETHYS_ASSIGN_OR_RETURN(auto now, cpu_->CreateMaxPooling(shape));
    return std::make_unique<LateMaxPooling>(std::move(now), *cpu_stream_);
  }
  absl::StatusOr<std::unique_ptr<SoftmaxCrossEntropyPrimitive>> CreateSoftmaxCrossEntropy(
      int64_t rows, int64_t classes) override {
    TETHYS_ASSIGN_OR_RETURN(auto now, cpu_->CreateSoftmaxCrossEntropy(rows, classes));
    return std::make_unique<LateSoftmaxCrossEntropy>(std::move(now), *cpu_stream_);
  }
  absl::StatusOr<std::unique_ptr<InputConversionPrimitive>> CreateInputConversion(int64_t count, float mean,
                                                                                  float deviation) override {
    TETHYS_ASSIGN_OR_RETURN(auto now, cpu_->CreateInputConversion(count, mean, deviation));
    return std::make_unique<LateInputConversion>(std::move(now), *cpu_stream_);
  }
  absl::StatusOr<std::unique_ptr<SgdPrimitive>> CreateSgd(std::vector<Segment> segments,
                                                          float momentum) override {
    TETHYS_ASSIGN_OR_RETURN(auto now, cpu_->CreateSgd(std::move(segments), momentum));
    return std::make_unique<LateSgd>(std::move(now), *cpu_stream_);
  }

 private:
  static absl::Status Copy(void* to, const void* from, int64_t bytes) {
    if (bytes > 0) std::memcpy(to, from, static_cast<size_t>(bytes));
    return absl::OkStatus();
  }

  bool IsPinned(const void* host) const {
    const auto* at = static_cast<const char*>(host);
    const auto next = pinned_.upper_bound(at);
    return next != pinned_.begin() && at < std::prev(next)->first + std::prev(next)->second;
  }

  const LateDeviceOptions options_;
  const std::unique_ptr<Device> cpu_;
  const std::unique_ptr<Stream> cpu_stream_;
  const std::shared_ptr<Nanoseconds> time_ = std::make_shared<Nanoseconds>(0);
  std::map<const char*, int64_t> pinned_;  // Address to bytes.
};

}  // namespace

void PutWork(Stream& stream, std::function<absl::Status()> work) { Late(stream).Put(std::move(work)); }

std::unique_ptr<Device> CreateLateDevice(LateDeviceOptions options) {
  return std::make_unique<LateDevice>(options);
}

}  // namespace tethys::testing
