// Tests how a group of GPUs joins, fails and is aborted, with a fake NCCL that answers as the test says. So
// these tests need no GPU.
#include <nccl.h>

#include <atomic>
#include <thread>

#include "gmock/gmock.h"
#include "runtime/base/interruption.h"
#include "runtime/device/cuda/nccl_communicator.h"
#include "runtime/device/cuda/stream.h"

namespace {

// The fake library. Its members are what the next calls return and what was called.
struct FakeNccl {
  std::atomic<ncclResult_t> state = ncclSuccess;  // The result of ncclCommGetAsyncError.
  std::atomic<bool> abort_hangs = false;          // ncclCommAbort returns once this is false.
  std::atomic<int> polls = 0;                     // Calls of ncclCommGetAsyncError.
  std::atomic<int> aborts = 0;                    // Calls of ncclCommAbort that have returned.
  std::atomic<int> finalized = 0;
};
FakeNccl* nccl = nullptr;

}  // namespace

const char* ncclGetErrorString(ncclResult_t) { return "an error"; }
const char* ncclGetLastError(ncclComm_t) { return ""; }
ncclResult_t ncclGetVersion(int* version) {
  *version = 23000;
  return ncclSuccess;
}
ncclResult_t ncclGetUniqueId(ncclUniqueId*) { return ncclSuccess; }
ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int, ncclUniqueId, int, ncclConfig_t*) {
  *comm = reinterpret_cast<ncclComm_t>(nccl);
  return ncclInProgress;
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t, ncclResult_t* state) {
  ++nccl->polls;
  *state = nccl->state;
  return ncclSuccess;
}
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  auto* fake = reinterpret_cast<FakeNccl*>(comm);
  while (fake->abort_hangs) std::this_thread::yield();
  ++fake->aborts;
  return ncclSuccess;
}
ncclResult_t ncclCommFinalize(ncclComm_t) {
  ++nccl->finalized;
  return ncclSuccess;
}
ncclResult_t ncclCommDestroy(ncclComm_t) { return ncclSuccess; }
ncclResult_t ncclAllReduce(const void*, void*, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t,
                           cudaStream_t) {
  return ncclInProgress;
}
ncclResult_t ncclReduceScatter(const void*, void*, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t,
                               cudaStream_t) {
  return ncclSuccess;
}
ncclResult_t ncclAllGather(const void*, void*, size_t, ncclDataType_t, ncclComm_t, cudaStream_t) {
  return ncclSuccess;
}
ncclResult_t ncclSend(const void*, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t) {
  return ncclSuccess;
}
ncclResult_t ncclRecv(void*, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t) { return ncclSuccess; }

namespace tethys::cuda {
namespace {

using ::testing::HasSubstr;

class NcclOnHost : public ::testing::Test {
 protected:
  void SetUp() override { nccl = &fake_; }
  void TearDown() override {
    fake_.abort_hangs = false;
    const int aborts = hung_ ? 1 : 0;
    while (fake_.aborts < aborts) std::this_thread::yield();
  }

  absl::StatusOr<std::unique_ptr<StreamCommunicator>> Join() {
    return JoinNcclGroup({.id = NewNcclGroupId().value(),
                          .world_size = 2,
                          .timeout = 3600 * kSecond,
                          .abort_timeout = 20 * kMillisecond,
                          .clock = &clock_,
                          .interrupted = [this] { return interruption_.Check(); }});
  }
  // Raises the interruption as soon as the communicator has polled NCCL once.
  std::thread InterruptOncePolled() {
    return std::thread([this] {
      while (fake_.polls == 0) std::this_thread::yield();
      interruption_.Raise(absl::AbortedError("the group of workers changes"));
    });
  }

  MonotonicClock clock_;
  Interruption interruption_;
  FakeNccl fake_;
  bool hung_ = false;  // A thread of the product is in ncclCommAbort when the test ends.
};

TEST_F(NcclOnHost, LossWhileJoining_InterruptionEndsTheWaitAndAborts) {
  fake_.state = ncclInProgress;
  std::thread interrupter = InterruptOncePolled();
  EXPECT_TRUE(absl::IsAborted(Join().status()));
  EXPECT_EQ(fake_.aborts, 1);
  interrupter.join();
}

TEST_F(NcclOnHost, LossWhileJoining_AbortHangs_ReturnsAFailureOfThisProcess) {
  fake_.state = ncclInProgress;
  fake_.abort_hangs = hung_ = true;
  std::thread interrupter = InterruptOncePolled();
  const absl::Status status = Join().status();
  EXPECT_TRUE(absl::IsInternal(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("did not end within 0.02 s"));
  interrupter.join();
}

TEST_F(NcclOnHost, LossWhileEnqueuing_InterruptionEndsTheWait) {
  auto group = Join().value();
  const std::unique_ptr<Stream> stream = CreateStream().value();
  fake_.state = ncclInProgress;
  fake_.polls = 0;
  std::thread interrupter = InterruptOncePolled();
  float sum = 0;
  EXPECT_TRUE(absl::IsAborted(group->AllReduce(*stream, &sum, 1)));
  interrupter.join();
}

TEST_F(NcclOnHost, HangingAbortFailsAtTheDeadlineAndIsNotRepeated) {
  auto group = Join().value();
  fake_.abort_hangs = hung_ = true;
  EXPECT_TRUE(absl::IsInternal(group->Abort()));
  EXPECT_TRUE(absl::IsInternal(group->Abort()));
  EXPECT_TRUE(absl::IsCancelled(group->Check()));
  group.reset();
  EXPECT_EQ(fake_.aborts, 0);
  EXPECT_EQ(fake_.finalized, 0);
}

TEST_F(NcclOnHost, AbortedGroupIsNotFinalized) {
  auto group = Join().value();
  EXPECT_TRUE(group->Abort().ok());
  group.reset();
  EXPECT_EQ(fake_.aborts, 1);
  EXPECT_EQ(fake_.finalized, 0);
}

TEST_F(NcclOnHost, GroupWithoutErrorsIsFinalized) {
  Join().value().reset();
  EXPECT_EQ(fake_.aborts, 0);
  EXPECT_EQ(fake_.finalized, 1);
}

// A lost rank breaks the group of workers, so the workers that are left form another.
TEST_F(NcclOnHost, ErrorOfAnotherRankIsUnavailable_OwnErrorsAreInternal) {
  auto group = Join().value();
  EXPECT_TRUE(group->Check().ok());
  for (const ncclResult_t result : {ncclRemoteError, ncclSystemError}) {
    fake_.state = result;
    EXPECT_TRUE(absl::IsUnavailable(group->Check())) << group->Check();
  }
  for (const ncclResult_t result : {ncclUnhandledCudaError, ncclInternalError, ncclInvalidUsage}) {
    fake_.state = result;
    EXPECT_TRUE(absl::IsInternal(group->Check())) << group->Check();
  }
  fake_.state = ncclSuccess;
}

}  // namespace
}  // namespace tethys::cuda
