// Ranks as threads over loopback: each test body runs on every rank at once, with that rank's communicator.
#ifndef TETHYS_TESTS_COLLECTIVES_RING_FIXTURE_H_
#define TETHYS_TESTS_COLLECTIVES_RING_FIXTURE_H_

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "collectives/ring_communicator.h"
#include "gtest/gtest.h"

namespace tethys {

inline const Clock& TestClock() {
  static const MonotonicClock clock;
  return clock;
}

// Listeners and options of one ring. Change `options[rank]` before InRing to make a rank different.
struct TestRing {
  explicit TestRing(int world) {
    const JobToken token = JobToken::Random();
    std::vector<std::string> addresses, names;
    for (int rank = 0; rank < world; ++rank) {
      listeners.push_back(*RingListener::Listen("127.0.0.1"));
      addresses.push_back(listeners.back()->address());
      names.push_back(absl::StrCat("worker ", rank, " on host", rank));
    }
    for (int rank = 0; rank < world; ++rank) {
      RingOptions own;
      own.rank = rank;
      own.addresses = addresses;
      own.member_names = names;
      own.incarnation = 10 + rank;
      own.token = token;
      own.identity.set_role(proto::WORKER);
      own.identity.set_job_id("job");
      own.identity.set_model_signature(7);
      own.clock = &TestClock();
      options.push_back(own);
    }
  }

  absl::StatusOr<std::unique_ptr<Communicator>> Create(int rank) {
    return CreateRingCommunicator(*listeners[rank], options[rank]);
  }

  int world() const { return static_cast<int>(options.size()); }

  std::vector<std::unique_ptr<RingListener>> listeners;
  std::vector<RingOptions> options;
};

// Calls `body` with 0, 1, ... world-1, each on a thread of its own.
inline void OnRanks(int world, const std::function<void(int rank)>& body) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < world; ++rank) threads.emplace_back(body, rank);
  for (std::thread& thread : threads) thread.join();
}

// Forms the ring and runs `body` on every rank; returns what it answered. A communicator lives until all
// bodies have returned, unless the body takes it away.
using RankBody = std::function<absl::Status(std::unique_ptr<Communicator>& communicator)>;
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

inline std::vector<absl::Status> InRing(int world, const RankBody& body) {
  TestRing ring(world);
  return InRing(ring, body);
}

inline void ExpectAllOk(const std::vector<absl::Status>& answers) {
  for (const absl::Status& answer : answers) EXPECT_TRUE(answer.ok()) << StatusText(answer);
}

}  // namespace tethys

#endif  // TETHYS_TESTS_COLLECTIVES_RING_FIXTURE_H_
