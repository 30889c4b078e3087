// Runs ranks as threads over loopback or shared memory: each test body runs on every rank at once, with that
// rank's communicator.
#ifndef TETHYS_TESTS_COLLECTIVES_RING_FIXTURE_H_
#define TETHYS_TESTS_COLLECTIVES_RING_FIXTURE_H_

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "collectives/exchange.h"
#include "collectives/job_authenticator.h"
#include "collectives/ring_communicator.h"
#include "collectives/shared_memory_communicator.h"
#include "gtest/gtest.h"
#include "tests/testing/certificates.h"

namespace tethys {

inline const Clock& TestClock() {
  static const MonotonicClock clock;
  return clock;
}

enum class Medium {
  kTcp,
  kSharedMemory,
  kTls,
  // Shared memory inside each host, TCP between the hosts; consecutive ranks are on different hosts.
  kTwoHosts,
};

inline std::string MediumName(Medium medium) {
  return medium == Medium::kTcp            ? "Tcp"
         : medium == Medium::kTls          ? "Tls"
         : medium == Medium::kSharedMemory ? "SharedMemory"
                                           : "TwoHosts";
}

// The parameters of tests that run over every medium, and the name of such a test.
inline auto AllMedia() {
  return ::testing::Values(Medium::kTcp, Medium::kTls, Medium::kSharedMemory, Medium::kTwoHosts);
}
inline std::string NameOfMedium(const ::testing::TestParamInfo<Medium>& info) {
  return MediumName(info.param);
}

// Listeners and options of the ranks of one ring. A test may change `options[rank]` before it calls InRing.
struct TestRing {
  explicit TestRing(int world, Medium medium = Medium::kTcp) : medium(medium) {
    std::vector<RingMember> members;
    for (int rank = 0; rank < world; ++rank) {
      const bool second = medium == Medium::kTwoHosts && rank % 2 == 1;
      listeners.push_back(*RingListener::Listen(second ? "127.0.0.2" : "127.0.0.1"));
      members.push_back({.address = listeners.back()->address(),
                         .name = absl::StrCat("worker ", rank, " on host", rank),
                         .certificate = CertificateName(proto::WORKER, rank)});
    }
    for (int rank = 0; rank < world; ++rank) {
      RingOptions own;
      own.rank = rank;
      own.members = members;
      own.incarnation = 10 + rank;
      own.authenticator = CreateJobAuthenticator(token, Identity());
      own.clock = &TestClock();
      if (medium == Medium::kTls) {
        own.tls = *TlsContext::Create(testing::IdentityOf(*authority, proto::WORKER, rank));
      }
      options.push_back(own);
    }
  }

  absl::StatusOr<std::unique_ptr<Communicator>> Create(int rank) {
    const RingOptions& own = options[rank];
    if (medium == Medium::kTwoHosts) {
      TETHYS_ASSIGN_OR_RETURN(Exchange exchange,
                              CreateExchange(*listeners[rank], own, proto::Tuning::AUTOMATIC));
      return std::move(exchange.communicator);
    }
    TETHYS_ASSIGN_OR_RETURN(std::unique_ptr<Communicator> ring,
                            CreateRingCommunicator(*listeners[rank], own));
    if (medium == Medium::kTcp || medium == Medium::kTls) return ring;
    return CreateSharedMemoryCommunicator(*ring, std::vector<int>(world()),
                                          {.member_names = own.MemberNames(),
                                           .step_timeout = own.step_timeout,
                                           .peers_compute = own.peers_compute,
                                           .clock = own.clock,
                                           .interruption = own.interruption});
  }

  int world() const { return static_cast<int>(options.size()); }

  static proto::Handshake Identity() {
    proto::Handshake identity;
    identity.set_role(proto::WORKER);
    identity.set_job_id("job");
    identity.set_model_signature(7);
    return identity;
  }

  const Medium medium;
  const JobToken token = JobToken::Random();
  const std::unique_ptr<JobAuthority> authority = testing::MakeAuthority();
  std::vector<std::unique_ptr<RingListener>> listeners;
  std::vector<RingOptions> options;
};

// Calls `body` with 0, 1, ... world-1, each in its own thread.
inline void OnRanks(int world, const std::function<void(int rank)>& body) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < world; ++rank) threads.emplace_back(body, rank);
  for (std::thread& thread : threads) thread.join();
}

using RankBody = std::function<absl::Status(std::unique_ptr<Communicator>& communicator)>;

// Forms the ring, runs `body` on every rank and returns the result of each. All communicators live until the
// last body has returned, unless a body resets its communicator.
inline std::vector<absl::Status> InRing(TestRing& ring, const RankBody& body) {
  std::vector<std::unique_ptr<Communicator>> communicators(ring.world());
  std::vector<absl::Status> answers(ring.world());
  OnRanks(ring.world(), [&](int rank) {
    absl::StatusOr<std::unique_ptr<Communicator>> made = ring.Create(rank);
    answers[rank] = made.status();
    if (!made.ok()) return;
    communicators[rank] = *std::move(made);
    answers[rank] = body(communicators[rank]);
  });
  return answers;
}

inline std::vector<absl::Status> InRing(int world, const RankBody& body, Medium medium = Medium::kTcp) {
  TestRing ring(world, medium);
  return InRing(ring, body);
}

inline void ExpectAllOk(const std::vector<absl::Status>& answers) {
  for (const absl::Status& answer : answers) EXPECT_TRUE(answer.ok()) << StatusText(answer);
}

}  // namespace tethys

#endif  // TETHYS_TESTS_COLLECTIVES_RING_FIXTURE_H_
