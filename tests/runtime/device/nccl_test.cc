// Tests all-reduce among GPUs by NCCL, one thread per rank. Two ranks use one GPU each if there are two GPUs.
// Otherwise they share a GPU, if NCCL is 2.30 or later and NCCL_MULTI_RANK_GPU_ENABLE=1. Skipped tests say
// what was missing.
#include <barrier>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/gpu.h"

namespace tethys {
namespace {

// The objects of one rank, created and used by its thread.
struct Rank {
  std::unique_ptr<Device> device;
  std::unique_ptr<Stream> stream;
  std::unique_ptr<StreamCommunicator> group;
};

// Floats in device memory, copied from and to the host.
class Floats {
 public:
  Floats(Rank& rank, std::vector<float> values)
      : rank_(rank),
        host_(std::move(values)),
        buffer_(rank.device->Allocate(bytes(), MemoryKind::kDevice).value()) {
    EXPECT_TRUE(rank_.device->CopyToDevice(*rank_.stream, buffer_->data(), host_.data(), bytes()).ok());
  }
  float* data() { return buffer_->floats(); }
  // Waits for the stream before the copy, because a copy to pageable memory would wait inside the driver and
  // keep other threads of the process out of the driver.
  std::vector<float> Host() {
    EXPECT_TRUE(rank_.stream->Synchronize().ok());
    EXPECT_TRUE(rank_.device->CopyToHost(*rank_.stream, host_.data(), buffer_->data(), bytes()).ok());
    EXPECT_TRUE(rank_.stream->Synchronize().ok());
    return host_;
  }

 private:
  int64_t bytes() const { return static_cast<int64_t>(host_.size() * sizeof(float)); }
  Rank& rank_;
  std::vector<float> host_;
  std::unique_ptr<Buffer> buffer_;
};

// Values in bfloat16, with the memory that their all-reduce needs.
class Bfloat16s {
 public:
  Bfloat16s(Rank& rank, const std::vector<float>& values)
      : rank_(rank),
        count_(static_cast<int64_t>(values.size())),
        floats_(rank, values),
        memory_(rank.device->Allocate(count_ * static_cast<int64_t>(sizeof(Bfloat16)), MemoryKind::kDevice)
                    .value()) {
    // The driver loads a kernel when the kernel is first launched. Loading, like an allocation, waits for all
    // work of the GPU.
    EXPECT_TRUE(Round().ok());
    EXPECT_TRUE(Widen().ok());
  }
  // Rounds the values and all-reduces them.
  std::vector<float> Sums() {
    EXPECT_TRUE(Round().ok());
    EXPECT_TRUE(rank_.group->AllReduce(*rank_.stream, rounded(), count_).ok());
    EXPECT_TRUE(Widen().ok());
    return floats_.Host();
  }

 private:
  Bfloat16* rounded() { return static_cast<Bfloat16*>(memory_->data()); }
  absl::Status Round() {
    return rank_.device->RoundToBfloat16(*rank_.stream, floats_.data(), rounded(), count_);
  }
  absl::Status Widen() {
    return rank_.device->WidenBfloat16(*rank_.stream, rounded(), floats_.data(), count_);
  }

  Rank& rank_;
  const int64_t count_;
  Floats floats_;
  const std::unique_ptr<Buffer> memory_;
};

class Nccl : public ::testing::Test {
 protected:
  void SetUp() override {
    auto device = testing::CreateGpu();
    if (!device.ok()) GTEST_SKIP() << StatusText(device.status());
    group_.id = (*device)->NewGroupId().value();
    group_.clock = &clock_;
    gpus_ = testing::CreateGpu({.index = 1}).ok() ? 2 : 1;
  }

  absl::StatusOr<Rank> Join(StreamGroup group) {
    Rank rank;
    TETHYS_ASSIGN_OR_RETURN(rank.device, testing::CreateGpu({.index = group.rank % gpus_}));
    TETHYS_ASSIGN_OR_RETURN(rank.stream, rank.device->CreateStream());
    TETHYS_ASSIGN_OR_RETURN(rank.group, rank.device->JoinGroup(group));
    return rank;
  }

