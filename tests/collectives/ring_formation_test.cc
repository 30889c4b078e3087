// Tests which callers a ring accepts and which it refuses. A caller that is no rank must not delay the ring.
#include <poll.h>

#include "gmock/gmock.h"
#include "runtime/base/socket.h"
#include "runtime/tensor/frame.h"
#include "tests/collectives/ring_fixture.h"
#include "tests/testing/open_authenticator.h"

namespace tethys {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// A raw connection to a listener from a caller that is no rank.
class Stranger {
 public:
  explicit Stranger(const RingListener& listener)
      : fd_(*StartConnectTcp(*ParseHostPort(listener.address()))) {
    pollfd polled = {.fd = fd_.get(), .events = POLLOUT, .revents = 0};
    EXPECT_EQ(1, poll(&polled, 1, -1));
  }

  Stranger& Says(std::string bytes) {
    iovec part = {.iov_base = bytes.data(), .iov_len = bytes.size()};
    EXPECT_EQ(static_cast<int64_t>(bytes.size()), *SendSome(fd_.get(), {&part, 1}));
    return *this;
  }

 private:
  FileDescriptor fd_;
};

std::string HandshakeHeader(uint64_t payload_bytes) {
  Frame frame{.kind = FrameKind::kHandshake, .dtype = FrameDType::kNone, .payload_bytes = payload_bytes};
  std::string bytes(kFrameBytes, '\0');
  frame.EncodeTo(bytes.data());
  return bytes;
}

// Expects that the ring forms and that a barrier succeeds.
void ExpectRingForms(TestRing& ring) {
  ExpectAllOk(
      InRing(ring, [](std::unique_ptr<Communicator>& communicator) { return communicator->Barrier(); }));
}

TEST(RingFormation, GarbageFromAStrangerDelaysNoRank) {
  TestRing ring(2);
  Stranger stranger(*ring.listeners[0]);
  stranger.Says(std::string(100'000, 'x'));
  ExpectRingForms(ring);
}

TEST(RingFormation, OversizedHandshakeDelaysNoRank) {
  TestRing ring(2);
  Stranger stranger(*ring.listeners[0]);
  stranger.Says(HandshakeHeader(1 << 20));
  ExpectRingForms(ring);
}

TEST(RingFormation, SilentAndSlowStrangersDelayNoRank) {
  TestRing ring(3);
  std::vector<Stranger> strangers;
  for (int i = 0; i < 100; ++i) strangers.emplace_back(*ring.listeners[i % 2]);
  for (Stranger& stranger : strangers) stranger.Says(HandshakeHeader(200).substr(0, 50));
  ExpectRingForms(ring);
}

TEST(RingFormation, UnreadableHandshakeDelaysNoRank) {
  TestRing ring(2);
  Stranger stranger(*ring.listeners[0]);
  stranger.Says(HandshakeHeader(3) + "abc");
  ExpectRingForms(ring);
}

// Rank 1 calls with options altered by `change` and is refused; with good options the ring then forms.
void ExpectRefused(const std::function<void(TestRing&)>& change, absl::StatusCode code,
                   const std::string& message) {
  TestRing ring(2);
  const RingOptions good = ring.options[1];
  change(ring);
  absl::StatusOr<std::unique_ptr<Communicator>> first;
  std::thread rank0([&] { first = ring.Create(0); });
  const absl::Status refused = ring.Create(1).status();
  EXPECT_EQ(refused.code(), code) << StatusText(refused);
  EXPECT_THAT(std::string(refused.message()),
              AllOf(HasSubstr("rank 0 (worker 0 on host0)"), HasSubstr("refused"), HasSubstr(message)));
  ring.options[1] = good;
  const absl::StatusOr<std::unique_ptr<Communicator>> second = ring.Create(1);
  rank0.join();
  EXPECT_TRUE(first.ok()) << StatusText(first.status());
  EXPECT_TRUE(second.ok()) << StatusText(second.status());
}

// Gives rank 1 an identity altered by `change`.
std::function<void(TestRing&)> WithIdentity(const std::function<void(proto::Handshake&)>& change) {
  return [change](TestRing& ring) {
    proto::Handshake identity = TestRing::Identity();
    change(identity);
    ring.options[1].authenticator = CreateJobAuthenticator(ring.token, identity);
  };
}

// Under TLS, rank 1 fails to join with options altered by `change`; with good options the ring then forms.
void ExpectRefusedUnderTls(const std::function<void(TestRing&)>& change,
                           const ::testing::Matcher<std::string>& message) {
  TestRing ring(2, Medium::kTls);
  const RingOptions good = ring.options[1];
  change(ring);
  absl::StatusOr<std::unique_ptr<Communicator>> first;
  std::thread rank0([&] { first = ring.Create(0); });
  EXPECT_THAT(std::string(ring.Create(1).status().message()), message);
  ring.options[1] = good;
  const absl::StatusOr<std::unique_ptr<Communicator>> second = ring.Create(1);
  rank0.join();
  EXPECT_TRUE(first.ok()) << StatusText(first.status());
  EXPECT_TRUE(second.ok()) << StatusText(second.status());
}

TEST(RingFormation, RankWithAnotherTokenIsRefused) {
  ExpectRefused(
      [](TestRing& ring) {
        ring.options[1].authenticator = CreateJobAuthenticator(JobToken::Random(), TestRing::Identity());
      },
      absl::StatusCode::kUnauthenticated, "token");
}

TEST(RingFormation, RankOfAnotherJobIsRefused) {
  ExpectRefused(WithIdentity([](proto::Handshake& identity) { identity.set_job_id("else"); }),
                absl::StatusCode::kFailedPrecondition, "another job");
}

TEST(RingFormation, RankOfAnotherModelIsRefused) {
  ExpectRefused(WithIdentity([](proto::Handshake& identity) { identity.set_model_signature(8); }),
                absl::StatusCode::kFailedPrecondition, "another model");
}

TEST(RingFormation, RankOfAnotherGenerationIsRefused) {
  ExpectRefused([](TestRing& ring) { ring.options[1].generation = 2; }, absl::StatusCode::kFailedPrecondition,
                "another generation");
}

TEST(RingFormation, ProcessOfAnotherRoleIsRefused) {
  ExpectRefused(WithIdentity([](proto::Handshake& identity) { identity.set_role(proto::PS); }),
                absl::StatusCode::kFailedPrecondition, "is a PS");
}

// Rank 1 begins the next group while rank 0 is still in the previous one.
TEST(RingFormation, RankOfTheNextGroupRetriesUntilItsPeersJoinIt) {
  TestRing ring(2);
  ring.options[1].group = 2;
  absl::StatusOr<std::unique_ptr<Communicator>> ahead;
  std::thread rank1([&] { ahead = ring.Create(1); });
  ring.options[0].connect_timeout = 300 * kMillisecond;
  const absl::Status behind = ring.Create(0).status();
  EXPECT_EQ(behind.code(), absl::StatusCode::kDeadlineExceeded) << StatusText(behind);
  EXPECT_THAT(std::string(behind.message()), HasSubstr("the caller forms group 2, but this ring is group 0"));
  ring.options[0].group = 2;
  ring.options[0].connect_timeout = ring.options[1].connect_timeout;
  const absl::StatusOr<std::unique_ptr<Communicator>> caught_up = ring.Create(0);
  rank1.join();
  EXPECT_TRUE(ahead.ok()) << StatusText(ahead.status());
  EXPECT_TRUE(caught_up.ok()) << StatusText(caught_up.status());
}

TEST(RingFormation, CertificateOfAnotherRankOrRoleIsRefused) {
  const auto shows = [](proto::Role role, int index) {
    return [role, index](TestRing& ring) {
      ring.options[1].tls = *TlsContext::Create(testing::IdentityOf(*ring.authority, role, index));
    };
  };
  ExpectRefusedUnderTls(shows(proto::WORKER, 2), HasSubstr("its certificate is of worker-2.tethys"));
  ExpectRefusedUnderTls(shows(proto::PS, 1), HasSubstr("its certificate is of ps-1.tethys"));
}

TEST(RingFormation, CertificateOfAnotherJobIsRefused) {
  ExpectRefusedUnderTls(
      [](TestRing& ring) {
        ring.options[1].tls =
            *TlsContext::Create(testing::IdentityOf(*testing::MakeAuthority(), proto::WORKER, 1));
      },
      HasSubstr("certificates of the same job"));
}

TEST(RingFormation, CallerWithoutTlsTimesOutAtARingWithTls) {
  ExpectRefusedUnderTls(
      [](TestRing& ring) {
        ring.options[1].tls = nullptr;
        ring.options[1].connect_timeout = 200 * kMillisecond;
      },
      HasSubstr("waited"));
}

TEST(RingFormation, StrangersDelayNoRankUnderTls) {
  TestRing ring(3, Medium::kTls);
  std::vector<Stranger> strangers;
  for (int i = 0; i < 100; ++i) strangers.emplace_back(*ring.listeners[i % 2]);
  for (int i = 0; i < 50; ++i) strangers[i].Says(std::string(1000, 'x'));
  ExpectRingForms(ring);
}

TEST(RingFormation, TimeoutNamesTheMissingRanks) {
  TestRing ring(3);
  ring.options[1].connect_timeout = 200 * kMillisecond;
  const absl::Status status = ring.Create(1).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(
      std::string(status.message()),
      AllOf(HasSubstr(absl::StrCat("rank 0 (worker 0 on host0) at ", ring.options[1].members[0].address)),
            HasSubstr("rank 2 (worker 2 on host2)"), HasSubstr("tethys hosts check")));
}

TEST(RingFormation, ListenerServesSeveralGenerations) {
  TestRing ring(3);
  for (uint32_t generation = 1; generation <= 3; ++generation) {
    for (RingOptions& options : ring.options) options.generation = generation;
    ExpectRingForms(ring);
  }
}

TEST(RingFormation, ListenerServesSeveralGroupsWithoutAWaitBetweenThem) {
  TestRing ring(4);
  OnRanks(ring.world(), [&](int rank) {
    RingOptions options = ring.options[rank];
    for (options.group = 1; options.group <= 20; ++options.group) {
      const auto communicator = CreateRingCommunicator(*ring.listeners[rank], options);
      EXPECT_TRUE(communicator.ok()) << StatusText(communicator.status());
    }
  });
}

TEST(RingFormation, RingFormsWithoutAJob) {
  TestRing ring(3);
  for (RingOptions& options : ring.options) {
    options.authenticator = std::make_shared<testing::OpenAuthenticator>();
  }
  ExpectRingForms(ring);
}

TEST(RingFormation, InvalidRankAndMissingAuthenticatorOrCertificateAreRefused) {
  TestRing ring(2, Medium::kTls);
  ring.options[0].rank = 2;
  EXPECT_EQ(ring.Create(0).status().code(), absl::StatusCode::kInvalidArgument);
  const RingOptions good = ring.options[1];
  ring.options[1].authenticator = nullptr;
  EXPECT_EQ(ring.Create(1).status().code(), absl::StatusCode::kInvalidArgument);
  ring.options[1] = good;
  ring.options[1].members[0].certificate.clear();
  EXPECT_EQ(ring.Create(1).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(RingListener, PortInUseIsRefused) {
  const auto first = *RingListener::Listen("127.0.0.1");
  EXPECT_EQ(RingListener::Listen(first->address()).status().code(), absl::StatusCode::kAlreadyExists);
}

}  // namespace
}  // namespace tethys
