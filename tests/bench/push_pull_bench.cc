// Measures one exchange with a parameter server over loopback: a push of 1 MiB of gradients, the update
// without momentum, and 1 MiB of parameters back. Rounds of this exchange alternate with rounds of a raw TCP
// ping-pong of the same bytes. Unit: microseconds per exchange, medians. Limit: at most 1.5 times raw TCP;
// goal 1.3. The same exchange is also measured with checksums of payloads. Loopback omits checksums, so this
// measurement shows what checksums would cost on an equally fast network.
//
//   push_pull_bench [--message_bytes=N] [--bytes=N] [--rounds=N] [--exchanges=N] [--asynchronous]
//                   [--pull_before_step] [--idle]
//
// --pull_before_step: asynchronous, with a pull when each step begins instead of parameters in the answer to
// a push. Two runs, with and without this flag, show its cost.
//
// If /dev/cpu_dma_latency permits, processors are kept awake: in a virtual machine a halted processor takes
// 50 to 100 us to wake, and whether it halts within an exchange is random. --idle lets processors sleep.
//
// The servers and the raw peer are separate processes, forked before gRPC starts and pinned to the last
// processor. This process, with all its threads, is pinned to the first. Without pinning, the scheduler puts
// both ends of the raw ping-pong on one processor in some runs and on two in others, which changes the time
// of the ping-pong by a factor of two.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "ps/data_stream.h"
#include "runtime/base/file.h"
#include "tests/bench/exchange_fixture.h"

namespace tethys {
namespace {

struct Settings {
  int64_t bytes = 1 << 20;
  int64_t message_bytes = 0;  // The size of a message; 0: the default size.
  int rounds = 15;
  int exchanges = 200;
  bool asynchronous = false;
  bool pull_before_step = false;
  bool idle = false;
};

Settings ParseFlags(int argc, char** argv) {
  Settings settings;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    const std::string value = flag.substr(std::min(flag.size(), flag.find('=') + 1));
    bool ok = true;
    if (absl::StartsWith(flag, "--bytes=")) {
      ok = absl::SimpleAtoi(value, &settings.bytes);
    } else if (absl::StartsWith(flag, "--message_bytes=")) {
      ok = absl::SimpleAtoi(value, &settings.message_bytes);
    } else if (absl::StartsWith(flag, "--rounds=")) {
      ok = absl::SimpleAtoi(value, &settings.rounds);
    } else if (absl::StartsWith(flag, "--exchanges=")) {
      ok = absl::SimpleAtoi(value, &settings.exchanges);
    } else if (flag == "--pull_before_step") {
      settings.asynchronous = settings.pull_before_step = true;
    } else if (flag == "--idle") {
      settings.idle = true;
    } else {
      ok = flag == "--asynchronous";
      settings.asynchronous = true;
    }
    TETHYS_CHECK(ok, "bad flag ", flag);
  }
  return settings;
}

void PinTo(long processor) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(processor, &set);
  TETHYS_CHECK(sched_setaffinity(0, sizeof(set), &set) == 0);
}

// Keeps processors awake while the descriptor is open: the kernel's power management promises a wake-up
// within 0 us.
FileDescriptor KeepProcessorsAwake() {
  FileDescriptor latency(open("/dev/cpu_dma_latency", O_WRONLY | O_CLOEXEC));
  const int32_t microseconds = 0;
  const bool promised = latency.get() >= 0 && write(latency.get(), &microseconds, sizeof(microseconds)) > 0;
  absl::PrintF("processors %s\n",
               promised ? "are kept awake" : "may sleep: /dev/cpu_dma_latency cannot be written");
  return latency;
}

// A child process that reports lines through one pipe and lives until the other pipe closes.
class Child {
 public:
  explicit Child(const std::function<void(int report, int lifeline)>& run) {
    int report[2];
    int lifeline[2];
    TETHYS_CHECK(pipe(report) == 0 && pipe(lifeline) == 0);
    pid_ = fork();
    if (pid_ == 0) {
      close(report[0]);
      close(lifeline[1]);
      PinTo(sysconf(_SC_NPROCESSORS_ONLN) - 1);
      run(report[1], lifeline[0]);
      std::_Exit(0);
    }
    close(report[1]);
    close(lifeline[0]);
    report_ = FileDescriptor(report[0]);
    lifeline_ = FileDescriptor(lifeline[1]);
  }
  std::string ReadLine() {
    std::string line;
    char c;
    while (read(report_.get(), &c, 1) == 1 && c != '\n') line.push_back(c);
    return line;
  }
  // Ends the child and returns its last line.
  std::string End() {
    lifeline_.Close();
    const std::string line = ReadLine();
    waitpid(pid_, nullptr, 0);
    return line;
  }

 private:
  pid_t pid_;
  FileDescriptor report_;
  FileDescriptor lifeline_;
};

void WriteLine(int fd, const std::string& line) {
  const std::string text = line + "\n";
  TETHYS_CHECK(WriteFully(fd, text.data(), static_cast<int64_t>(text.size()), "pipe").ok());
}

void WaitForEnd(int lifeline) {
  char c;
  while (read(lifeline, &c, 1) > 0) {
  }
}

std::string PeakResident() {
  std::ifstream status("/proc/self/status");
  std::string line;
  while (std::getline(status, line)) {
    if (absl::StartsWith(line, "VmHWM:")) return line;
  }
  return "";
}

void RunServer(const ExchangeFixture& fixture, int report, int lifeline) {
  const MonotonicClock clock;
  const auto server = fixture.StartServer("127.0.0.1:0", 0, clock);
  WriteLine(report, server->address());
  WaitForEnd(lifeline);
  WriteLine(report, PeakResident());
}

