// Measures the cost of mutual TLS: the same exchanges under TLS and bare (without TLS), alternately in one
// run on one machine.
//
// Unit: microseconds per push and pull with a parameter server (gRPC) and per all-reduce of two ranks over
// the ring's sockets, medians over rounds. The two ends are processes, which share the machine's cores.
//
// There is no limit here, because loopback moves 4 to 8 GB/s and a core encrypts about 5 GB/s. The limit, at
// least 0.5 of the bare throughput, is for links between machines, where TLS is on by default (link_bench
// --tls=1, called by shaped_links.sh).
//
//   tls_bench [ROUNDS]     default 11
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "collectives/ring_communicator.h"
#include "ps/data_stream.h"
#include "tests/bench/exchange_fixture.h"
#include "tests/testing/open_authenticator.h"

namespace tethys {
namespace {

struct Size {
  const char* name;
  int64_t bytes;
  int calls;  // Calls in one round.
};
constexpr Size kSizes[] = {{"4 KiB", 4 << 10, 200}, {"400 KiB", 400 << 10, 100}, {"4 MiB", 4 << 20, 15}};

double MicrosecondsPerCall(int calls, const std::function<void()>& call) {
  for (int i = 0; i < std::max(1, calls / 10); ++i) call();
  const MonotonicClock clock;
  const Nanoseconds start = clock.Now();
  for (int i = 0; i < calls; ++i) call();
  return static_cast<double>(clock.Now() - start) / 1e3 / calls;
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Measures the exchange with and without TLS in alternate rounds, and prints a row of the table.
void Compare(const char* what, const Size& size, int rounds, const std::function<void()>& bare,
             const std::function<void()>& secure) {
  std::vector<double> bare_times, secure_times;
  for (int round = 0; round < rounds; ++round) {
    bare_times.push_back(MicrosecondsPerCall(size.calls, bare));
    secure_times.push_back(MicrosecondsPerCall(size.calls, secure));
  }
  const double ratio = Median(bare_times) / Median(secure_times);
  std::printf("%-12s  %8s  %10.1f  %10.1f  %10.2f\n", what, size.name, Median(bare_times),
              Median(secure_times), ratio);
  std::fflush(stdout);
}

// -------------------------------------------------------------------------------------- parameter servers

// A server process, which lives until the pipe `lifeline` closes.
struct ServerProcess {
  ServerProcess(const ExchangeFixture& fixture, const std::vector<int>& lifeline) {
    int report[2];
    TETHYS_CHECK(pipe(report) == 0);
    pid = fork();
    if (pid == 0) {
      close(lifeline[1]);
      const MonotonicClock clock;
      const auto server = fixture.StartServer("127.0.0.1:0", 0, clock);
      const std::string line = server->address() + "\n";
      TETHYS_CHECK(write(report[1], line.data(), line.size()) > 0);
      char c;
      while (read(lifeline[0], &c, 1) > 0) {
      }
      std::_Exit(0);
    }
    close(report[1]);
    for (char c; read(report[0], &c, 1) == 1 && c != '\n';) address += c;
    close(report[0]);
  }
  pid_t pid;
  std::string address;
};

void ComparePushPull(const JobAuthority& authority, int rounds) {
  std::vector<int> lifeline(2);
  TETHYS_CHECK(pipe(lifeline.data()) == 0);
  std::vector<ExchangeFixture> fixtures;  // Two for each size: first without, then with TLS.
  for (const Size& size : kSizes) {
    const ExchangeOptions bare{.bytes = size.bytes, .token = JobToken::Random()};
    ExchangeOptions secure = bare;
    secure.authority = &authority;
    fixtures.emplace_back(bare);
    fixtures.emplace_back(secure);
  }
  std::vector<ServerProcess> servers;
  for (const ExchangeFixture& fixture : fixtures) servers.emplace_back(fixture, lifeline);
  close(lifeline[0]);
  const MonotonicClock clock;
  for (size_t i = 0; i < std::size(kSizes); ++i) {
    PushPull bare(fixtures[2 * i], 0, {{"localhost", servers[2 * i].address}}, clock);
    PushPull secure(fixtures[2 * i + 1], 0, {{"localhost", servers[2 * i + 1].address}}, clock);
    Compare(
        "push + pull", kSizes[i], rounds, [&] { bare.Exchange(); }, [&] { secure.Exchange(); });
  }
  close(lifeline[1]);
  for (const ServerProcess& server : servers) waitpid(server.pid, nullptr, 0);
}

// ------------------------------------------------------------------------------------------------- the ring

std::unique_ptr<Communicator> Join(RingListener& listener, RingOptions options,
                                   const JobAuthority* authority) {
  if (authority != nullptr) {
    options.tls = *TlsContext::Create(*authority->Issue(proto::WORKER, options.rank));
    for (const int rank : {0, 1}) options.members[rank].certificate = CertificateName(proto::WORKER, rank);
  }
  auto communicator = CreateRingCommunicator(listener, options);
  TETHYS_CHECK(communicator.ok(), StatusText(communicator.status()));
  return *std::move(communicator);
}

// The work of one rank. Only rank 0 prints the times.
void RunRank(RingListener& listener, const RingOptions& options, const JobAuthority& authority, int rounds) {
  const auto bare = Join(listener, options, nullptr);
  const auto secure = Join(listener, options, &authority);
  for (const Size& size : kSizes) {
    std::vector<float> data(size.bytes / static_cast<int64_t>(sizeof(float)), 0.0f);
    const auto reduce = [&data](Communicator& communicator) {
      const absl::Status status = communicator.AllReduce(absl::MakeSpan(data));
      TETHYS_CHECK(status.ok(), StatusText(status));
    };
    Compare(
        "all-reduce", size, rounds, [&] { reduce(*bare); }, [&] { reduce(*secure); });
  }
}

void CompareAllReduce(const JobAuthority& authority, int rounds) {
  const MonotonicClock clock;
  RingOptions options;
  options.authenticator = std::make_shared<testing::OpenAuthenticator>();
  options.clock = &clock;
  std::vector<std::unique_ptr<RingListener>> listeners;
  for (int rank = 0; rank < 2; ++rank) {
    listeners.push_back(*RingListener::Listen("127.0.0.1"));
    options.members.push_back({.address = listeners.back()->address()});
  }
  const pid_t other = fork();
  options.rank = other == 0 ? 1 : 0;
  if (other == 0) {
    TETHYS_CHECK(std::freopen("/dev/null", "w", stdout) != nullptr);
    RunRank(*listeners[1], options, authority, rounds);
    std::_Exit(0);
  }
  RunRank(*listeners[0], options, authority, rounds);
  waitpid(other, nullptr, 0);
}

}  // namespace
}  // namespace tethys

int main(int argc, char** argv) {
  using namespace tethys;
  const int rounds = argc > 1 ? std::max(1, std::atoi(argv[1])) : 11;
  const auto authority = *JobAuthority::Create();
  KeepMessageMemory();
  std::printf("mutual TLS on loopback, us per call, medians of %d rounds\n", rounds);
  std::printf("%-12s  %8s  %10s  %10s  %10s\n", "", "size", "bare", "TLS", "throughput");
  std::fflush(stdout);  // Otherwise the ranks, which are forked, would print these lines again.
  // The ring is measured first, because gRPC does not survive a fork.
  CompareAllReduce(*authority, rounds);
  ComparePushPull(*authority, rounds);
  return 0;
}
