// Measures exchanges over links of known bandwidth: how much of the link does the ring use, and how close
// does a round with parameter servers come to what the links allow? tests/bench/shaped_links.sh makes the
// machines (network namespaces, each connected to a bridge by its own link) and calls this program:
//
//   link_bench all_reduce --link_mbit=1000 [--bytes=N] [--rounds=N] [--tls=1] NAMESPACE=ADDRESS ...
//   link_bench servers --workers=N --link_mbit=1000 [--bytes=N] [--rounds=N] [--tls=1] [--asynchronous=1]
//              [--message_bytes=N] NAMESPACE=ADDRESS ...
//
// all_reduce: one rank per namespace. The result is the bus bandwidth, 2 (n-1)/n S / t for n ranks and S
// bytes in t seconds, as a share of the link's bandwidth. Limit: at least 0.90, goal 0.95. The maximum is
// 0.956, because a frame of 1,514 bytes carries 1,448 bytes.
//
// servers: the first n namespaces (--workers) hold a worker each, the other m a server each. In a round every
// worker pushes S bytes and receives S bytes. Rounds are bulk-synchronous by default. The result is the
// median time of a worker's round divided by its lower bound max(S/B, n S/(m B)), where B is the bandwidth of
// a link in each direction. Limit: at most 1.25, goal 1.10.
//
// --tls=1: the same under mutual TLS. Runs with and without it show its cost. Limit: TLS keeps at least half
// of the throughput.
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "collectives/ring_communicator.h"
#include "ps/parameter_server.h"
#include "ps/parameter_server_strategy.h"
#include "runtime/base/file.h"
#include "tests/bench/exchange_fixture.h"
#include "tests/testing/open_authenticator.h"

