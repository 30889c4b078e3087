#include "workers/device_factory.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tethys {
namespace {

proto::Setup SetupOn(const std::vector<std::string>& worker_hosts) {
  proto::Setup setup;
  proto::Member& server = *setup.add_member();
  server.set_role(proto::PS);
  server.set_host("a");
  for (size_t i = 0; i < worker_hosts.size(); ++i) {
    proto::Member& worker = *setup.add_member();
    worker.set_role(proto::WORKER);
    worker.set_index(static_cast<int>(i));
    worker.set_host(worker_hosts[i]);
  }
  return setup;
}

TEST(DeviceFactory, WorkersTakeTheGpusOfTheirHostInOrder) {
  const proto::Setup setup = SetupOn({"a", "b", "a", "a", "b"});
  const std::vector<int> expected = {0, 0, 1, 2, 1};
  for (int worker = 0; worker < 5; ++worker) EXPECT_EQ(GpuOf(worker, setup), expected[worker]) << worker;
}

TEST(DeviceFactory, AWorkerAloneTakesTheFirstGpu) {
  EXPECT_EQ(GpuOf(0, SetupOn({"a"})), 0);
  EXPECT_EQ(GpuOf(0, proto::Setup()), 0);
}

TEST(DeviceFactory, JobsComputeOnTheCpuUnlessTheySayOtherwise) {
  proto::Setup setup = SetupOn({"a"});
  setup.mutable_plan()->mutable_job()->mutable_device()->set_threads_per_rank(1);
  EXPECT_THAT(CreateWorkerDevice({}, setup).value()->Describe(), testing::StartsWith("cpu"));
}

TEST(DeviceFactory, WithoutItsLibraryACudaJobIsRefused) {
  proto::Setup setup = SetupOn({"a"});
  setup.mutable_plan()->mutable_job()->mutable_device()->set_kind(proto::Device::CUDA);
  // No libtethys_cuda.so lies beside this test.
  EXPECT_THAT(StatusText(CreateWorkerDevice({}, setup).status()), testing::HasSubstr("libtethys_cuda.so"));
}

}  // namespace
}  // namespace tethys
