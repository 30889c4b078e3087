// Tests measured steps on the CUDA back end, which runs on the host (tests/testing/cuda_on_host.h).
#include "workers/step_meter.h"

#include "gtest/gtest.h"
#include "runtime/device/cuda/requirements.h"
#include "runtime/job/job_file.h"
#include "tests/testing/cuda_on_host.h"
#include "workers/plan_job.h"

namespace tethys {
namespace {

class StepMeterTest : public ::testing::Test {
 protected:
  std::unique_ptr<StepMeter> Meter() {
    const auto job = ParseJob(
        "model { layer { flatten {} } layer { dense { units: 8 activation: RELU } } layer { dense { units: 5 "
        "} } }"
        "data { synthetic { noise { shape: [4, 4, 1] } train_samples: 20 } classes: 5 } epochs: 1 "
        "optimizer { sgd {} learning_rate: 0.1 } batch_size_per_worker: 4 device { kind: CUDA } tuning { "
        "graph: false }",
        "job.textproto", {});
    EXPECT_TRUE(job.ok()) << job.status();
    return StepMeter::Create(PlanJob(*job).value(), cuda::CreateDevice({}).value(), clock_, nullptr).value();
  }

  const MonotonicClock clock_{};
};

// The device keeps the memory that earlier batches freed, in blocks of the sizes that those batches needed.
TEST_F(StepMeterTest, MeasuredMemoryOfABatchDoesNotDependOnEarlierBatches) {
  const auto meter = Meter();
  const int64_t first = meter->Visit(512, 0)->measured_bytes();
  const int64_t smaller = meter->Visit(64, 0)->measured_bytes();
  EXPECT_EQ(meter->Visit(512, 0)->measured_bytes(), first);
  EXPECT_LT(smaller, first);
}

TEST_F(StepMeterTest, StepThatNeedsMoreGpuMemoryThanAllowedIsRefused) {
  const auto meter = Meter();
  const int64_t needed = meter->Visit(512, 0)->measured_bytes();
  ASSERT_GT(needed, 0);
  EXPECT_TRUE(meter->Try(512, 0).ok());
  EXPECT_TRUE(meter->Try(512, needed).ok());
  EXPECT_EQ(meter->Try(512, needed / 2).code(), absl::StatusCode::kResourceExhausted);
}

TEST_F(StepMeterTest, PauseOfTheGpuMarksTheMeasurementAsDisturbed) {
  const auto meter = Meter();
  cuda::reads_before_pause = 10;
  const proto::StepVisit paused = meter->Visit(8, 0).value();
  EXPECT_GT(paused.gpu_pause(), 3e-3);
  EXPECT_TRUE(paused.disturbed());
  const proto::StepVisit next = meter->Visit(8, 0).value();
  ASSERT_TRUE(next.has_gpu_pause());
  EXPECT_LT(next.gpu_pause(), 2e-4);
}

}  // namespace
}  // namespace tethys
