#include "workers/device_factory.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tethys {
namespace {

// The setup of a worker with this local rank.
proto::Setup SetupOf(int local_rank) {
  proto::Setup setup;
  setup.mutable_self()->set_local_rank(local_rank);
  return setup;
}

TaskOptions Worker(int index, bool own_gpus = false) {
  TaskOptions task;
  task.index = index;
  task.own_gpus = own_gpus;
  return task;
}

TEST(DeviceFactory, WorkersTakeTheGpusOfTheirLocalRanks) {
  for (const int rank : {1, 0, 2}) EXPECT_EQ(GpuOf(Worker(5), SetupOf(rank)), rank);
}

TEST(DeviceFactory, WorkerWithGpusOfItsOwnTakesItsFirstGpu) {
  for (const int rank : {0, 1}) EXPECT_EQ(GpuOf(Worker(rank, /*own_gpus=*/true), SetupOf(rank)), 0);
}

TEST(DeviceFactory, JobWithoutADeviceComputesOnTheCpu) {
  proto::Setup setup = SetupOf(0);
  setup.mutable_plan()->mutable_job()->mutable_device()->set_threads_per_rank(1);
  EXPECT_THAT(CreateWorkerDevice({}, setup).value()->Describe(), testing::StartsWith("cpu"));
}

TEST(DeviceFactory, DeviceInTheHostFileOverridesTheDeviceOfTheJob) {
  proto::Setup setup = SetupOf(0);
  setup.mutable_plan()->mutable_job()->mutable_device()->set_threads_per_rank(1);
  setup.mutable_plan()->mutable_job()->mutable_device()->set_kind(proto::Device::CUDA);
  setup.mutable_plan()->add_worker_device(proto::Device::CUDA);
  setup.mutable_plan()->add_worker_device(proto::Device::CPU);
  TaskOptions task;
  EXPECT_FALSE(CreateWorkerDevice(task, setup).ok());
  task.index = 1;
  EXPECT_THAT(CreateWorkerDevice(task, setup).value()->Describe(), testing::StartsWith("cpu"));
}

TEST(DeviceFactory, CudaJobWithoutTheLibraryIsRefused) {
  proto::Setup setup = SetupOf(0);
  setup.mutable_plan()->mutable_job()->mutable_device()->set_kind(proto::Device::CUDA);
  // The folder of this test program has no libtethys_cuda.so.
  EXPECT_THAT(StatusText(CreateWorkerDevice({}, setup).status()), testing::HasSubstr("libtethys_cuda.so"));
}

}  // namespace
}  // namespace tethys
