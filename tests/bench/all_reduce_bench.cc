// Compares three all-reduces on one host: Tethys's over TCP, Tethys's in shared memory, and Gloo's (ring
// algorithm, TCP transport). All three run in the same processes, one rank in each.
//
// Unit: microseconds per all-reduce of 4 KiB, 400 KiB and 4 MiB, by 2 and by 4 ranks. Rounds of the three
// alternate; the median, least and greatest round are printed. Shared memory is reduced in place, as
// gradients are; the other two reduce private memory. Limits, as shares of Gloo's time: over TCP 1.0 (goal
// 0.6); in shared memory with two ranks 0.02, 0.15 and 0.12 for the three sizes (goals 0.01, 0.10 and 0.08).
//
//   all_reduce_bench [ROUNDS]     default 21; exit status 1 if a limit is exceeded
#include <gloo/allreduce.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "collectives/ring_communicator.h"
#include "collectives/shared_memory_communicator.h"
#include "runtime/base/file.h"
#include "tests/testing/open_authenticator.h"

namespace tethys {
namespace {

constexpr double kLimit = 1.0;
constexpr int kMaxWorld = 4;

struct Size {
  const char* name;
  int64_t bytes;
  int calls;            // Calls in one round.
  double shared_limit;  // Limit on (time in shared memory) / (Gloo's time), for two ranks.
};
constexpr Size kSizes[] = {
    {"4 KiB", 4 << 10, 100, 0.02}, {"400 KiB", 400 << 10, 50, 0.15}, {"4 MiB", 4 << 20, 8, 0.12}};

using AllReduce = std::function<void(float* data, int64_t count)>;

// Rank 0's time per call. Some all-reduces precede the measured ones, so that all ranks begin the measurement
// together.
double MicrosecondsPerCall(const AllReduce& all_reduce, float* data, const Size& size) {
  const int64_t count = size.bytes / static_cast<int64_t>(sizeof(float));
  for (int i = 0; i < std::max(1, size.calls / 10); ++i) all_reduce(data, count);
  const MonotonicClock clock;
  const Nanoseconds start = clock.Now();
  for (int i = 0; i < size.calls; ++i) all_reduce(data, count);
  return static_cast<double>(clock.Now() - start) / 1e3 / size.calls;
}

AllReduce Ours(Communicator& communicator) {
  return [&communicator](float* data, int64_t count) {
    const absl::Status status = communicator.AllReduce({data, static_cast<size_t>(count)});
    TETHYS_CHECK(status.ok(), StatusText(status));
  };
}

AllReduce Gloos(std::shared_ptr<gloo::Context> context) {
  return [context](float* data, int64_t count) {
    gloo::AllreduceOptions options(context);
    options.setAlgorithm(gloo::AllreduceOptions::Algorithm::RING);
    options.setOutput(data, count);
    options.setReduceFunction(
        static_cast<void (*)(void*, const void*, const void*, size_t)>(&gloo::sum<float>));
    gloo::allreduce(options);
  };
}

struct Round {
  double tcp = 0;
  double shared = 0;
  double gloo = 0;
};

// Runs in the process of one rank. Rank 0 writes the times of its rounds, size by size, into the pipe
// `results`.
void RunRank(RingListener& listener, RingOptions options, const std::string& store_path, int rounds,
             int results) {
  const int rank = options.rank;
  const int world = options.world();
  absl::StatusOr<std::unique_ptr<Communicator>> communicator = CreateRingCommunicator(listener, options);
  TETHYS_CHECK(communicator.ok(), StatusText(communicator.status()));
  absl::StatusOr<std::unique_ptr<Communicator>> sharer =
      CreateSharedMemoryCommunicator(**communicator, std::vector<int>(world),
                                     {.member_names = options.MemberNames(), .clock = options.clock});
  TETHYS_CHECK(sharer.ok(), StatusText(sharer.status()));

  gloo::transport::tcp::attr attr("127.0.0.1");
  std::shared_ptr<gloo::transport::Device> device = gloo::transport::tcp::CreateDevice(attr);
  gloo::rendezvous::FileStore store(store_path);
  auto context = std::make_shared<gloo::rendezvous::Context>(rank, world);
  context->connectFullMesh(store, device);

  const AllReduce tcp = Ours(**communicator);
  const AllReduce shared = Ours(**sharer);
  const AllReduce gloo = Gloos(context);
  constexpr int64_t kLargest = kSizes[2].bytes / sizeof(float);
  std::vector<float> data(kLargest, 0.0f);
  const absl::StatusOr<float*> arena = (*sharer)->AllocateForReduction(kLargest);
  TETHYS_CHECK(arena.ok() && *arena != nullptr, "no memory to share");
  for (const Size& size : kSizes) {
    for (int i = 0; i < rounds; ++i) {
      Round round;
      round.tcp = MicrosecondsPerCall(tcp, data.data(), size);
      round.shared = MicrosecondsPerCall(shared, *arena, size);
      round.gloo = MicrosecondsPerCall(gloo, data.data(), size);
      if (rank == 0) TETHYS_CHECK(write(results, &round, sizeof(round)) == sizeof(round));
    }
  }
}

std::vector<Round> RunWorld(int world, int rounds) {
  std::vector<std::unique_ptr<RingListener>> listeners;
  RingOptions options;
  options.authenticator = std::make_shared<testing::OpenAuthenticator>();
  const MonotonicClock clock;
  options.clock = &clock;
  for (int rank = 0; rank < world; ++rank) {
    listeners.push_back(*RingListener::Listen("127.0.0.1"));
    options.members.push_back({.address = listeners.back()->address()});
  }
  std::string store_path = "/tmp/all_reduce_bench.XXXXXX";
  TETHYS_CHECK(mkdtemp(store_path.data()) != nullptr);
  int pipe_ends[2];
  TETHYS_CHECK(pipe(pipe_ends) == 0);
  for (int rank = 0; rank < world; ++rank) {
    if (fork() != 0) continue;
    options.rank = rank;
    RunRank(*listeners[rank], options, store_path, rounds, pipe_ends[1]);
    _exit(0);
  }
  close(pipe_ends[1]);
  std::vector<Round> all;
  for (Round round; read(pipe_ends[0], &round, sizeof(round)) == sizeof(round);) all.push_back(round);
  close(pipe_ends[0]);
  for (int rank = 0; rank < world; ++rank) {
    int status = 0;
    TETHYS_CHECK(wait(&status) > 0 && status == 0, "a rank failed");
  }
  TETHYS_CHECK(RemoveRecursively(store_path).ok());
  return all;
}

struct Spread {
  double median, least, greatest;
};
Spread SpreadOf(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return {values[values.size() / 2], values.front(), values.back()};
}

Spread SpreadOf(absl::Span<const Round> rounds, double Round::*medium) {
  std::vector<double> values;
  for (const Round& round : rounds) values.push_back(round.*medium);
  return SpreadOf(std::move(values));
}

// Prints the row of one size and number of ranks. True if the times are within their limits.
bool PrintCell(int world, const Size& size, absl::Span<const Round> rounds) {
  const Spread tcp = SpreadOf(rounds, &Round::tcp), shared = SpreadOf(rounds, &Round::shared),
               gloo = SpreadOf(rounds, &Round::gloo);
  std::printf("%5d  %8s", world, size.name);
  for (const Spread& spread : {tcp, shared, gloo}) {
    std::printf("  %9.1f [%8.1f %8.1f]", spread.median, spread.least, spread.greatest);
  }
  std::printf("  %5.2f  %6.4f\n", tcp.median / gloo.median, shared.median / gloo.median);
  std::fflush(stdout);
  return tcp.median <= kLimit * gloo.median &&
         (world > 2 || shared.median <= size.shared_limit * gloo.median);
}

}  // namespace
}  // namespace tethys

int main(int argc, char** argv) {
  using namespace tethys;
  const int rounds = argc > 1 ? std::max(1, std::atoi(argv[1])) : 21;
  std::printf("all-reduce on one host, us per call: median [least greatest] of %d rounds\n", rounds);
  std::printf("ranks      size  %-29s  %-29s  %-29s  of Gloo's time\n", "TCP", "shared memory", "Gloo");
  bool kept = true;
  for (const int world : {2, kMaxWorld}) {
    const std::vector<Round> all = RunWorld(world, rounds);
    for (size_t i = 0; i < std::size(kSizes); ++i) {
      kept = PrintCell(world, kSizes[i], absl::MakeConstSpan(all).subspan(i * rounds, rounds)) && kept;
    }
  }
  return kept ? 0 : 1;
}
