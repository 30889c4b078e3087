// Sums arrays over the workers. The recorder counts the time of a sum as the step's exchange, although a
// layer waits for the sum in forward or backward.
#ifndef TETHYS_WORKERS_MEASURED_SUMS_H_
#define TETHYS_WORKERS_MEASURED_SUMS_H_

#include <cstdint>

#include "runtime/base/clock.h"
#include "runtime/device/stream_communicator.h"
#include "runtime/telemetry/step_recorder.h"

namespace tethys {

class MeasuredSums final : public StreamReducer {
 public:
  // All arguments must outlive the object.
  MeasuredSums(StreamReducer& sums, StepRecorder& recorder, const Clock& clock)
      : sums_(sums), recorder_(recorder), clock_(clock) {}

  // From SetAside(true) to SetAside(false), AllReduce exchanges nothing and leaves `data` unchanged.
  void SetAside(bool aside) { aside_ = aside; }

  // While AllReduce blocks, the step does not compute (see StepRecorder::computing).
  absl::Status AllReduce(Stream& stream, float* data, int64_t count) override {
    if (aside_) return absl::OkStatus();
    const Nanoseconds begin = clock_.Now();
    recorder_.BeginExchange();
    TETHYS_RETURN_IF_ERROR(sums_.AllReduce(stream, data, count));
    recorder_.EndExchange();
    recorder_.CountAsExchange(begin);
    return absl::OkStatus();
  }

 private:
  StreamReducer& sums_;
  StepRecorder& recorder_;
  const Clock& clock_;
  bool aside_ = false;
};

}  // namespace tethys

#endif  // TETHYS_WORKERS_MEASURED_SUMS_H_
