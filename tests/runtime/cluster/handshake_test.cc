#include "runtime/cluster/handshake.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/crypto.h>

#include <cstdio>
#include <cstdlib>
#include <set>

#include "absl/strings/escaping.h"
#include "tests/testing/fake_clock.h"

namespace tethys {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Threads of gRPC may still connect while exit handlers run.
TEST(OpenSslTest, OpenSslStaysUsableWhileExitHandlersRun) {
  const auto use_and_exit = [] {
    JobToken::Random();
    OPENSSL_atexit([] { std::fputs("OpenSSL has cleaned up", stderr); });
    std::exit(0);
  };
  EXPECT_EXIT(use_and_exit(), ::testing::ExitedWithCode(0), "^$");
}

class HandshakeTest : public ::testing::Test {
 protected:
  HandshakeTest() {
    expected_.job_id = "job";
    expected_.job_hash = 11;
    expected_.model_signature = 22;
    expected_.generation = 1;
    handshake_.set_job_id("job");
    handshake_.set_job_hash(11);
    handshake_.set_model_signature(22);
    handshake_.set_generation(1);
    handshake_.set_role(proto::WORKER);
  }
  absl::Status Check() {
    CompleteHandshake(token_, 5, handshake_);
    return CheckHandshake(token_, 5, expected_, handshake_);
  }
  void ExpectRefused(const std::string& field) {
    const absl::Status status = Check();
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(field));
  }

  const JobToken token_ = JobToken::Random();
  HandshakeExpectation expected_;
  proto::Handshake handshake_;
};

TEST_F(HandshakeTest, ProcessOfTheJobIsAdmitted) { EXPECT_TRUE(Check().ok()) << Check(); }

TEST_F(HandshakeTest, HandshakeFieldsThatAreZeroAreNotChecked) {
  handshake_.set_job_hash(0);
  handshake_.set_model_signature(0);
  handshake_.set_generation(0);
  EXPECT_TRUE(Check().ok());
}

TEST_F(HandshakeTest, RefusalNamesTheHandshakeFieldThatDiffers) {
  handshake_.set_job_id("other");
  ExpectRefused("another job (other, expected job)");
  handshake_.set_job_id("job");
  handshake_.set_job_hash(12);
  ExpectRefused("job file");
  handshake_.set_job_hash(11);
  handshake_.set_model_signature(23);
  ExpectRefused("model");
  handshake_.set_model_signature(22);
  handshake_.set_generation(2);
  ExpectRefused("generation");
}

TEST_F(HandshakeTest, ProcessOfAnotherBuildIsRefused) {
  CompleteHandshake(token_, 5, handshake_);
  handshake_.set_build_id("another");
  handshake_.clear_proof();
  handshake_.set_proof(token_.Authenticate(handshake_.SerializeAsString()));
  const absl::Status status = CheckHandshake(token_, 5, expected_, handshake_);
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("build"));
}

TEST_F(HandshakeTest, WrongTokenIsRefusedWithoutNamingAField) {
  handshake_.set_job_id("other");
  CompleteHandshake(JobToken::Random(), 5, handshake_);
  const absl::Status status = CheckHandshake(token_, 5, expected_, handshake_);
  EXPECT_TRUE(absl::IsUnauthenticated(status));
  EXPECT_THAT(std::string(status.message()), Not(HasSubstr("other")));
}

TEST_F(HandshakeTest, HandshakeChangedAfterItsProofWasComputedIsRefused) {
  CompleteHandshake(token_, 5, handshake_);
  handshake_.set_index(1);
  EXPECT_TRUE(absl::IsUnauthenticated(CheckHandshake(token_, 5, expected_, handshake_)));
}

TEST_F(HandshakeTest, ProofForAnotherNonceIsRefused) {
  CompleteHandshake(token_, 5, handshake_);
  EXPECT_TRUE(absl::IsUnauthenticated(CheckHandshake(token_, 6, expected_, handshake_)));
}

TEST(JobTokenTest, TokenRoundTripsThroughHexAndRefusesMalformedHex) {
  const JobToken token = JobToken::Random();
  EXPECT_EQ(JobToken::FromHex(token.ToHex())->ToHex(), token.ToHex());
  EXPECT_NE(JobToken::Random().ToHex(), token.ToHex());
  for (const char* bad : {"", "0123", "0123456789abcdef0123456789abcdeg"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(JobToken::FromHex(bad).status())) << bad;
  }
}

// Python computed the digest: hmac.new(bytes(range(16)), b"Hi There", "sha256").
TEST(JobTokenTest, TokenAuthenticatesByHmacSha256) {
  const std::string digest = JobToken::FromHex("000102030405060708090a0b0c0d0e0f")->Authenticate("Hi There");
  EXPECT_EQ(absl::BytesToHexString(digest),
            "3afd7fe7437c3ecadb2d089e7a65c8f994a3bff46f9a8eb3d3d453b9fa5acc34");
}

TEST(NonceBookTest, NonceCanBeRedeemedOnceBeforeItExpires) {
  FakeClock clock;
  NonceBook book(clock, 10 * kSecond);
  const uint64_t nonce = book.Issue();
  EXPECT_TRUE(book.Redeem(nonce));
  EXPECT_FALSE(book.Redeem(nonce));
  const uint64_t late = book.Issue();
  const uint64_t in_time = book.Issue();
  clock.Advance(9 * kSecond);
  EXPECT_TRUE(book.Redeem(in_time));
  EXPECT_FALSE(book.Redeem(nonce));
  clock.Advance(2 * kSecond);
  EXPECT_FALSE(book.Redeem(late));
  EXPECT_FALSE(book.Redeem(in_time));
}

TEST(NonceBookTest, NonceThatTheBookDidNotIssue_IsRefused) {
  FakeClock clock;
  NonceBook book(clock, 10 * kSecond), other(clock, 10 * kSecond);
  const uint64_t nonce = book.Issue();
  EXPECT_FALSE(book.Redeem(other.Issue()));
  for (int bit = 0; bit < 64; ++bit) EXPECT_FALSE(book.Redeem(nonce ^ uint64_t{1} << bit)) << bit;
  EXPECT_TRUE(book.Redeem(nonce));
}

// Issues as many nonces as a server can issue in seconds, after an authentic caller got its nonce and before
// that nonce is redeemed.
TEST(NonceBookTest, ManyUnredeemedNonces_DoNotInvalidateTheNonceOfAnAuthenticCaller) {
  FakeClock clock;
  NonceBook book(clock, 10 * kSecond);
  const uint64_t authentic = book.Issue();
  std::set<uint64_t> seen = {authentic};
  for (int stranger = 0; stranger < 20'000; ++stranger) EXPECT_TRUE(seen.insert(book.Issue()).second);
  EXPECT_TRUE(book.Redeem(authentic));
  EXPECT_TRUE(book.Redeem(book.Issue()));
}

}  // namespace
}  // namespace tethys
