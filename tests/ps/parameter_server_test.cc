// Tests a parameter server with unauthenticated callers, garbage, workers of other jobs, broken connections
// and checkpoints.
#include "ps/parameter_server.h"

#include <gmock/gmock.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <gtest/gtest.h>

#include <csignal>
#include <set>
#include <thread>

#include "ps/data_stream.h"
#include "runtime/base/random.h"
#include "runtime/cluster/grpc_status.h"
#include "tests/ps/ps_cluster.h"
#include "tests/ps/tcp_proxy.h"

namespace tethys {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Checks that a worker of the job can still train one step. Most tests end with this check.
void ExpectServes(PsCluster& cluster) {
  const auto worker = cluster.Worker(0);
  ASSERT_TRUE(worker->Prepare().ok());
  ASSERT_TRUE(worker->Step(0, 8).ok());
  EXPECT_EQ(worker->Parameter(), -0.25f);
  EXPECT_EQ(cluster.server(0).TakeApplied().push_size(), 1);
}

// A gRPC client that sends arbitrary messages.
class RawClient {
 public:
  explicit RawClient(const std::string& address)
      : stub_(
            grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), DataChannelArguments())) {}
  ~RawClient() {
    queue_.Shutdown();
    void* tag;
    bool ok;
    while (queue_.Next(&tag, &ok)) {
    }
  }

  uint64_t GetChallenge() {
    grpc::ClientContext context;
    grpc::ByteBuffer answer;
    grpc::Status status;
    const auto call = stub_.PrepareUnaryCall(&context, kGetChallengeMethod,
                                             MakeMessage(grpc::Slice(), grpc::Slice()), &queue_);
    call->StartCall();
    call->Finish(&answer, &status, nullptr);
    EXPECT_TRUE(Next() && status.ok()) << status.error_message();
    grpc::Slice slice;
    proto::Challenge challenge;
    EXPECT_TRUE(answer.DumpToSingleSlice(&slice).ok());
    EXPECT_TRUE(challenge.ParseFromArray(slice.begin(), static_cast<int>(slice.size())));
    return challenge.nonce();
  }

  // Opens `method` with `handshake` in the metadata, writes `message`, and returns the call's status. An
  // empty handshake or message is left out.
  absl::Status Call(const std::string& method, const std::string& handshake, const std::string& message) {
    grpc::ClientContext context;
    if (!handshake.empty()) context.AddMetadata(kHandshakeMetadataKey, handshake);
    const auto stream = stub_.PrepareCall(&context, method, &queue_);
    stream->StartCall(nullptr);
    Next();
    if (!message.empty()) {
      stream->Write(MakeMessage(grpc::Slice(message), grpc::Slice()), nullptr);
      Next();
    }
    grpc::ByteBuffer answer;
    do {
      stream->Read(&answer, nullptr);
    } while (Next());
    grpc::Status status;
    stream->Finish(&status, nullptr);
    Next();
    return FromGrpcStatus(status);
  }

 private:
  bool Next() {
    void* tag;
    bool ok = false;
    return queue_.Next(&tag, &ok) && ok;
  }

  grpc::GenericStub stub_;
  grpc::CompletionQueue queue_;
};

std::string Proved(const PsCluster& cluster, uint64_t nonce, proto::Role role = proto::WORKER,
                   int index = 0) {
  proto::Handshake handshake;
  handshake.set_job_id(cluster.plan().job_id());
  handshake.set_job_hash(cluster.plan().job_hash());
  handshake.set_model_signature(cluster.plan().model_signature());
  handshake.set_generation(PsCluster::kGeneration);
  handshake.set_role(role);
  handshake.set_index(index);
  CompleteHandshake(cluster.token(), nonce, handshake);
  return handshake.SerializeAsString();
}

// ------------------------------------------------------------------- callers and frames that are refused

TEST(ParameterServerTest, CallerWithoutTheTokenIsRefused) {
  PsCluster cluster(TestPlan(1, ""));
  ParameterServerStrategyOptions options = cluster.WorkerOptions(0);
  options.token = JobToken::Random();
  EXPECT_EQ(cluster.Worker(0, options)->Prepare().code(), absl::StatusCode::kUnauthenticated);
  EXPECT_EQ(RawClient(cluster.server(0).address()).Call(kStreamMethod, "", "x").code(),
            absl::StatusCode::kUnauthenticated);
  EXPECT_EQ(RawClient(cluster.server(0).address()).Call(kStreamMethod, "garbage", "x").code(),
            absl::StatusCode::kUnauthenticated);
  ExpectServes(cluster);
}

