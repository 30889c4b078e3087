// Tests mirrored training of ranks on the CPU together with ranks on devices whose memory the host cannot
// use. The ranks exchange gradients by the strategy that CreateStrategy chooses, like the workers of a job.
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "tests/testing/late_device.h"
#include "tests/workers/mirrored_replicas.h"
#include "workers/strategy_factory.h"

namespace tethys {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr auto kCpu = proto::Device::CPU;
constexpr auto kCuda = proto::Device::CUDA;

// Workers on one host. Worker i has a device of kinds[i]; a simulated asynchronous device
// (tests/testing/late_device.h) stands for a CUDA device.
class MixedWorld {
 public:
  explicit MixedWorld(const std::vector<proto::Device::Kind>& kinds) : kinds_(kinds) {
    proto::Job& job = *plan_.mutable_job();
    job.set_workers(static_cast<int>(kinds.size()));
    job.set_max_steps(kSteps);
    *job.mutable_optimizer() = SgdConfig();
    job.mutable_strategy()->mutable_mirrored();
    job.mutable_tuning()->set_bucket_bytes(256);
    job.mutable_timeouts()->set_start(30);
    job.mutable_timeouts()->set_step(30);
    for (size_t rank = 0; rank < kinds.size(); ++rank) {
      listeners_.push_back(*RingListener::Listen("127.0.0.1"));
      plan_.add_worker_device(kinds[rank]);
      proto::Member& member = *group_.add_member();
      member.set_role(proto::WORKER);
      member.set_index(static_cast<int>(rank));
      member.set_host("here");
      member.set_data_address(listeners_[rank]->address());
    }
  }

  void SumIn(proto::Device::Precision gradients) {
    plan_.mutable_job()->mutable_strategy()->mutable_mirrored()->set_gradients(gradients);
  }

  // Creates the strategy on every rank; returns the status of each rank as text.
  std::vector<std::string> Refusals() {
    std::vector<std::string> refusals(kinds_.size());
    OnRanks(static_cast<int>(kinds_.size()), [&](int rank) {
      TestReplica replica(MakeDevice(rank), rank, static_cast<int>(kinds_.size()));
      refusals[rank] = StatusText(CreateOn(rank, replica).status());
    });
    return refusals;
  }

  // Trains all ranks; returns the parameters of each rank.
  std::vector<std::vector<float>> Train() {
    std::vector<std::vector<float>> parameters(kinds_.size());
    OnRanks(static_cast<int>(kinds_.size()), [&](int rank) {
      TestReplica replica(MakeDevice(rank), rank, static_cast<int>(kinds_.size()));
      auto strategy = CreateOn(rank, replica);
      ASSERT_TRUE(strategy.ok()) << strategy.status();
      {
        const std::lock_guard<std::mutex> lock(mu_);
        exchanges_.insert((*strategy)->Describe());
      }
      const absl::Status trained = TrainByHand(replica, *std::move(strategy));
      EXPECT_TRUE(trained.ok()) << StatusText(trained);
      parameters[rank] = replica.Parameters();
    });
    return parameters;
  }

  // The descriptions that the trained ranks give of their exchange, without duplicates.
  const std::set<std::string>& exchanges() const { return exchanges_; }

 private:
  absl::StatusOr<std::unique_ptr<Strategy>> CreateOn(int rank, TestReplica& replica) {
    TaskOptions task;
    task.index = rank;
    task.token = token_;
    return CreateStrategy(task, plan_, group_, replica.replica(), *listeners_[rank], TestClock(),
                          TestClock().Now() + 600 * kSecond);
  }
  std::unique_ptr<Device> MakeDevice(int rank) const {
    if (kinds_[rank] == kCpu) return CreateCpuDevice(1).value();
    return testing::CreateLateDevice({.identity = absl::StrCat("GPU ", rank)});
  }

  const std::vector<proto::Device::Kind> kinds_;
  const JobToken token_ = JobToken::Random();
  std::vector<std::unique_ptr<RingListener>> listeners_;
  proto::JobPlan plan_;
  proto::Group group_;
  std::mutex mu_;
  std::set<std::string> exchanges_;
};

TEST(MixedMirrored, TrainingOnCpuAndGpusGivesTheParametersOfCpusBitForBit) {
  MixedWorld world({kCpu, kCuda, kCuda});
  EXPECT_EQ(world.Train(), MirroredOnTheCpu(3));
}

TEST(MixedMirrored, EveryRankReportsWhichRanksComputeOnTheCpu) {
  MixedWorld world({kCuda, kCpu, kCuda, kCpu});
  world.Train();
  ASSERT_EQ(world.exchanges().size(), 1);
  EXPECT_THAT(*world.exchanges().begin(), HasSubstr("GPUs staged through the host: ranks 1, 3 on the CPU"));
}

TEST(MixedMirrored, Bfloat16SumsAreRefusedOnEveryRankWithReasonAndRemedy) {
  MixedWorld world({kCuda, kCpu});
  world.SumIn(proto::Device::BF16);
  for (const std::string& refusal : world.Refusals()) {
    EXPECT_THAT(refusal, AllOf(HasSubstr("FAILED_PRECONDITION: strategy.mirrored.gradients is BF16"),
                               HasSubstr("GPUs staged through the host: rank 1 on the CPU"),
                               HasSubstr("leave this field out, or give every worker a GPU of its own")));
  }
}

}  // namespace
}  // namespace tethys
