// All-reduce over TCP on loopback: ours against Gloo's (ring, TCP transport), the same processes, one rank
// each.
//
// Measures microseconds per all-reduce of 4 KiB, 400 KiB and 4 MiB by 2 and 4 ranks: medians over rounds that
// take turns between the two, with the least and the greatest round. Limit: at most 1.0 x Gloo's time; goal
// 0.6 x.
//
//   all_reduce_bench [ROUNDS]     default 21; status 1 when a cell is above the limit
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
#include "runtime/base/file.h"

namespace tethys {
namespace {

constexpr double kLimit = 1.0;
constexpr int kMaxWorld = 4;

struct Size {
  const char* name;
  int64_t bytes;
  int calls;  // Per round.
};
constexpr Size kSizes[] = {{"4 KiB", 4 << 10, 100}, {"400 KiB", 400 << 10, 50}, {"4 MiB", 4 << 20, 8}};

using AllReduce = std::function<void(float* data, int64_t count)>;

// Rank 0's time for a call. All ranks pass through the all-reduce before, so all begin together.
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
  double ours = 0;
  double gloos = 0;
};

// One rank's process. Rank 0 writes its rounds, cell after cell, to `results`.
void RunRank(RingListener& listener, RingOptions options, const std::string& store_path, int rounds,
             int results) {
  const int rank = options.rank;
  const int world = static_cast<int>(options.addresses.size());
  absl::StatusOr<std::unique_ptr<Communicator>> communicator = CreateRingCommunicator(listener, options);
  TETHYS_CHECK(communicator.ok(), StatusText(communicator.status()));

  gloo::transport::tcp::attr attr("127.0.0.1");
  std::shared_ptr<gloo::transport::Device> device = gloo::transport::tcp::CreateDevice(attr);
  gloo::rendezvous::FileStore store(store_path);
  auto context = std::make_shared<gloo::rendezvous::Context>(rank, world);
  context->connectFullMesh(store, device);

  const AllReduce ours = Ours(**communicator);
  const AllReduce gloos = Gloos(context);
  std::vector<float> data(kSizes[2].bytes / sizeof(float), 0.0f);
  for (const Size& size : kSizes) {
    for (int i = 0; i < rounds; ++i) {
      Round round;
      round.ours = MicrosecondsPerCall(ours, data.data(), size);
      round.gloos = MicrosecondsPerCall(gloos, data.data(), size);
      if (rank == 0) TETHYS_CHECK(write(results, &round, sizeof(round)) == sizeof(round));
    }
  }
}

std::vector<Round> RunWorld(int world, int rounds) {
  std::vector<std::unique_ptr<RingListener>> listeners;
  RingOptions options;
  options.token = JobToken::Random();
  options.identity.set_role(proto::WORKER);
  options.identity.set_job_id("bench");
  const MonotonicClock clock;
  options.clock = &clock;
  for (int rank = 0; rank < world; ++rank) {
    listeners.push_back(*RingListener::Listen("127.0.0.1"));
    options.addresses.push_back(listeners.back()->address());
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

// True when the cell keeps the limit.
bool PrintCell(int world, const Size& size, absl::Span<const Round> rounds) {
  std::vector<double> ours, gloos;
  for (const Round& round : rounds) {
    ours.push_back(round.ours);
    gloos.push_back(round.gloos);
  }
  const Spread a = SpreadOf(ours), b = SpreadOf(gloos);
  std::printf("%5d  %8s  %9.1f [%8.1f %8.1f]  %9.1f [%8.1f %8.1f]  %5.2f\n", world, size.name, a.median,
              a.least, a.greatest, b.median, b.least, b.greatest, a.median / b.median);
  std::fflush(stdout);
  return a.median <= kLimit * b.median;
}

}  // namespace
}  // namespace tethys

int main(int argc, char** argv) {
  using namespace tethys;
  const int rounds = argc > 1 ? std::max(1, std::atoi(argv[1])) : 21;
  std::printf("all-reduce over loopback TCP, us per call: median [least greatest] of %d rounds\n", rounds);
  std::printf(
      "ranks      size       ours                             Gloo                       ratio (limit %.1f, "
      "goal 0.6)\n",
      kLimit);
  bool kept = true;
  for (const int world : {2, kMaxWorld}) {
    const std::vector<Round> all = RunWorld(world, rounds);
    for (size_t i = 0; i < std::size(kSizes); ++i) {
      kept = PrintCell(world, kSizes[i], absl::MakeConstSpan(all).subspan(i * rounds, rounds)) && kept;
    }
  }
  return kept ? 0 : 1;
}