TEST(ParameterServerTest, UnderTlsOnlyWorkersOfTheJobAreServed) {
  PsCluster cluster(TestPlan(1, "servers: 2"), testing::MakeAuthority());
  const auto refused = [&](const absl::optional<TlsIdentity>& tls) {
    ParameterServerStrategyOptions options = cluster.WorkerOptions(0);
    options.tls = tls;
    return cluster.Worker(0, options)->Prepare();
  };
  const absl::Status other_role = refused(cluster.Identity(proto::PS, 0));
  EXPECT_THAT(std::string(other_role.message()), HasSubstr("its certificate is of ps-0.tethys"));
  EXPECT_TRUE(absl::IsUnauthenticated(refused(cluster.Identity(proto::WORKER, 1))));
  EXPECT_FALSE(refused(testing::IdentityOf(*testing::MakeAuthority(), proto::WORKER, 0)).ok());
  EXPECT_FALSE(refused(absl::nullopt).ok());
  const auto worker = cluster.Worker(0);
  ASSERT_TRUE(worker->Prepare().ok());
  ASSERT_TRUE(worker->Step(0, 8).ok());
  EXPECT_EQ(worker->Parameter(), -0.25f);
}

TEST(ParameterServerTest, UnderTlsServerOfAnotherIndexIsRefused) {
  PsCluster cluster(TestPlan(1, "servers: 2"), testing::MakeAuthority());
  cluster.Redirect(0, cluster.server(1).address());
  EXPECT_FALSE(cluster.Worker(0)->Prepare().ok());
}

