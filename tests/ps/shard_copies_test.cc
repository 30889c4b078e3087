// Tests that real parameter servers copy their shards to one another, and restore a replaced server.
#include "ps/shard_copies.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "ps/parameter_server.h"
#include "ps/parameter_server_strategy.h"
#include "tests/ps/ps_worker.h"
#include "tests/testing/certificates.h"

namespace tethys {
namespace {

using ::testing::HasSubstr;

constexpr Nanoseconds kPatience = 60 * kSecond;

// Three servers with copies. The copy of server 0 is on server 1, of server 1 on server 2, of server 2 on
// server 0.
class ShardCopiesTest : public ::testing::Test {
 protected:
  ShardCopiesTest() : plan_(TestPlan(1, "servers: 3 replicas: 2", "partitioner { fixed { shards: 3 } }")) {
    plan_.mutable_job()->mutable_optimizer()->mutable_sgd()->set_momentum(0.9);
    plan_.mutable_job()->set_max_restarts(1);
    plan_.add_slot("momentum");
    for (int server = 0; server < 3; ++server) servers_.push_back(Start(server));
  }
  std::unique_ptr<ParameterServer> Start(int server) {
    ParameterServerOptions options;
    options.token = token_;
    options.job_id = plan_.job_id();
    options.clock = &clock_;
    options.checksums_on_loopback = true;
    if (authority_ != nullptr) options.tls = testing::IdentityOf(*authority_, proto::PS, server);
    options.on_fatal = [](const absl::Status& status) { ADD_FAILURE() << status; };
    return *ParameterServer::Start(options);
  }
  proto::Form Form(uint32_t generation, int64_t step, const std::vector<int>& restored = {}) const {
    proto::Form form;
    form.mutable_group()->set_generation(generation);
    form.set_step(step);
    proto::Member worker;
    worker.set_role(proto::WORKER);
    worker.set_incarnation(1);
    *form.mutable_group()->add_member() = worker;
    for (int server = 0; server < 3; ++server) {
      proto::Member& member = *form.mutable_group()->add_member();
      member.set_role(proto::PS);
      member.set_index(server);
      member.set_incarnation(1);
      member.set_host(absl::StrCat("host-", server));
      member.set_data_address(servers_[server]->address());
    }
    form.mutable_restored()->Assign(restored.begin(), restored.end());
    return form;
  }
  // Lets these servers exchange copies at the same time; returns what each of them returned.
  std::vector<absl::Status> Exchange(const proto::Form& form, const std::vector<int>& servers,
                                     Nanoseconds patience = kPatience) {
    std::vector<absl::Status> results(servers.size());
    std::vector<std::thread> threads;
    for (size_t i = 0; i < servers.size(); ++i) {
      threads.emplace_back([&, i] { results[i] = servers_[servers[i]]->ExchangeCopies(form, patience); });
    }
    for (std::thread& thread : threads) thread.join();
    return results;
  }
  void ExpectOk(const std::vector<absl::Status>& results) {
    for (const absl::Status& status : results) EXPECT_TRUE(status.ok()) << status;
  }
  void BeginFirstGroup() {
    for (int server = 0; server < 3; ++server) {
      ASSERT_TRUE(servers_[server]->Configure(plan_, server, 1).ok());
      // Values that tell servers, slots and elements apart.
      ASSERT_TRUE(servers_[server]
                      ->Restore(5,
                                [&](int slot, int64_t begin, absl::Span<float> out) {
                                  for (size_t i = 0; i < out.size(); ++i)
                                    out[i] = static_cast<float>(1000 * slot + begin) + 0.5f * i;
                                  return absl::OkStatus();
                                })
                      .ok());
    }
    ExpectOk(Exchange(Form(1, 5), {0, 1, 2}));
  }
  // All values of a server: parameters, then slots.
  std::vector<float> ValuesOf(int server) {
    std::vector<float> values;
    EXPECT_TRUE(servers_[server]
                    ->Snapshot([&](int, int64_t, absl::Span<const float> shard) {
                      values.insert(values.end(), shard.begin(), shard.end());
                      return absl::OkStatus();
                    })
                    .ok());
    return values;
  }
  // Server 0 is lost, and another process joins the second group in its place.
  void ReplaceServer0() {
    for (const int server : {1, 2}) ASSERT_TRUE(servers_[server]->Halt().ok());
    servers_[0] = Start(0);
    ASSERT_TRUE(servers_[0]->Configure(plan_, 0, 0).ok());
    ASSERT_TRUE(
        servers_[0]->Restore(5, [](int, int64_t, absl::Span<float>) { return absl::OkStatus(); }).ok());
    for (const auto& server : servers_) ASSERT_TRUE(server->JoinGroup(Form(2, 5).group(), 5).ok());
  }

