// Authentication of processes: every gRPC call and ring connection starts with a Handshake, whose proof shows
// knowledge of the job's 128-bit token without sending it. The listening side hands out a nonce; the calling
// side returns
//
//   proof = HMAC-SHA256(token, handshake serialized with an empty proof)       (RFC 2104)
//
// where the handshake contains that nonce. A nonce is valid once, for a few seconds.
#ifndef TETHYS_RUNTIME_CLUSTER_HANDSHAKE_H_
#define TETHYS_RUNTIME_CLUSTER_HANDSHAKE_H_

#include <cstdint>
#include <map>
#include <string>

#include "proto/member.pb.h"
#include "runtime/base/clock.h"
#include "runtime/base/mutex.h"
#include "runtime/base/status.h"

namespace tethys {

// The key of the metadata entry that carries a serialized proto::Handshake.
inline constexpr char kHandshakeMetadataKey[] = "tethys-handshake-bin";

// The secret of one job. It must never appear in a log or on a command line.
class JobToken {
 public:
  static JobToken Random();
  // Parses 32 hexadecimal digits.
  static absl::StatusOr<JobToken> FromHex(absl::string_view hex);
  std::string ToHex() const;
  // The HMAC-SHA256 of the message, 32 bytes.
  std::string Authenticate(absl::string_view message) const;

 private:
  std::string bytes_;
};

uint64_t RandomNonce();

// Fills in wire version, build id and, last, the proof.
void CompleteHandshake(const JobToken& token, uint64_t nonce, proto::Handshake& handshake);

// The values that the listening side expects. A job_hash, model_signature or generation of 0 is not checked.
struct HandshakeExpectation {
  std::string job_id;
  uint64_t job_hash = 0;
  uint64_t model_signature = 0;
  uint32_t generation = 0;
};

// Unauthenticated: the proof is wrong; the error reveals nothing else. FailedPrecondition: the error names
// the field that differs (wire version, build, job, model, generation) and both values.
absl::Status CheckHandshake(const JobToken& token, uint64_t nonce, const HandshakeExpectation& expected,
                            const proto::Handshake& handshake);

// Issues nonces and redeems each once. An issued nonce is not stored: it contains its time of issue and a
// code that only this book can make. So callers that are not authenticated can neither fill the memory nor
// invalidate the nonces of other callers. Thread-safe.
//
// The bits of a nonce, from the highest: 40 bits of time in units of 16 us, which wrap around after 203 days,
// then 24 bits of the HMAC of that time.
class NonceBook {
 public:
  NonceBook(const Clock& clock, Nanoseconds lifetime) : clock_(clock), lifetime_(lifetime) {}
  uint64_t Issue();
  // Returns true once for each nonce that was issued and has not expired. Call it only after the caller's
  // proof was checked, because redeemed nonces are stored until they expire.
  bool Redeem(uint64_t nonce);

 private:
  uint64_t Sealed(uint64_t time) const;
  uint64_t Newest() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const Clock& clock_;
  const Nanoseconds lifetime_;
  const JobToken key_ = JobToken::Random();
  Mutex mu_;
  uint64_t last_ ABSL_GUARDED_BY(mu_) = 0;  // Time of the last nonce; every nonce has its own time.
  // For each redeemed nonce, the latest time at which it expires.
  std::map<uint64_t, Nanoseconds> redeemed_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_CLUSTER_HANDSHAKE_H_
