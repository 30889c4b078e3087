// A StreamCommunicator over a ring of threads, in place of NCCL. It sums when the stream of a late device
// (tests/testing/late_device.h) runs the enqueued all-reduce. In bfloat16 it rounds each sum once, whereas
// NCCL rounds every partial sum.
#ifndef TETHYS_TESTS_WORKERS_RING_ON_STREAM_H_
#define TETHYS_TESTS_WORKERS_RING_ON_STREAM_H_

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "collectives/stream_mirrored_strategy.h"
#include "tests/collectives/forwarding_communicator.h"
#include "tests/runtime/device/arithmetic.h"
#include "tests/testing/late_device.h"
#include "tests/workers/mirrored_replicas.h"

namespace tethys {

// Faults of a rank's stream communicator.
struct Fault {
  int64_t fails_at = -1;   // Index of the all-reduce that fails when it is enqueued; -1: none.
  int64_t breaks_at = -1;  // Index of the all-reduce that fails when the stream runs it; -1: none.
};

// How a communicator ended.
struct Fate {
  bool aborted = false;
  // The largest number of graphs that existed on the device at an abort. (NCCL waits for the graphs when it
  // is aborted.)
  int graphs_at_abort = 0;
  int graphs_left = 0;  // Graphs that existed on the device when the communicator was destroyed.
};

class RingOnStream final : public StreamCommunicator {
 public:
  RingOnStream(std::unique_ptr<Communicator> ring, const Device& device, Fault fault, Fate& fate)
      : ring_(std::move(ring)), device_(device), fault_(fault), fate_(fate) {}
  ~RingOnStream() override { fate_.graphs_left = testing::LiveGraphs(device_); }

  int rank() const override { return ring_->rank(); }
  int world_size() const override { return ring_->world_size(); }
  absl::Status AllReduce(Stream& stream, float* data, int64_t count) override {
    return Enqueue(stream, [=, this] { return ring_->AllReduce({data, static_cast<size_t>(count)}); });
  }
  absl::Status AllReduce(Stream& stream, Bfloat16* data, int64_t count) override {
    return Enqueue(stream, [=, this]() -> absl::Status {
      std::vector<float> sums(count);
      TETHYS_RETURN_IF_ERROR(cpu_->WidenBfloat16(*cpu_stream_, data, sums.data(), count));
      TETHYS_RETURN_IF_ERROR(ring_->AllReduce(absl::MakeSpan(sums)));
      return cpu_->RoundToBfloat16(*cpu_stream_, sums.data(), data, count);
    });
  }
  absl::Status ReduceScatter(Stream& stream, float* data, int64_t count) override {
    return Enqueue(stream, [=, this]() -> absl::Status {
      std::vector<float> sums(data, data + count * world_size());
      TETHYS_RETURN_IF_ERROR(ring_->AllReduce(absl::MakeSpan(sums)));
      std::copy_n(sums.begin() + rank() * count, count, data + rank() * count);
      return absl::OkStatus();
    });
  }
  absl::Status AllGather(Stream& stream, float* data, int64_t count) override {
    return Enqueue(stream, [=, this] {
      std::vector<Range> parts;
      for (int rank = 0; rank < world_size(); ++rank) parts.push_back({rank * count * 4, count * 4});
      return ring_->AllGather(BytesOf({data, static_cast<size_t>(count * world_size())}), parts);
    });
  }
  absl::Status Send(Stream& stream, int peer, const float* data, int64_t count) override {
    const absl::Span<const char> bytes(reinterpret_cast<const char*>(data), count * sizeof(float));
    return Enqueue(stream, [=, this] { return ring_->Send(peer, bytes); });
  }
  absl::Status Receive(Stream& stream, int peer, float* data, int64_t count) override {
    return Enqueue(stream, [=, this] {
      return ring_->Receive(peer, BytesOf({data, static_cast<size_t>(count)}));
    });
  }
  absl::Status Check() override { return error_; }
  absl::Status Abort() override {
    fate_.aborted = true;
    fate_.graphs_at_abort = std::max(fate_.graphs_at_abort, testing::LiveGraphs(device_));
    ring_->Abort(absl::CancelledError("aborted"));
    return absl::OkStatus();
  }
  std::string Describe() const override { return "a ring on a stream"; }

 private:
  absl::Status Enqueue(Stream& stream, std::function<absl::Status()> reduce) {
    if (put_++ == fault_.fails_at) return absl::InternalError("could not enqueue");
    testing::EnqueueWork(stream, [this, reduce = std::move(reduce)]() -> absl::Status {
      if (happened_++ == fault_.breaks_at) return error_ = absl::InternalError("broke");
      const absl::Status reduced = reduce();
      if (!reduced.ok()) error_ = reduced;
      return reduced;
    });
    return absl::OkStatus();
  }

  const std::unique_ptr<Communicator> ring_;
  const Device& device_;
  const std::unique_ptr<Device> cpu_ = CreateCpuDevice(1).value();
  const std::unique_ptr<Stream> cpu_stream_ = cpu_->CreateStream().value();
  const Fault fault_;
  Fate& fate_;
  int64_t put_ = 0;
  int64_t happened_ = 0;
  absl::Status error_;
};

// Buckets of 64 gradients, as in TestReplica::MakeMirrored.
inline StreamMirroredOptions InFloat32() { return {.bucket_bytes = 256}; }
inline StreamMirroredOptions InBfloat16() { return {.bucket_bytes = 128, .in_bfloat16 = true}; }

inline std::unique_ptr<Strategy> MirroredOnStream(TestReplica& replica, std::unique_ptr<Communicator> ring,
                                                  Fault fault, Fate& fate,
                                                  StreamMirroredOptions options = InFloat32()) {
  options.clock = &TestClock();
  return CreateStreamMirroredStrategy(
             std::make_unique<RingOnStream>(std::move(ring), replica.device(), fault, fate),
             replica.MakeUpdate(), replica.device(), replica.stream(), options)
      .value();
}

// Sums floats as RingOnStream sums bfloat16: rounds them to bfloat16 before and after the all-reduce.
class RoundedByHand final : public ForwardingCommunicator {
 public:
  explicit RoundedByHand(std::unique_ptr<Communicator> ring)
      : ForwardingCommunicator(*ring), ring_(std::move(ring)) {}

  // Returns null, so the strategy itself allocates memory for the gradients.
  absl::StatusOr<float*> AllocateForReduction(int64_t) override { return nullptr; }
  absl::Status AllReduce(absl::Span<float> data) override {
    Round(data);
    TETHYS_RETURN_IF_ERROR(ring_->AllReduce(data));
    Round(data);
    return absl::OkStatus();
  }

 private:
  static void Round(absl::Span<float> values) {
    for (float& value : values) value = RoundedTo(kBfloat16.factor_bits, value);
  }

  const std::unique_ptr<Communicator> ring_;
};

inline std::vector<std::vector<float>> MirroredOnTheCpuRoundedByHand(
    int world, const TrainReplica& train = TrainByHand) {
  return TrainMirrored(
      world, [] { return CreateCpuDevice(1).value(); },
      [](TestReplica& replica, auto ring) {
        return replica.MakeMirrored(std::make_unique<RoundedByHand>(std::move(ring)));
      },
      train);
}

}  // namespace tethys

#endif  // TETHYS_TESTS_WORKERS_RING_ON_STREAM_H_