  const MonotonicClock clock_;
  const JobToken token_ = JobToken::Random();
  std::unique_ptr<JobAuthority> authority_;
  proto::JobPlan plan_;
  std::vector<std::unique_ptr<ParameterServer>> servers_;
};

TEST_F(ShardCopiesTest, EveryServerHasACopyOfTheServerBefore) {
  for (const auto& server : servers_) EXPECT_EQ(server->CopyVersion(), absl::nullopt);
  BeginFirstGroup();
  for (const auto& server : servers_) EXPECT_EQ(server->CopyVersion(), 5);
}

TEST_F(ShardCopiesTest, ReplacedServerHasTheBitsOfTheLostServer) {
  BeginFirstGroup();
  const std::vector<float> lost = ValuesOf(0);
  ReplaceServer0();
  EXPECT_NE(ValuesOf(0), lost) << "it has its initial values";
  ExpectOk(Exchange(Form(2, 5, {0}), {0, 1, 2}));
  EXPECT_EQ(ValuesOf(0), lost);
  EXPECT_EQ(servers_[0]->version(), 5);
  for (const auto& server : servers_) EXPECT_EQ(server->CopyVersion(), 5);
}

TEST_F(ShardCopiesTest, ReplacedServerIsRestoredUnderTls) {
  authority_ = testing::MakeAuthority();
  for (int server = 0; server < 3; ++server) servers_[server] = Start(server);
  BeginFirstGroup();
  const std::vector<float> lost = ValuesOf(0);
  ReplaceServer0();
  ExpectOk(Exchange(Form(2, 5, {0}), {0, 1, 2}));
  EXPECT_EQ(ValuesOf(0), lost);
}

TEST_F(ShardCopiesTest, ExchangeWithAServerThatIsNotThereEndsWithItsName) {
  for (int server = 0; server < 3; ++server) ASSERT_TRUE(servers_[server]->Configure(plan_, server, 1).ok());
  const proto::Form form = Form(1, 0);
  servers_[1] = nullptr;
  const absl::Status status = Exchange(form, {0}, kSecond / 10)[0];
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("server 0: server 1 on host-1 did not take the copy within 0.1 s (timeouts.start)"));
}

TEST_F(ShardCopiesTest, HaltOfTheGroupEndsTheExchange) {
  for (int server = 0; server < 3; ++server) ASSERT_TRUE(servers_[server]->Configure(plan_, server, 1).ok());
  const proto::Form form = Form(1, 0);
  servers_[1] = nullptr;
  std::thread halt([&] { servers_[0]->Interrupt(1); });
  EXPECT_EQ(Exchange(form, {0})[0].code(), absl::StatusCode::kAborted);
  halt.join();
  EXPECT_TRUE(servers_[0]->Halt().ok());
}

TEST_F(ShardCopiesTest, ServerWithoutACopyRefusesToRestoreAnother) {
  for (int server = 0; server < 3; ++server) ASSERT_TRUE(servers_[server]->Configure(plan_, server, 1).ok());
  const absl::Status status = Exchange(Form(1, 0, {0}), {1})[0];
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("it has no copy"));
}

TEST_F(ShardCopiesTest, FrameIsTakenOnlyFromTheServerThatItsShardsMayComeFrom) {
  const auto served = *ServedStore::Create(plan_, 0, 1, 1);
  const auto copies = *ShardCopies::Create({}, plan_, 0, served);
  Frame question;
  question.kind = FrameKind::kCopy;
  const auto ask = [&](int sender, uint32_t of) {
    question.group = of;
    return copies->Take(sender, question, {});
  };
  EXPECT_EQ((*ask(2, 2))->range_count, 0u) << "server 0 is the backup of server 2, and has no version yet";
  EXPECT_THAT(std::string(ask(1, 2).status().message()),
              HasSubstr("server 0 takes no shards of server 2 from server 1"));
  for (const uint32_t of : {1u, 7u, UINT32_MAX}) {
    EXPECT_EQ(ask(2, of).status().code(), absl::StatusCode::kInvalidArgument) << of;
  }
  EXPECT_EQ(ask(2, 0).status().code(), absl::StatusCode::kInvalidArgument) << "its backup is server 1";
  EXPECT_EQ(ask(1, 0).status().code(), absl::StatusCode::kUnavailable) << "it does not take its shards";
}

