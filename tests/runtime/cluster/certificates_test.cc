// Tests TLS identities of processes, the line of text that passes a process its secrets, and sockets with
// TLS.
#include "runtime/cluster/certificates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>

#include "runtime/cluster/job_secret.h"
#include "runtime/cluster/secure_socket.h"
#include "tests/testing/certificates.h"

namespace tethys {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::IdentityOf;
using testing::MakeAuthority;
using ::testing::Not;

std::string Message(const absl::Status& status) { return std::string(status.message()); }

// ------------------------------------------------------------------------------------------- identities

TEST(CertificatesTest, IdentityIssuedByTheAuthorityIsValid) {
  const auto authority = MakeAuthority();
  for (const proto::Role role : {proto::CHIEF, proto::WORKER, proto::PS}) {
    EXPECT_TRUE(CheckIdentity(IdentityOf(*authority, role, 3)).ok());
  }
  EXPECT_EQ(CertificateName(proto::PS, 3), "ps-3.tethys");
}

TEST(CertificatesTest, RefusesAnotherJobsCertificate) {
  TlsIdentity identity = IdentityOf(*MakeAuthority(), proto::WORKER, 0);
  identity.authority = IdentityOf(*MakeAuthority(), proto::WORKER, 0).authority;
  EXPECT_THAT(Message(CheckIdentity(identity)), HasSubstr("not issued by the job's authority"));
}

TEST(CertificatesTest, RefusesTheKeyOfAnotherProcess) {
  const auto authority = MakeAuthority();
  TlsIdentity identity = IdentityOf(*authority, proto::WORKER, 0);
  identity.key = IdentityOf(*authority, proto::WORKER, 1).key;
  EXPECT_THAT(Message(CheckIdentity(identity)), HasSubstr("key does not belong"));
}

TEST(CertificatesTest, RefusesExpiredAndNotYetValidCertificates) {
  EXPECT_THAT(Message(CheckIdentity(IdentityOf(*MakeAuthority(testing::kLongAgo), proto::PS, 0))),
              HasSubstr("expired"));
  EXPECT_THAT(Message(CheckIdentity(IdentityOf(*MakeAuthority(-60), proto::PS, 0))), HasSubstr("clock"));
}

TEST(CertificatesTest, AuthorityCreatedLongAgo_IssuesValidCertificates) {
  const auto now = std::chrono::system_clock::now();
  auto present = now - std::chrono::hours(24 * testing::kLongAgo);
  const auto authority = *JobAuthority::Create([&present] { return present; });
  present = now;
  EXPECT_TRUE(CheckIdentity(IdentityOf(*authority, proto::WORKER, 0)).ok());
}

TEST(CertificatesTest, RefusesTruncatedCertificatesAndKeysWithoutQuotingThem) {
  const TlsIdentity sound = IdentityOf(*MakeAuthority(), proto::WORKER, 0);
  for (const auto part : {&TlsIdentity::authority, &TlsIdentity::certificate, &TlsIdentity::key}) {
    // A PEM text is still valid without its last line break and the dash before it.
    for (size_t length = 0; length + 2 < (sound.*part).size(); length += 7) {
      TlsIdentity cut = sound;
      (cut.*part).resize(length);
      const absl::Status status = CheckIdentity(cut);
      EXPECT_TRUE(absl::IsInvalidArgument(status)) << length << ": " << status;
      EXPECT_THAT(Message(status), AllOf(HasSubstr("cut short"), Not(HasSubstr("BEGIN"))));
    }
  }
}

// ---------------------------------------------------------------------------------------------- secrets

TEST(JobSecretTest, ParsedSecretEqualsTheWrittenSecret) {
  JobSecret secret{.token = JobToken::Random(), .job_id = "job-7"};
  EXPECT_EQ(ParseSecretLine(SecretLine(secret))->job_id, "job-7");
  EXPECT_FALSE(ParseSecretLine(SecretLine(secret))->tls.has_value());
  secret.tls = IdentityOf(*MakeAuthority(), proto::WORKER, 2);
  const std::string line = SecretLine(secret);
  EXPECT_LT(line.size(), kMaxSecretLine);
  EXPECT_EQ(line.find('\n'), std::string::npos);
  const absl::StatusOr<JobSecret> read = ParseSecretLine(line);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->token.ToHex(), secret.token.ToHex());
  EXPECT_EQ(read->tls->key, secret.tls->key);
  EXPECT_EQ(read->tls->certificate, secret.tls->certificate);
  EXPECT_EQ(read->tls->authority, secret.tls->authority);
}

