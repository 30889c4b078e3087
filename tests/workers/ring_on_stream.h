// A ring of threads in the place of NCCL: sums when the stream of a late device comes to it.
#ifndef TETHYS_TESTS_WORKERS_RING_ON_STREAM_H_
#define TETHYS_TESTS_WORKERS_RING_ON_STREAM_H_

#include <memory>
#include <string>
#include <utility>

#include "collectives/stream_mirrored_strategy.h"
#include "tests/testing/late_device.h"
#include "tests/workers/replica.h"

namespace tethys {

// What a rank's stream communicator is made to do.
struct Fault {
  int64_t fails_at = -1;   // Call of AllReduce that fails when it is put on the stream.
  int64_t breaks_at = -1;  // All-reduce that fails when it happens.
};

// What became of it.
struct Fate {
  bool aborted = false;
  int graphs_left = 0;  // How many of the device's there were when it was destroyed.
};

class RingOnStream final : public StreamCommunicator {
 public:
  RingOnStream(std::unique_ptr<Communicator> ring, const Device& device, Fault fault, Fate& fate)
      : ring_(std::move(ring)), device_(device), fault_(fault), fate_(fate) {}
  ~RingOnStream() override { fate_.graphs_left = testing::LiveGraphs(device_); }

  int rank() const override { return ring_->rank(); }
  int world_size() const override { return ring_->world_size(); }
  absl::Status AllReduce(Stream& stream, float* data, int64_t count) override {
    if (put_++ == fault_.fails_at) return absl::InternalError("put nothing");
    testing::PutWork(stream, [this, data, count]() -> absl::Status {
      if (happened_++ == fault_.breaks_at) return error_ = absl::InternalError("broke");
      const absl::Status reduced = ring_->AllReduce({data, static_cast<size_t>(count)});
      if (!reduced.ok()) error_ = reduced;
      return reduced;
    });
    return absl::OkStatus();
  }
  absl::Status Check() override { return error_; }
  void Abort() override {
    fate_.aborted = true;
    ring_->Abort(absl::CancelledError("aborted"));
  }
  std::string Describe() const override { return "a ring on a stream"; }

 private:
  const std::unique_ptr<Communicator> ring_;
  const Device& device_;
  const Fault fault_;
  Fate& fate_;
  int64_t put_ = 0;
  int64_t happened_ = 0;
  absl::Status error_;
};

inline std::unique_ptr<Strategy> MirroredOnStream(Replica& replica, std::unique_ptr<Communicator> ring,
                                                  Fault fault, Fate& fate,
                                                  Nanoseconds timeout = 30 * kSecond) {
  return CreateStreamMirroredStrategy(
             std::make_unique<RingOnStream>(std::move(ring), replica.device(), fault, fate),
             replica.MakeUpdate(), replica.device(), replica.stream(),
             {.bucket_bytes = 256, .step_timeout = timeout, .clock = &TestClock()})
      .value();
}

}  // namespace tethys

#endif  // TETHYS_TESTS_WORKERS_RING_ON_STREAM_H_