// ------------------------------------------------------------------------------------- workers on leases

class LeasedShardCopiesTest : public ShardCopiesTest {
 protected:
  LeasedShardCopiesTest() {
    plan_.mutable_job()->mutable_strategy()->mutable_parameter_server()->mutable_asynchronous();
    plan_.mutable_job()->mutable_optimizer()->mutable_sgd()->set_momentum(0);
  }
  std::vector<ServerAddress> Addresses() const { return AddressesOf(Form(1, 0).group().member()); }
  std::unique_ptr<TestWorker> StartWorker() {
    ParameterServerStrategyOptions options;
    options.plan = plan_;
    options.incarnation = options.generation = 1;
    options.servers = Addresses();
    options.token = token_;
    options.clock = &clock_;
    options.checksums_on_loopback = true;
    options.moves = &moves_;
    auto worker = std::make_unique<TestWorker>(plan_, 0, *CreateParameterServerStrategy(std::move(options)));
    EXPECT_TRUE(worker->Prepare().ok());
    return worker;
  }
  void Serve() {
    for (const auto& server : servers_) ASSERT_TRUE(server->Serve().ok());
  }
  void BeginServing() {
    for (int server = 0; server < 3; ++server)
      ASSERT_TRUE(servers_[server]->Configure(plan_, server, 1).ok());
    ExpectOk(Exchange(Form(1, 0), {0, 1, 2}));
    Serve();
  }
  // Another process takes the place of the lost server 0, and the servers form their second group.
  void ReplaceAndServe() {
    for (const int server : {1, 2}) ASSERT_TRUE(servers_[server]->Halt().ok());
    servers_[0] = Start(0);
    ASSERT_TRUE(servers_[0]->Configure(plan_, 0, 1).ok());
    for (const auto& server : servers_) ASSERT_TRUE(server->JoinGroup(Form(2, 0).group(), 0).ok());
    ExpectOk(Exchange(Form(2, 0, {0}), {0, 1, 2}));
    Serve();
    moves_.Move(Addresses());
  }

  ServerMoves moves_;
};

TEST_F(LeasedShardCopiesTest, WorkerGoesOnWithTheServerThatReplacedALostOne) {
  BeginServing();
  const auto worker = StartWorker();
  for (int step = 0; step < 3; ++step) ASSERT_TRUE(worker->Step(step, 8).ok());
  EXPECT_EQ(worker->Parameter(), -0.75f);
  servers_[0] = nullptr;
  // The step begins while a server is lost.
  std::thread lost([&] { EXPECT_TRUE(worker->Step(3, 8).ok()); });
  ReplaceAndServe();
  lost.join();
  EXPECT_EQ(worker->Parameter(), -1.f) << "each push counts once on every server";
  EXPECT_EQ(servers_[0]->TakeApplied().push_size(), 4)
      << "the new server reports the lost server's pushes, too";
  ASSERT_TRUE(worker->Step(4, 8).ok());
  EXPECT_EQ(worker->Parameter(), -1.25f);
}

TEST_F(LeasedShardCopiesTest, AnswerToAFenceWaitsForTheCopyUntilTheServersAreHalted) {
  BeginServing();
  const auto worker = StartWorker();
  ASSERT_TRUE(worker->Step(0, 8).ok());
  servers_[1] = nullptr;  // The backup of server 0.
  std::thread pushes([&] { EXPECT_FALSE(worker->Step(1, 8).ok()); });
  while (servers_[0]->version() < 2) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  std::thread halts([&] { servers_[0]->Interrupt(1); });
  proto::Fence fence;
  fence.set_incarnation(2);
  EXPECT_EQ(servers_[0]->Fence(fence).code(), absl::StatusCode::kAborted);
  halts.join();
  EXPECT_EQ(servers_[0]->TakeApplied().push_size(), 1) << "the copy lacks the second push";
  worker->strategy().Interrupt(absl::AbortedError("the test ends"));
  pushes.join();
}

}  // namespace
}  // namespace tethys