TEST(JobSecretTest, SecretLineKeepsDataSecretsWithAndWithoutCertificates) {
  JobSecret secret{.token = JobToken::Random(), .job_id = "job-7", .data_secrets = std::string("a\0 \n", 4)};
  EXPECT_EQ(ParseSecretLine(SecretLine(secret))->data_secrets, secret.data_secrets);
  EXPECT_FALSE(ParseSecretLine(SecretLine(secret))->tls.has_value());
  secret.tls = IdentityOf(*MakeAuthority(), proto::WORKER, 2);
  EXPECT_EQ(ParseSecretLine(SecretLine(secret))->data_secrets, secret.data_secrets);
  EXPECT_EQ(ParseSecretLine(SecretLine(secret))->tls->key, secret.tls->key);
  EXPECT_THAT(Message(ParseSecretLine(secret.token.ToHex() + " job-7 data=??").status()),
              HasSubstr("base64"));
}

TEST(JobSecretTest, SecretLineTruncatedWithinItsCertificatesIsRefused) {
  const std::string line = SecretLine({.token = JobToken::Random(),
                                       .job_id = "job-7",
                                       .tls = IdentityOf(*MakeAuthority(), proto::WORKER, 2)});
  const size_t bare = line.find(' ', line.find(' ') + 1);
  for (size_t length = bare + 1; length + 8 < line.size(); length += 11) {
    EXPECT_FALSE(ParseSecretLine(line.substr(0, length)).ok()) << length;
  }
}

TEST(JobSecretTest, RefusesNonBase64CertificatesWithoutQuotingTheToken) {
  const std::string token = JobToken::Random().ToHex();
  const absl::Status status = ParseSecretLine(token + " job ?? ?? ??").status();
  EXPECT_THAT(Message(status), AllOf(HasSubstr("base64"), Not(HasSubstr(token))));
}

// ---------------------------------------------------------------------------------------------- sockets