TEST(ParameterServerTest, HandshakeProofIsAcceptedOnlyOnce) {
  PsCluster cluster(TestPlan(1, ""));
  RawClient client(cluster.server(0).address());
  const std::string proof = Proved(cluster, client.GetChallenge());
  EXPECT_EQ(client.Call(kStreamMethod, proof, "not a frame").code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(client.Call(kStreamMethod, proof, "not a frame").code(), absl::StatusCode::kUnauthenticated);
  EXPECT_EQ(client.Call(kStreamMethod, Proved(cluster, 12345), "x").code(),
            absl::StatusCode::kUnauthenticated)
      << "a nonce that the server did not issue";
  ExpectServes(cluster);
}

TEST(ParameterServerTest, WorkerOfAnotherJobModelOrGenerationIsRefused) {
  PsCluster cluster(TestPlan(1, ""));
  const auto refused = [&](auto change) {
    ParameterServerStrategyOptions options = cluster.WorkerOptions(0);
    change(options);
    return cluster.Worker(0, options)->Prepare();
  };
  const absl::Status job = refused([](auto& options) { options.plan.set_job_id("job-2"); });
  const absl::Status hash = refused([](auto& options) { options.plan.set_job_hash(12); });
  const absl::Status model = refused([](auto& options) { options.plan.set_model_signature(13); });
  const absl::Status generation = refused([](auto& options) { options.generation = 2; });
  EXPECT_EQ(job.code(), absl::StatusCode::kFailedPrecondition) << job;
  EXPECT_THAT(job.message(), HasSubstr("job-2"));
  EXPECT_EQ(hash.code(), absl::StatusCode::kFailedPrecondition) << hash;
  EXPECT_EQ(model.code(), absl::StatusCode::kFailedPrecondition) << model;
  EXPECT_EQ(generation.code(), absl::StatusCode::kFailedPrecondition) << generation;
  EXPECT_THAT(generation.message(), HasSubstr("generation"));
  ExpectServes(cluster);
}

TEST(ParameterServerTest, CallersThatAreNotWorkersOfTheGroupAreRefused) {
  PsCluster cluster(TestPlan(1, ""));
  RawClient client(cluster.server(0).address());
  const absl::Status role =
      client.Call(kStreamMethod, Proved(cluster, client.GetChallenge(), proto::PS), "x");
  const absl::Status index =
      client.Call(kStreamMethod, Proved(cluster, client.GetChallenge(), proto::WORKER, 1), "x");
  EXPECT_THAT(role.message(), HasSubstr("serves the workers of its group only, but the caller is ps 0"));
  EXPECT_THAT(index.message(), HasSubstr("the caller is worker 1"));
  ExpectServes(cluster);
}

TEST(ParameterServerTest, InvalidFramesAndFramesOfAnotherWorkerAreRefused) {
  PsCluster cluster(TestPlan(1, ""));
  RawClient client(cluster.server(0).address());
  const auto answer_to = [&](const Frame& frame, const std::string& payload) {
    std::string message(kFrameBytes, '\0');
    frame.EncodeTo(message.data());
    return client.Call(kStreamMethod, Proved(cluster, client.GetChallenge()), message + payload);
  };
  EXPECT_THAT(answer_to({.payload_bytes = 100}, "short").message(),
              HasSubstr("announces 100 bytes and carries 5"));
  EXPECT_THAT(answer_to({.rank = 3}, "").message(), HasSubstr("the frame is of rank 3"));
  EXPECT_THAT(answer_to({.kind = FrameKind::kReduce}, "").message(), HasSubstr("expected a push or a pull"));
  ExpectServes(cluster);
}

TEST(ParameterServerTest, UnknownMethodIsRefused) {
  PsCluster cluster(TestPlan(1, ""));
  EXPECT_EQ(RawClient(cluster.server(0).address()).Call("/tethys.Chief/Session", "", "x").code(),
            absl::StatusCode::kUnimplemented);
  ExpectServes(cluster);
}

TEST(ParameterServerTest, ServerStillServesAfterGarbageOnItsPort) {
  std::signal(SIGPIPE, SIG_IGN);
  PsCluster cluster(TestPlan(1, ""));
  RandomStream random(1, RandomPurpose::kTest, 0);
  for (int stranger = 0; stranger < 20; ++stranger) {
    const FileDescriptor connection = ConnectTo(cluster.server(0).address());
    // Half of the connections begin like HTTP/2, so that the garbage reaches the frame parser.
    std::string garbage = stranger % 2 == 0 ? "" : "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    for (int i = 0; i < 1 << 16; ++i) garbage.push_back(static_cast<char>(random.Next32()));
    WriteFully(connection.get(), garbage.data(), garbage.size(), "garbage").IgnoreError();
  }
  ExpectServes(cluster);
}

TEST(ParameterServerTest, StartOnAPortInUseFailsNamingTheAddress) {
  const MonotonicClock clock;
  ParameterServerOptions options;
  options.token = JobToken::Random();
  options.clock = &clock;
  const auto first = ParameterServer::Start(options);
  ASSERT_TRUE(first.ok());
  options.bind_address = (*first)->address();
  const auto second = ParameterServer::Start(options);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(second.status().message(), HasSubstr(options.bind_address));
}

// ---------------------------------------------------------------------------------------- damaged payloads

TEST(ParameterServerTest, DamagedGradients_AreRefusedAndNotApplied) {
  PsCluster cluster(TestPlan(1, ""));
  TcpProxy proxy(cluster.server(0).address());
  cluster.Redirect(0, proxy.address());
  const auto worker = cluster.Worker(0);
  ASSERT_TRUE(worker->Prepare().ok());
  ASSERT_TRUE(worker->Step(0, 8).ok());
  proxy.Damage(16);
  const absl::Status refused = worker->Step(1, 16);
  EXPECT_EQ(refused.code(), absl::StatusCode::kDataLoss) << refused;
  EXPECT_THAT(std::string(refused.message()),
              AllOf(HasSubstr("server 0 refuses worker 0, step 1"), HasSubstr("[push, rank 0"),
                    HasSubstr("range ["), HasSubstr("damaged in transit")));
  EXPECT_EQ(cluster.server(0).version(), 1);
}

TEST(ParameterServerTest, DamagedParameters_FailTheStepAndAreNotUsed) {
  PsCluster cluster(TestPlan(1, ""));
  TcpProxy proxy(cluster.server(0).address());
  cluster.Redirect(0, proxy.address());
  const auto worker = cluster.Worker(0);
  ASSERT_TRUE(worker->Prepare().ok());
  proxy.Damage(-0.25f);
  const absl::Status lost = worker->Step(0, 8);
  EXPECT_EQ(lost.code(), absl::StatusCode::kDataLoss) << lost;
  EXPECT_THAT(std::string(lost.message()),
              AllOf(HasSubstr("server 0 on host-0"), HasSubstr("[parameters, rank 0"), HasSubstr("step 0"),
                    HasSubstr("range ["), HasSubstr("damaged in transit")));
  EXPECT_EQ(worker->Parameter(), 0);
}

// ------------------------------------------------------------------------------------ broken connections

TEST(ParameterServerTest, PushRepeatedAfterALostAnswerIsAppliedOnce) {
  // The push has three messages. A worker sends that many messages without waiting for an answer, so the
  // server gets the whole push.
  PsCluster cluster(TestPlan(1, "", "message_bytes: 2048"));
  TcpProxy proxy(cluster.server(0).address());
  cluster.Redirect(0, proxy.address());
  const auto worker = cluster.Worker(0);
  ASSERT_TRUE(worker->Prepare().ok());
  for (int step = 0; step < 4; ++step) {
    proxy.WithholdAnswers();
    ASSERT_TRUE(worker->Push(step, 8).ok());
    while (cluster.server(0).version() == step) std::this_thread::yield();
    proxy.Cut();
    const auto outcome = worker->Finish();
    ASSERT_TRUE(outcome.ok()) << outcome.status();
    EXPECT_EQ(outcome->version, step + 1);
    EXPECT_EQ(worker->Parameter(), -0.25f * (step + 1));
  }
  EXPECT_EQ(cluster.server(0).TakeApplied().push_size(), 4);
  EXPECT_GE(proxy.connections(), 5);
}

// A server answers a repeated pull twice, and the second answer may come after the next pull was sent.
TEST(ParameterServerTest, PullsOfOneStep_HaveDifferentSequenceNumbers) {
  PsCluster cluster(TestPlan(1, "asynchronous {}"));
  TcpProxy proxy(cluster.server(0).address());
  cluster.Redirect(0, proxy.address());
  const auto worker = cluster.Worker(0);
  ASSERT_TRUE(worker->Prepare().ok());
  for (int barrier = 0; barrier < 2; ++barrier) ASSERT_TRUE(worker->strategy().Refresh().ok());
  std::vector<uint64_t> numbers;
  const std::string sent = proxy.sent();
  for (size_t at = sent.find("TTHF"); at != std::string::npos; at = sent.find("TTHF", at + 1)) {
    const absl::StatusOr<Frame> frame = Frame::Decode(sent.data() + at, sent.size() - at);
    if (frame.ok() && frame->kind == FrameKind::kPull) numbers.push_back(frame->sequence);
  }
  ASSERT_GE(numbers.size(), 3);
  EXPECT_EQ(std::set<uint64_t>(numbers.begin(), numbers.end()).size(), 3);
}

TEST(ParameterServerTest, ConnectionsCutDuringAStepDoNotChangeItsResult) {
  constexpr int kSteps = 30;
  PsCluster cluster(TestPlan(2, "", "message_bytes: 512"));
  TcpProxy proxy(cluster.server(0).address());
  const auto direct = cluster.Worker(1);
  cluster.Redirect(0, proxy.address());
  const auto through_proxy = cluster.Worker(0);
  ASSERT_TRUE(direct->Prepare().ok());
  ASSERT_TRUE(through_proxy->Prepare().ok());
  for (int step = 0; step < kSteps; ++step) {
    if (step % 3 == 0) proxy.Cut();
    ASSERT_TRUE(through_proxy->Push(step, 3).ok());
    if (step % 3 == 1) proxy.Cut();
    ASSERT_TRUE(direct->Push(step, 5).ok());
    if (step % 3 == 2) proxy.Cut();
    ASSERT_TRUE(through_proxy->Finish().ok());
    ASSERT_TRUE(direct->Finish().ok());
    ASSERT_EQ(through_proxy->Parameter(), -0.25f * (step + 1)) << step;
    ASSERT_EQ(direct->Parameter(), -0.25f * (step + 1)) << step;
  }
  EXPECT_EQ(cluster.server(0).TakeApplied().push_size(), 2 * kSteps);
}

// ------------------------------------------------------------------------- configuration, restored state

TEST(ParameterServerTest, WorkersAreToldToRetryUntilServeIsCalled) {
  const MonotonicClock clock;
  ParameterServerOptions options;
  options.token = JobToken::Random();
  options.job_id = "job-1";
  options.clock = &clock;
  const auto server = *ParameterServer::Start(options);
  EXPECT_EQ(server->Serve().code(), absl::StatusCode::kFailedPrecondition);
  const proto::JobPlan plan = TestPlan(1, "");
  ASSERT_TRUE(server->Configure(plan, 0, 3).ok());

  ParameterServerStrategyOptions worker;
  worker.plan = plan;
  // The worker gives up soon if it cannot connect.
  worker.plan.mutable_job()->mutable_elastic()->set_on_loss(proto::Elastic::END);
  worker.generation = 3;
  worker.servers = {{"host-0", server->address()}};
  worker.token = options.token;
  worker.clock = &clock;
  const absl::Status early = TestWorker(plan, 0, *CreateParameterServerStrategy(worker)).Prepare();
  EXPECT_EQ(early.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(early.message(), HasSubstr("not ready yet"));
  ASSERT_TRUE(server->Serve().ok());
  EXPECT_TRUE(TestWorker(plan, 0, *CreateParameterServerStrategy(worker)).Prepare().ok());
}

TEST(ParameterServerTest, PlanThatContradictsItselfIsRefused) {
  const MonotonicClock clock;
  ParameterServerOptions options;
  options.token = JobToken::Random();
  options.clock = &clock;
  const auto server = *ParameterServer::Start(options);
  const auto configure = [&](auto change) {
    proto::JobPlan plan = TestPlan(1, "");
    change(plan);
    return server->Configure(plan, 0, 1).code();
  };
  EXPECT_EQ(configure([](auto& plan) { plan.set_model_signature(1); }), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(configure([](auto& plan) { plan.mutable_variable(1)->set_begin(8); }),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(configure([](auto& plan) { plan.mutable_placement()->mutable_shard(0)->set_count(1 << 30); }),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(configure([](auto&) {}), absl::StatusCode::kOk);
}

TEST(ParameterServerTest, PlanBeyondTheHostsMemory_IsRefusedWithARemedy) {
  const MonotonicClock clock;
  ParameterServerOptions options;
  options.token = JobToken::Random();
  options.clock = &clock;
  const auto server = *ParameterServer::Start(options);
  VariableSet variables;
  ASSERT_TRUE(variables.Add("w", {1 << 20, 1 << 18}, "in,out", InitialValue::kZeros, 1, 1).ok());
  proto::JobPlan plan = TestPlan(3, "");
  plan.clear_variable();
  AddVariables(variables, plan);
  *plan.mutable_placement() = *PlaceShards(variables, 1);
  const absl::Status refused = server->Configure(plan, 0, 1);
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(refused.message(),
              AllOf(HasSubstr("server 0 needs 5 times 1048576 MiB of memory"), HasSubstr("this host has "),
                    HasSubstr("strategy.parameter_server.servers")));
  EXPECT_TRUE(server->Configure(TestPlan(3, ""), 0, 1).ok()) << "it lives";
}

TEST(ParameterServerTest, StateIsRestoredOntoAnotherNumberOfServers) {
  proto::JobPlan two = TestPlan(1, "servers: 2", "", InitialValue::kGlorotUniform);
  two.mutable_job()->mutable_optimizer()->mutable_sgd()->set_momentum(0.5);
  proto::JobPlan three = two;
  three.mutable_job()->mutable_strategy()->mutable_parameter_server()->set_servers(3);
  *three.mutable_placement() = *PlaceShards(TestVariables(), 3);

  // One arena for the parameters and one for the momentum, as in a checkpoint.
  std::vector<Arena> saved;
  for (int slot = 0; slot < 2; ++slot) saved.emplace_back(TestVariables().arena_size());
  std::vector<float> expected;
  {
    PsCluster cluster(two);
    const auto worker = cluster.Worker(0);
    ASSERT_TRUE(worker->Prepare().ok());
    for (int step = 0; step < 3; ++step) ASSERT_TRUE(worker->Step(step, 8).ok());
    for (int server = 0; server < 2; ++server) {
      ASSERT_TRUE(cluster.server(server)
                      .Snapshot([&](int slot, int64_t begin, absl::Span<const float> values) {
                        std::copy(values.begin(), values.end(), saved[slot].data() + begin);
                        return absl::OkStatus();
                      })
                      .ok());
    }
    ASSERT_TRUE(worker->Step(3, 8).ok());
    expected.assign(worker->parameters().begin(), worker->parameters().end());
  }

  PsCluster cluster(three);
  for (int server = 0; server < 3; ++server) {
    ASSERT_TRUE(cluster.server(server)
                    .Restore(3,
                             [&](int slot, int64_t begin, absl::Span<float> values) {
                               std::copy_n(saved[slot].data() + begin, values.size(), values.begin());
                               return absl::OkStatus();
                             })
                    .ok());
  }
  const auto worker = cluster.Worker(0);
  ASSERT_TRUE(worker->Prepare().ok());
  ASSERT_TRUE(worker->Step(3, 8).ok());
  EXPECT_THAT(worker->parameters(), ::testing::ElementsAreArray(expected));
  EXPECT_EQ(cluster.server(0).version(), 4);
}

}  // namespace
}  // namespace tethys
