#include "workers/device_factory.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tethys {
namespace {

// The setup of a server and of workers on one host; worker i has local_ranks[i].
proto::Setup SetupOf(const std::vector<int>& local_ranks) {
  proto::Setup setup;
  setup.add_member()->set_role(proto::PS);
  for (size_t i = 0; i < local_ranks.size(); ++i) {
    proto::Member& worker = *setup.add_member();
    worker.set_role(proto::WORKER);
    worker.set_index(static_cast<int>(i));
    worker.set_local_rank(local_ranks[i]);
  }
  return setup;
}

TaskOptions Worker(int index, bool own_gpus = false) {
  TaskOptions task;
  task.index = index;
  task.own_gpus = own_gpus;
  return task;
}

TEST(DeviceFactory, WorkersTakeTheGpusOfTheirLocalRanks) {
  const std::vector<int> local_ranks = {1, 0, 2};
  const proto::Setup setup = SetupOf(local_ranks);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(GpuOf(Worker(i), setup), local_ranks[i]) << i;
}

TEST(DeviceFactory, WorkerWithGpusOfItsOwnTakesItsFirstGpu) {
  const proto::Setup setup = SetupOf({0, 1});
  for (const int i : {0, 1}) EXPECT_EQ(GpuOf(Worker(i, /*own_gpus=*/true), setup), 0) << i;
}

TEST(DeviceFactory, JobWithoutADeviceComputesOnTheCpu) {
  proto::Setup setup = SetupOf({0});
  setup.mutable_plan()->mutable_job()->mutable_device()->set_threads_per_rank(1);
  EXPECT_THAT(CreateWorkerDevice({}, setup).value()->Describe(), testing::StartsWith("cpu"));
}

TEST(DeviceFactory, DeviceInTheHostFileOverridesThatOfTheJob) {
  proto::Setup setup = SetupOf({0, 0});
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
  proto::Setup setup = SetupOf({0});
  setup.mutable_plan()->mutable_job()->mutable_device()->set_kind(proto::Device::CUDA);
  // The folder of this test program has no libtethys_cuda.so.
  EXPECT_THAT(StatusText(CreateWorkerDevice({}, setup).status()), testing::HasSubstr("libtethys_cuda.so"));
}

}  // namespace
}  // namespace tethys