sockaddr_in Loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  return address;
}

void SetNoDelay(int fd) {
  const int on = 1;
  TETHYS_CHECK(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) == 0);
}

bool ReceiveAll(int fd, std::vector<char>& buffer) {
  size_t done = 0;
  while (done < buffer.size()) {
    const ssize_t bytes = recv(fd, buffer.data() + done, buffer.size() - done, 0);
    if (bytes <= 0) return false;
    done += static_cast<size_t>(bytes);
  }
  return true;
}

void RunRawPeer(int64_t bytes, int report) {
  const FileDescriptor listener(socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address = Loopback(0);
  socklen_t length = sizeof(address);
  TETHYS_CHECK(bind(listener.get(), reinterpret_cast<sockaddr*>(&address), length) == 0);
  TETHYS_CHECK(listen(listener.get(), 1) == 0);
  TETHYS_CHECK(getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &length) == 0);
  WriteLine(report, absl::StrCat(ntohs(address.sin_port)));
  const FileDescriptor connection(accept(listener.get(), nullptr, nullptr));
  SetNoDelay(connection.get());
  std::vector<char> buffer(bytes);
  while (ReceiveAll(connection.get(), buffer)) {
    if (!WriteFully(connection.get(), buffer.data(), bytes, "raw").ok()) return;
  }
}

class RawPingPong {
 public:
  RawPingPong(int port, int64_t bytes) : connection_(socket(AF_INET, SOCK_STREAM, 0)), buffer_(bytes) {
    const sockaddr_in address = Loopback(port);
    TETHYS_CHECK(connect(connection_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) ==
                 0);
    SetNoDelay(connection_.get());
  }
  void Exchange() {
    const int64_t bytes = static_cast<int64_t>(buffer_.size());
    TETHYS_CHECK(WriteFully(connection_.get(), buffer_.data(), bytes, "raw").ok());
    TETHYS_CHECK(ReceiveAll(connection_.get(), buffer_));
  }

 private:
  const FileDescriptor connection_;
  std::vector<char> buffer_;
};

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Microseconds per exchange, median of one round.
template <typename Peer>
double Round(Peer& peer, int exchanges) {
  const MonotonicClock clock;
  std::vector<double> times;
  for (int i = 0; i < exchanges; ++i) {
    const Nanoseconds begin = clock.Now();
    peer.Exchange();
    times.push_back(static_cast<double>(clock.Now() - begin) / kMicrosecond);
  }
  return Median(times);
}

// The first peer's time divided by the second peer's: the median over pairs of exchanges. The peers
// alternate, so that other load on the machine affects both peers alike.
template <typename Peer>
double Pairs(Peer& first, Peer& second, int exchanges) {
  const MonotonicClock clock;
  const auto timed = [&clock](Peer& peer) {
    const Nanoseconds begin = clock.Now();
    peer.Exchange();
    return static_cast<double>(clock.Now() - begin);
  };
  std::vector<double> ratios;
  for (int i = 0; i < exchanges; ++i) {
    const double time = timed(first);
    ratios.push_back(time / timed(second));
  }
  return Median(ratios);
}

void Run(const Settings& settings) {
  KeepMessageMemory();
  const MonotonicClock clock;
  ExchangeOptions options{.bytes = settings.bytes,
                          .message_bytes = settings.message_bytes,
                          .asynchronous = settings.asynchronous,
                          .pull_before_step = settings.pull_before_step,
                          .token = JobToken::Random()};
  const ExchangeFixture fixture(options);
  options.checksums = true;
  const ExchangeFixture checked_fixture(options);
  Child server([&](int report, int lifeline) { RunServer(fixture, report, lifeline); });
  Child checked_server([&](int report, int lifeline) { RunServer(checked_fixture, report, lifeline); });
  Child raw_peer([&](int report, int) { RunRawPeer(settings.bytes, report); });

  PinTo(0);
  const FileDescriptor awake = settings.idle ? FileDescriptor() : KeepProcessorsAwake();
  std::vector<double> raw_times, times, ratios, costs;
  {
    RawPingPong raw(std::stoi(raw_peer.ReadLine()), settings.bytes);
    PushPull push_pull(fixture, 0, {{"localhost", server.ReadLine()}}, clock);
    PushPull checked(checked_fixture, 0, {{"localhost", checked_server.ReadLine()}}, clock);
    Round(raw, settings.exchanges / 4);
    Round(push_pull, settings.exchanges / 4);
    Round(checked, settings.exchanges / 4);
    for (int round = 0; round < settings.rounds; ++round) {
      raw_times.push_back(Round(raw, settings.exchanges));
      times.push_back(Round(push_pull, settings.exchanges));
      ratios.push_back(times.back() / raw_times.back());
      costs.push_back(Pairs(checked, push_pull, settings.exchanges));
      absl::PrintF("round %2d   raw TCP %7.0f us   push + pull %7.0f us   ratio %.2f   checksums %.3f\n",
                   round, raw_times.back(), times.back(), ratios.back(), costs.back());
    }
  }
  // A child inherits the pipes of earlier children, so the children are ended in reverse order.
  raw_peer.End();
  checked_server.End();
  const std::string memory = server.End();
  absl::PrintF("median     raw TCP %7.0f us   push + pull %7.0f us   ratio %.2f   (limit 1.50, goal 1.30)\n",
               Median(raw_times), Median(times), Median(ratios));
  absl::PrintF("           with checksums %.3f times as long\n", Median(costs));
  absl::PrintF("server: %s\n", memory);
}

}  // namespace
}  // namespace tethys

int main(int argc, char** argv) {
  tethys::Run(tethys::ParseFlags(argc, argv));
  return 0;
}