  // Runs `work` for `world_size` ranks, each in its own thread.
  void Among(int world_size, const std::function<void(Rank&)>& work) {
    std::vector<std::thread> threads;
    for (int r = 0; r < world_size; ++r) {
      threads.emplace_back([this, world_size, r, &work] {
        StreamGroup group = group_;
        group.rank = r;
        group.world_size = world_size;
        absl::StatusOr<Rank> rank = Join(group);
        ASSERT_TRUE(rank.ok()) << StatusText(rank.status());
        work(*rank);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

  MonotonicClock clock_;
  StreamGroup group_;
  int gpus_ = 1;
};

// True if two ranks may share a GPU. `description` is like "NCCL 2.28.9 among 1 GPU".
bool SharesAGpu(const std::string& description) {
  int major = 0, minor = 0;
  const char* asked = std::getenv("NCCL_MULTI_RANK_GPU_ENABLE");
  return std::sscanf(description.c_str(), "NCCL %d.%d", &major, &minor) == 2 && major * 100 + minor >= 230 &&
         asked != nullptr && std::string(asked) == "1";
}

TEST_F(Nccl, GroupOfOneKeepsItsValues) {
  Among(1, [](Rank& rank) {
    std::printf("%s\n", rank.group->Describe().c_str());
    Floats values(rank, {1, -2, 3.5f});
    ASSERT_TRUE(rank.group->AllReduce(*rank.stream, values.data(), 3).ok());
    ASSERT_TRUE(rank.group->ReduceScatter(*rank.stream, values.data(), 3).ok());
    ASSERT_TRUE(rank.group->AllGather(*rank.stream, values.data(), 3).ok());
    EXPECT_THAT(values.Host(), ::testing::ElementsAre(1, -2, 3.5f));
    EXPECT_THAT(Bfloat16s(rank, {1, -2, 3.5f, 1 + 0x1p-8f}).Sums(), ::testing::ElementsAre(1, -2, 3.5f, 1));
    EXPECT_TRUE(rank.group->Check().ok());
  });
}

TEST_F(Nccl, TwoRanksGetExactSumsOfBothBuckets) {
  std::string description;
  Among(1, [&](Rank& rank) { description = rank.group->Describe(); });
  if (gpus_ == 1 && !SharesAGpu(description)) {
    GTEST_SKIP() << "one GPU, which two ranks of " << description
                 << " cannot share: sharing takes NCCL 2.30 and NCCL_MULTI_RANK_GPU_ENABLE=1";
  }
  // An id is valid for one group only.
  group_.id = testing::CreateGpu().value()->NewGroupId().value();
  // Ranks of one process share the GPU's context. A rank that allocates waits for all work of the GPU, so it
  // would wait for ever for the all-reduce of the other rank, which waits for the first rank.
  std::barrier allocated(2);
  Among(2, [&allocated](Rank& rank) {
    const int64_t count = 1 << 20;
    std::vector<float> own(count), sums(count);
    std::iota(own.begin(), own.end(), static_cast<float>(rank.group->rank()));
    for (int64_t i = 0; i < count; ++i) sums[i] = static_cast<float>(2 * i + 1);
    Floats values(rank, own);
    const auto number = static_cast<float>(rank.group->rank());
    Bfloat16s rounded(rank, {number, 4, 0.5f - number});
    EXPECT_TRUE(rank.stream->Synchronize().ok());
    allocated.arrive_and_wait();
    for (const auto& [begin, end] : {std::pair<int64_t, int64_t>{1000, count}, {0, 1000}}) {
      ASSERT_TRUE(rank.group->AllReduce(*rank.stream, values.data() + begin, end - begin).ok());
    }
    EXPECT_EQ(values.Host(), sums);
    EXPECT_THAT(rounded.Sums(), ::testing::ElementsAre(1, 8, 0));
  });
}

TEST_F(Nccl, TwoRanksReduceScatterAllGatherSendAndReceive) {
  if (gpus_ == 1) GTEST_SKIP() << "one GPU";
  Among(2, [](Rank& rank) {
    const int own = rank.group->rank();
    const auto number = static_cast<float>(own);
    Floats values(rank, {number, 1, 2 * number, 3});
    ASSERT_TRUE(rank.group->ReduceScatter(*rank.stream, values.data(), 2).ok());
    ASSERT_TRUE(rank.group->AllGather(*rank.stream, values.data(), 2).ok());
    EXPECT_THAT(values.Host(), ::testing::ElementsAre(1, 2, 2, 6));
    Floats message(rank, {5 + number});
    ASSERT_TRUE((own == 0 ? rank.group->Send(*rank.stream, 1, message.data(), 1)
                          : rank.group->Receive(*rank.stream, 0, message.data(), 1))
                    .ok());
    EXPECT_THAT(message.Host(), ::testing::ElementsAre(5));
  });
}

TEST_F(Nccl, JoinWithoutPeerFailsAtTheDeadline) {
  StreamGroup group = group_;
  group.world_size = 2;
  group.timeout = 2 * kSecond;
  EXPECT_EQ(Join(group).status().code(), absl::StatusCode::kDeadlineExceeded);
}

TEST_F(Nccl, AbortedGroupAnswersCancelledToAllReduceAndCheck) {
  Among(1, [](Rank& rank) {
    Floats values(rank, {1});
    EXPECT_TRUE(rank.group->Abort().ok());
    EXPECT_EQ(rank.group->AllReduce(*rank.stream, values.data(), 1).code(), absl::StatusCode::kCancelled);
    EXPECT_EQ(rank.group->Check().code(), absl::StatusCode::kCancelled);
  });
}

}  // namespace
}  // namespace tethys
