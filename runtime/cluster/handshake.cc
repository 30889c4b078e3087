#include "runtime/cluster/handshake.h"

#include <openssl/crypto.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <algorithm>
#include <cstring>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "runtime/base/build_id.h"
#include "runtime/tensor/frame.h"

namespace tethys {
namespace {

// By default OpenSSL cleans up in an exit handler, and gRPC threads that are then still connecting crash. The
// first use of OpenSSL decides whether OpenSSL cleans up at exit, so this initializer runs before main, in
// every program that can authenticate. The system frees OpenSSL's memory at the end of the process.
const bool kKeepsOpenSslToTheEnd = OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, nullptr) == 1;

constexpr int kTokenBytes = 16;

constexpr int kSealBits = 24;
constexpr uint64_t kTimeMask = (uint64_t{1} << (64 - kSealBits)) - 1;
constexpr Nanoseconds kTimeUnit = 16 * kMicrosecond;

// Protobuf's serialization is not canonical. But CheckHandshake accepts only a caller of the same build,
// whose serialization is equal.
std::string SignedPart(const proto::Handshake& handshake) {
  proto::Handshake copy = handshake;
  copy.clear_proof();
  return copy.SerializeAsString();
}

}  // namespace

JobToken JobToken::Random() {
  TETHYS_CHECK(kKeepsOpenSslToTheEnd, "OpenSSL cannot be used");
  JobToken token;
  token.bytes_.resize(kTokenBytes);
  TETHYS_CHECK(RAND_bytes(reinterpret_cast<unsigned char*>(token.bytes_.data()), kTokenBytes) == 1);
  return token;
}

absl::StatusOr<JobToken> JobToken::FromHex(absl::string_view hex) {
  if (hex.size() != 2 * kTokenBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("a job token is ", 2 * kTokenBytes, " hexadecimal digits"));
  }
  for (const char c : hex) {
    if (!absl::ascii_isxdigit(c))
      return absl::InvalidArgumentError("a job token has hexadecimal digits only");
  }
  JobToken token;
  token.bytes_.resize(kTokenBytes);
  TETHYS_CHECK(OPENSSL_hexstr2buf_ex(reinterpret_cast<unsigned char*>(token.bytes_.data()), kTokenBytes,
                                     nullptr, std::string(hex).c_str(), '\0') == 1);
  return token;
}

std::string JobToken::ToHex() const { return absl::BytesToHexString(bytes_); }

std::string JobToken::Authenticate(absl::string_view message) const {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  TETHYS_CHECK(HMAC(EVP_sha256(), bytes_.data(), static_cast<int>(bytes_.size()),
                    reinterpret_cast<const unsigned char*>(message.data()), message.size(), digest,
                    &size) != nullptr);
  return std::string(reinterpret_cast<const char*>(digest), size);
}

uint64_t RandomNonce() {
  uint64_t nonce = 0;
  TETHYS_CHECK(RAND_bytes(reinterpret_cast<unsigned char*>(&nonce), sizeof(nonce)) == 1);
  return nonce;
}

void CompleteHandshake(const JobToken& token, uint64_t nonce, proto::Handshake& handshake) {
  handshake.set_wire_version(kWireVersion);
  handshake.set_build_id(BuildId());
  handshake.set_nonce(nonce);
  handshake.set_proof(token.Authenticate(SignedPart(handshake)));
}

absl::Status CheckHandshake(const JobToken& token, uint64_t nonce, const HandshakeExpectation& expected,
                            const proto::Handshake& handshake) {
  const std::string proof = token.Authenticate(SignedPart(handshake));
  if (handshake.nonce() != nonce || handshake.proof().size() != proof.size() ||
      CRYPTO_memcmp(handshake.proof().data(), proof.data(), proof.size()) != 0) {
    return absl::UnauthenticatedError("the caller did not prove knowledge of this job's token");
  }
  const auto differs = [](absl::string_view what, const auto& theirs, const auto& ours,
                          absl::string_view remedy) {
    return absl::FailedPreconditionError(
        absl::StrCat("the caller has another ", what, " (", theirs, ", expected ", ours, "): ", remedy));
  };
  if (handshake.wire_version() != kWireVersion) {
    return differs("wire version", handshake.wire_version(), kWireVersion, "run the same build everywhere");
  }
  if (handshake.build_id() != BuildId()) {
    return differs("build", handshake.build_id(), BuildId(), "run the same build everywhere");
  }
  if (handshake.job_id() != expected.job_id) {
    return differs("job", handshake.job_id(), expected.job_id, "check the address that the caller was given");
  }
  if (expected.job_hash != 0 && handshake.job_hash() != 0 && handshake.job_hash() != expected.job_hash) {
    return differs("job file", absl::Hex(handshake.job_hash()), absl::Hex(expected.job_hash),
                   "start every process from the same job");
  }
  if (expected.model_signature != 0 && handshake.model_signature() != 0 &&
      handshake.model_signature() != expected.model_signature) {
    return differs("model", absl::Hex(handshake.model_signature()), absl::Hex(expected.model_signature),
                   "start every process from the same job");
  }
  if (expected.generation != 0 && handshake.generation() != 0 &&
      handshake.generation() != expected.generation) {
    return differs("generation", handshake.generation(), expected.generation,
                   "the caller was left behind, and must rejoin");
  }
  return absl::OkStatus();
}

uint64_t NonceBook::Sealed(uint64_t time) const {
  const std::string code = key_.Authenticate(std::to_string(time & kTimeMask));
  uint64_t seal = 0;
  std::memcpy(&seal, code.data(), sizeof(seal));
  return (time & kTimeMask) << kSealBits | seal >> (64 - kSealBits);
}

uint64_t NonceBook::Newest() const {
  return std::max(last_, static_cast<uint64_t>(clock_.Now() / kTimeUnit));
}

uint64_t NonceBook::Issue() {
  MutexLock lock(mu_);
  last_ = std::max(last_ + 1, Newest());
  return Sealed(last_);
}

bool NonceBook::Redeem(uint64_t nonce) {
  const uint64_t time = nonce >> kSealBits;
  if (Sealed(time) != nonce) return false;
  const Nanoseconds now = clock_.Now();
  MutexLock lock(mu_);
  const auto age = static_cast<Nanoseconds>((Newest() - time) & kTimeMask) * kTimeUnit;
  if (age > lifetime_) return false;
  std::erase_if(redeemed_, [now](const auto& entry) { return entry.second < now; });
  return redeemed_.emplace(nonce, now + lifetime_).second;
}

}  // namespace tethys