namespace tethys {
namespace {

struct Machine {
  std::string network_namespace;
  std::string address;
};

struct Settings {
  std::string mode;
  int64_t bytes = 4 << 20;
  int64_t message_bytes = 0;  // The size of a message; 0: the default size.
  int asynchronous = 0;
  int rounds = 20;
  int workers = 1;
  int tls = 0;
  double link_mbit = 1000;
  std::vector<Machine> machines;
};

Settings ParseFlags(int argc, char** argv) {
  Settings settings;
  settings.mode = argc > 1 ? argv[1] : "";
  TETHYS_CHECK(settings.mode == "all_reduce" || settings.mode == "servers",
               "the first argument must be all_reduce or servers");
  for (int i = 2; i < argc; ++i) {
    const std::vector<std::string> words = absl::StrSplit(argv[i], absl::MaxSplits('=', 1));
    TETHYS_CHECK(words.size() == 2, "bad word ", argv[i]);
    const auto& [name, value] = std::pair(words[0], words[1]);
    bool ok = true;
    if (name == "--bytes") {
      ok = absl::SimpleAtoi(value, &settings.bytes);
    } else if (name == "--message_bytes") {
      ok = absl::SimpleAtoi(value, &settings.message_bytes);
    } else if (name == "--asynchronous") {
      ok = absl::SimpleAtoi(value, &settings.asynchronous);
    } else if (name == "--rounds") {
      ok = absl::SimpleAtoi(value, &settings.rounds);
    } else if (name == "--workers") {
      ok = absl::SimpleAtoi(value, &settings.workers);
    } else if (name == "--tls") {
      ok = absl::SimpleAtoi(value, &settings.tls);
    } else if (name == "--link_mbit") {
      ok = absl::SimpleAtod(value, &settings.link_mbit);
    } else {
      settings.machines.push_back({name, value});
    }
    TETHYS_CHECK(ok, "bad flag ", argv[i]);
  }
  TETHYS_CHECK(settings.machines.size() >= 2, "name two machines at least");
  return settings;
}

// Memory shared by the processes of one run: the addresses of the processes, once they are known, and the
// measured times.
struct Board {
  static constexpr int kMachines = 64;
  static constexpr int kRounds = 1000;
  int ready[kMachines];
  char address[kMachines][64];
  double seconds[kMachines][kRounds];
  int done;
};

Board& SharedBoard() {
  void* memory = mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  TETHYS_CHECK(memory != MAP_FAILED);
  return *static_cast<Board*>(memory);
}

void Announce(Board& board, int machine, const std::string& address) {
  TETHYS_CHECK(address.size() < sizeof(board.address[0]));
  std::copy(address.begin(), address.end(), board.address[machine]);
  __atomic_store_n(&board.ready[machine], 1, __ATOMIC_RELEASE);
}

std::string AddressOf(Board& board, int machine) {
  while (__atomic_load_n(&board.ready[machine], __ATOMIC_ACQUIRE) == 0) usleep(1000);
  return board.address[machine];
}

// Starts a process that calls `run` in the machine's namespace. The process is killed when this one ends.
void Start(const Machine& machine, const std::function<void()>& run) {
  if (fork() != 0) return;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const std::string path = "/run/netns/" + machine.network_namespace;
  const FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  TETHYS_CHECK(file.get() >= 0, "no network namespace ", path);
  TETHYS_CHECK(setns(file.get(), CLONE_NEWNET) == 0, "cannot enter ", path, ": this takes root");
  run();
  std::_Exit(0);
}

void RunRank(const Settings& settings, const ExchangeFixture& fixture, int rank, Board& board) {
  const MonotonicClock clock;
  const auto listener = *RingListener::Listen(settings.machines[rank].address);
  Announce(board, rank, listener->address());
  RingOptions options;
  options.rank = rank;
  for (size_t i = 0; i < settings.machines.size(); ++i) {
    options.members.push_back({.address = AddressOf(board, static_cast<int>(i)),
                               .certificate = CertificateName(proto::WORKER, static_cast<int>(i))});
  }
  if (const auto identity = fixture.Identity(proto::WORKER, rank))
    options.tls = *TlsContext::Create(*identity);
  options.authenticator = std::make_shared<testing::OpenAuthenticator>();
  options.clock = &clock;
  auto communicator = CreateRingCommunicator(*listener, options);
  TETHYS_CHECK(communicator.ok(), StatusText(communicator.status()));
  std::vector<float> values(settings.bytes / sizeof(float), 1e-3f);
  for (int round = -2; round < settings.rounds; ++round) {
    const Nanoseconds begin = clock.Now();
    const absl::Status status = (*communicator)->AllReduce(absl::MakeSpan(values));
    TETHYS_CHECK(status.ok(), StatusText(status));
    if (round >= 0) board.seconds[rank][round] = ToSeconds(clock.Now() - begin);
  }
  TETHYS_CHECK((*communicator)->Barrier().ok());
}

void RunServer(const Settings& settings, const ExchangeFixture& fixture, int machine, Board& board) {
  const MonotonicClock clock;
  const auto server =
      fixture.StartServer(settings.machines[machine].address, machine - settings.workers, clock);
  Announce(board, machine, server->address());
  while (__atomic_load_n(&board.done, __ATOMIC_ACQUIRE) < settings.workers) usleep(10'000);
}

void RunWorker(const Settings& settings, const ExchangeFixture& fixture, int worker, Board& board) {
  std::vector<ServerAddress> servers;
  for (size_t i = settings.workers; i < settings.machines.size(); ++i) {
    servers.push_back({settings.machines[i].network_namespace, AddressOf(board, static_cast<int>(i))});
  }
  const MonotonicClock clock;
  PushPull exchange(fixture, worker, servers, clock);
  for (int round = -2; round < settings.rounds; ++round) {
    const Nanoseconds begin = clock.Now();
    exchange.Exchange();
    if (round >= 0) board.seconds[worker][round] = ToSeconds(clock.Now() - begin);
  }
  __atomic_fetch_add(&board.done, 1, __ATOMIC_RELEASE);
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

int WaitForAll() {
  int failures = 0;
  int status = 0;
  while (wait(&status) > 0) failures += status == 0 ? 0 : 1;
  return failures;
}

int Run(const Settings& settings) {
  const int machines = static_cast<int>(settings.machines.size());
  TETHYS_CHECK(machines <= Board::kMachines && settings.rounds <= Board::kRounds);
  Board& board = SharedBoard();
  const auto authority = *JobAuthority::Create();
  const bool ring = settings.mode == "all_reduce";
  const int workers = ring ? machines : settings.workers;
  const int servers = machines - workers;
  TETHYS_CHECK(ring || (workers > 0 && servers > 0), "servers needs both workers and servers");
  const ExchangeFixture fixture({.workers = workers,
                                 .servers = std::max(1, servers),
                                 .bytes = settings.bytes,
                                 .message_bytes = settings.message_bytes,
                                 .asynchronous = settings.asynchronous > 0,
                                 .token = JobToken::Random(),
                                 .authority = settings.tls > 0 ? authority.get() : nullptr});
  for (int i = 0; i < machines; ++i) {
    Start(settings.machines[i], [&, i] {
      if (ring) return RunRank(settings, fixture, i, board);
      i < workers ? RunWorker(settings, fixture, i, board) : RunServer(settings, fixture, i, board);
    });
  }
  if (WaitForAll() > 0) return 1;

  std::vector<double> seconds;
  for (int i = 0; i < workers; ++i) {
    seconds.insert(seconds.end(), board.seconds[i], board.seconds[i] + settings.rounds);
  }
  const double median = Median(seconds);
  const double link = settings.link_mbit * 1e6 / 8;
  const auto bytes = static_cast<double>(settings.bytes);
  if (ring) {
    const double bus = 2.0 * (machines - 1) / machines * bytes / median;
    absl::PrintF(
        "%d ranks%s  %8.0f KB  %8.2f ms  bus bandwidth %6.1f MB/s  %.3f of the link (limit 0.90, goal "
        "0.95)\n",
        machines, settings.tls > 0 ? ", TLS" : "", bytes / 1e3, median * 1e3, bus / 1e6, bus / link);
  } else {
    const double bound = std::max(bytes / link, workers * bytes / (servers * link));
    absl::PrintF(
        "%d workers, %d servers%s%s  %8.0f KB  %8.2f ms  %.3f of what the links allow (limit 1.25, goal "
        "1.10)\n",
        workers, servers, settings.asynchronous > 0 ? ", asynchronous" : "", settings.tls > 0 ? ", TLS" : "",
        bytes / 1e3, median * 1e3, median / bound);
  }
  return 0;
}

}  // namespace
}  // namespace tethys

int main(int argc, char** argv) { return tethys::Run(tethys::ParseFlags(argc, argv)); }