// The two ends of a connection, each with its own TLS context or with none.
struct Pair {
  Pair(std::shared_ptr<const TlsContext> caller_tls, std::shared_ptr<const TlsContext> called_tls) {
    int fds[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
    caller = SecureSocket(FileDescriptor(fds[0]), std::move(caller_tls), SecureSocket::End::kCaller);
    called = SecureSocket(FileDescriptor(fds[1]), std::move(called_tls), SecureSocket::End::kCalled);
  }
  // Runs both handshakes until both are complete, or one has failed and the other end has an error as well.
  void Shake() {
    for (int turn = 0; turn < 10; ++turn) {
      if (caller_status.ok()) caller_status = caller.Handshake().status();
      if (called_status.ok()) called_status = called.Handshake().status();
    }
    // With TLS 1.3, a caller learns only by its first read that it was refused.
    char byte;
    iovec part = {.iov_base = &byte, .iov_len = 1};
    if (caller_status.ok() && !called_status.ok()) caller_status = caller.Receive({&part, 1}).status();
  }

  SecureSocket caller;
  SecureSocket called;
  absl::Status caller_status;
  absl::Status called_status;
};

std::shared_ptr<const TlsContext> ContextOf(const JobAuthority& authority, int index) {
  return *TlsContext::Create(IdentityOf(authority, proto::WORKER, index));
}

TEST(SecureSocketTest, EachEndKnowsTheNameInThePeersCertificate) {
  const auto authority = MakeAuthority();
  Pair pair(ContextOf(*authority, 1), ContextOf(*authority, 0));
  pair.Shake();
  EXPECT_TRUE(pair.caller_status.ok() && pair.called_status.ok());
  EXPECT_EQ(pair.caller.peer_name(), "worker-0.tethys");
  EXPECT_EQ(pair.called.peer_name(), "worker-1.tethys");
}

// Sends 3 MB from two buffers at the caller, receives them into two buffers at the called end, and expects
// the same bytes.
void ExpectArrives(Pair& pair) {
  constexpr size_t kHeader = 96, kPayload = 3'000'000;
  std::string sent(kHeader + kPayload, '\0'), received(sent.size(), '\0');
  for (size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<char>(i * 2654435761u >> 24);
  size_t out = 0, in = 0;
  while (in < sent.size()) {
    const size_t header = out < kHeader ? kHeader - out : 0;
    iovec from[] = {{.iov_base = &sent[out], .iov_len = header},
                    {.iov_base = sent.data() + out + header, .iov_len = sent.size() - out - header}};
    const absl::StatusOr<int64_t> moved = pair.caller.Send(absl::MakeSpan(from));
    ASSERT_TRUE(moved.ok()) << moved.status();
    out += *moved;
    const size_t first = std::min<size_t>(received.size() - in, 1000);
    iovec into[] = {{.iov_base = received.data() + in, .iov_len = first},
                    {.iov_base = received.data() + in + first, .iov_len = received.size() - in - first}};
    const absl::StatusOr<int64_t> got = pair.called.Receive(absl::MakeSpan(into));
    ASSERT_TRUE(got.ok()) << got.status();
    in += *got;
  }
  EXPECT_TRUE(sent == received);
}

TEST(SecureSocketTest, BytesArriveInOrderWithAndWithoutTls) {
  const auto authority = MakeAuthority();
  Pair secure(ContextOf(*authority, 1), ContextOf(*authority, 0));
  secure.Shake();
  ExpectArrives(secure);
  Pair bare(nullptr, nullptr);
  ExpectArrives(bare);
}

// The bytes that one end sends and receives.
struct Stream {
  static constexpr size_t kBytes = 3'000'000;

  void Move(SecureSocket& socket) {
    iovec from = {.iov_base = sent.data() + out, .iov_len = kBytes - out};
    const absl::StatusOr<int64_t> moved = out < kBytes ? socket.Send({&from, 1}) : 0;
    ASSERT_TRUE(moved.ok()) << moved.status();
    out += *moved;
    iovec into = {.iov_base = received.data() + in, .iov_len = kBytes - in};
    const absl::StatusOr<int64_t> got = in < kBytes ? socket.Receive({&into, 1}) : 0;
    ASSERT_TRUE(got.ok()) << got.status();
    in += *got;
  }

  std::string sent, received = std::string(kBytes, '\0');
  size_t out = 0, in = 0;
};

// Both ends send as much as their sockets take, so that the sockets are full when a key must be replaced.
TEST(SecureSocketTest, KeyUsedForItsMaximumOfRecords_IsReplacedAtBothEnds) {
  const auto authority = MakeAuthority();
  const auto context = [&](int index) {
    return *TlsContext::Create(IdentityOf(*authority, proto::WORKER, index), /*records_per_key=*/3);
  };
  Pair pair(context(1), context(0));
  pair.Shake();
  ASSERT_TRUE(pair.caller_status.ok() && pair.called_status.ok());
  Stream caller{.sent = std::string(Stream::kBytes, 'a')}, called{.sent = std::string(Stream::kBytes, 'b')};
  for (int turn = 0; turn < 10'000 && std::min(caller.in, called.in) < Stream::kBytes; ++turn) {
    caller.Move(pair.caller);
    called.Move(pair.called);
    ASSERT_FALSE(HasFatalFailure());
  }
  EXPECT_TRUE(caller.received == called.sent && called.received == caller.sent);
  EXPECT_GT(pair.caller.key_updates(), 10);
  EXPECT_GT(pair.called.key_updates(), 10);
}

TEST(SecureSocketTest, ClosedConnectionIsUnavailable) {
  const auto authority = MakeAuthority();
  Pair pair(ContextOf(*authority, 1), ContextOf(*authority, 0));
  pair.Shake();
  pair.called = SecureSocket();
  char byte;
  iovec part = {.iov_base = &byte, .iov_len = 1};
  EXPECT_TRUE(absl::IsUnavailable(pair.caller.Receive({&part, 1}).status()));
  EXPECT_TRUE(absl::IsUnavailable(pair.caller.Send({&part, 1}).status()));
}

TEST(SecureSocketTest, IdentitiesIssuedAtAnyTimeOfALongJob_AreValid) {
  const auto start = std::chrono::system_clock::now() - std::chrono::hours(24 * 400);
  auto present = start;
  const auto authority = *JobAuthority::Create([&present] { return present; });
  const TlsIdentity first = IdentityOf(*authority, proto::WORKER, 0);
  present = std::chrono::system_clock::now();
  const TlsIdentity replacement = IdentityOf(*authority, proto::WORKER, 0);
  EXPECT_TRUE(CheckIdentity(first).ok());
  EXPECT_TRUE(CheckIdentity(replacement).ok());
  Pair pair(*TlsContext::Create(first), *TlsContext::Create(IdentityOf(*authority, proto::WORKER, 1)));
  pair.Shake();
  EXPECT_TRUE(pair.caller_status.ok() && pair.called_status.ok());
}

TEST(SecureSocketTest, CertificateOfAnotherJobIsRefusedAtBothEnds) {
  Pair pair(ContextOf(*MakeAuthority(), 1), ContextOf(*MakeAuthority(), 0));
  pair.Shake();
  EXPECT_TRUE(absl::IsUnauthenticated(pair.caller_status)) << pair.caller_status;
  EXPECT_TRUE(absl::IsUnauthenticated(pair.called_status)) << pair.called_status;
}

TEST(SecureSocketTest, ExpiredCertificateIsRefusedAndTheReasonNamed) {
  const auto authority = MakeAuthority(testing::kLongAgo);
  Pair pair(ContextOf(*authority, 1), ContextOf(*authority, 0));
  pair.Shake();
  EXPECT_THAT(Message(pair.caller_status), HasSubstr("certificate has expired"));
}

TEST(SecureSocketTest, CallerWithoutTlsIsRefused) {
  const auto authority = MakeAuthority();
  Pair pair(nullptr, ContextOf(*authority, 0));
  std::string bytes(100, 'x');
  iovec part = {.iov_base = bytes.data(), .iov_len = bytes.size()};
  ASSERT_TRUE(pair.caller.Send({&part, 1}).ok());
  pair.Shake();
  EXPECT_THAT(Message(pair.called_status), HasSubstr("certificates of the same job"));
}

}  // namespace
}  // namespace tethys
