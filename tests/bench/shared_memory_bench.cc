// Measures all-reduce in shared memory between two processes, in place, as gradients are reduced. For each
// size, given in KiB, prints a line with the median time of a call in microseconds. Has no limit:
// tests/bench/peers/shared_memory_peers.py runs it and compares its times with Open MPI's.
//
//   shared_memory_bench KIB...
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include "collectives/ring_communicator.h"
#include "collectives/shared_memory_communicator.h"
#include "tests/testing/open_authenticator.h"

namespace tethys {
namespace {

constexpr int kWorld = 2;
constexpr int kRepeats = 15;

// The work of one rank. Only rank 0 prints the times.
void RunRank(RingListener& listener, const RingOptions& options, const std::vector<int64_t>& counts) {
  const absl::StatusOr<std::unique_ptr<Communicator>> ring = CreateRingCommunicator(listener, options);
  TETHYS_CHECK(ring.ok(), StatusText(ring.status()));
  const auto ranks = CreateSharedMemoryCommunicator(
      **ring, std::vector<int>(kWorld), {.member_names = options.MemberNames(), .clock = options.clock});
  TETHYS_CHECK(ranks.ok(), StatusText(ranks.status()));
  const auto arena = (*ranks)->AllocateForReduction(*std::max_element(counts.begin(), counts.end()));
  TETHYS_CHECK(arena.ok() && *arena != nullptr, "no memory to share");
  for (const int64_t count : counts) {
    const auto calls = std::clamp<int64_t>(2'000'000 / count, 8, 200);
    std::vector<double> times;
    for (int repeat = 0; repeat < kRepeats; ++repeat) {
      TETHYS_CHECK((*ranks)->Barrier().ok());
      const Nanoseconds start = options.clock->Now();
      for (int64_t call = 0; call < calls; ++call) {
        TETHYS_CHECK((*ranks)->AllReduce({*arena, static_cast<size_t>(count)}).ok());
      }
      times.push_back(static_cast<double>(options.clock->Now() - start) / 1e3 / static_cast<double>(calls));
    }
    std::sort(times.begin(), times.end());
    if (options.rank == 0) std::printf("%.2f\n", times[kRepeats / 2]);
  }
  std::fflush(stdout);
}

int Run(const std::vector<int64_t>& counts) {
  const MonotonicClock clock;
  std::vector<std::unique_ptr<RingListener>> listeners;
  RingOptions options;
  options.authenticator = std::make_shared<testing::OpenAuthenticator>();
  options.clock = &clock;
  for (int rank = 0; rank < kWorld; ++rank) {
    listeners.push_back(*RingListener::Listen("127.0.0.1"));
    options.members.push_back({.address = listeners.back()->address()});
  }
  for (options.rank = 0; options.rank < kWorld; ++options.rank) {
    if (fork() != 0) continue;
    RunRank(*listeners[options.rank], options, counts);
    _exit(0);
  }
  bool ok = true;
  for (int rank = 0; rank < kWorld; ++rank) {
    int status = 0;
    ok = wait(&status) > 0 && status == 0 && ok;
  }
  return ok ? 0 : 1;
}

}  // namespace
}  // namespace tethys

int main(int argc, char** argv) {
  std::vector<int64_t> counts;
  for (int i = 1; i < argc; ++i) counts.push_back(std::max(1, std::atoi(argv[i])) * 256);
  return counts.empty() ? 2 : tethys::Run(counts);
}
