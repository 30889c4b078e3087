// A storm of faults on real processes: the ranks of a group are killed and stopped at random points, while
// they form the group or in the middle of a collective. After each fault the survivors are interrupted, form
// a group of the next generation through the listeners that they have kept, and go on. Every sum that any
// rank gets is right, and no rank is more than one collective ahead of another. A stopped process that wakes
// up later disturbs no group.
//
//   kill_storm_test [--faults=N] [--seed=N]     default: 200 faults; a failure names the seed
//
// The parent takes the place of the chief: it orders groups and interrupts over a socket to each rank.
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "tests/collectives/ring_fixture.h"

namespace tethys {
namespace {

int faults_wanted = 200;
uint64_t seed = 1;

constexpr int kMaxWorld = 6;
constexpr int64_t kLong = 60'000;   // Elements of a vector that is cut into blocks.
constexpr int64_t kShort = 100;     // Elements of a vector that is exchanged in one hop.
constexpr int kPatience = 120'000;  // In milliseconds; far longer than any answer takes.

struct Order {
  enum class Kind { kForm, kInterrupt, kEnd };
  Kind kind = Kind::kForm;
  uint32_t generation = 0;
  uint32_t members = 0;  // Bit i: whether the rank with index i is a member.
};

// A rank sends this message to the parent when its part in a group has ended.
struct Halted {
  uint32_t generation = 0;
  int64_t steps = 0;  // Number of collectives whose result was right.
  absl::StatusCode code = absl::StatusCode::kOk;
  std::array<char, 300> message = {};
};

// Progress that a rank shows the parent, in shared memory.
struct Progress {
  std::atomic<uint32_t> generation;
  std::atomic<int64_t> steps;
};

// ------------------------------------------------------------------------------- process of a rank

// Takes orders on a thread of its own, so that an interrupt reaches a rank that is blocked.
class OrderBook {
 public:
  explicit OrderBook(int socket) : socket_(socket), reader_([this] { Read(); }) { reader_.detach(); }

  // Blocks until the parent orders this process to form a group or to end.
  Order Next(Interruption& interruption) {
    MutexLock lock(mu_);
    while (next_.generation <= begun_ && next_.kind != Order::Kind::kEnd) ordered_.Wait(mu_);
    begun_ = next_.generation;
    current_ = &interruption;
    if (interrupted_ >= begun_) interruption.Raise(Reason());
    return next_;
  }
  // Called before the interruption given to Next is destroyed.
  void Close() {
    MutexLock lock(mu_);
    current_ = nullptr;
  }

 private:
  static absl::Status Reason() { return absl::AbortedError("the group changes"); }

  void Read() {
    Order order;
    while (recv(socket_, &order, sizeof(order), 0) == sizeof(order)) {
      MutexLock lock(mu_);
      if (order.kind != Order::Kind::kInterrupt) {
        next_ = order;
        ordered_.NotifyAll();
        continue;
      }
      interrupted_ = order.generation;
      if (current_ != nullptr && interrupted_ >= begun_) current_->Raise(Reason());
    }
    _exit(0);  // The parent has ended.
  }

  const int socket_;
  Mutex mu_;
  CondVar ordered_;
  Order next_ ABSL_GUARDED_BY(mu_);
  uint32_t begun_ ABSL_GUARDED_BY(mu_) = 0;
  uint32_t interrupted_ ABSL_GUARDED_BY(mu_) = 0;
  Interruption* current_ ABSL_GUARDED_BY(mu_) = nullptr;
  std::thread reader_;
};

float Value(int index, int64_t step, int64_t i) {
  return static_cast<float>(i % 61 + 3 * index + step % 1000);
}

float Sum(uint32_t members, int64_t step, int64_t i) {
  float sum = 0;
  for (int index = 0; index < kMaxWorld; ++index) {
    if ((members >> index & 1) != 0) sum += Value(index, step, i);
  }
  return sum;
}

// Sums a vector over the members. Every third step uses a reduce-scatter and an all-gather, the other steps
// use an all-reduce.
absl::Status SumOnce(Communicator& group, int64_t step, absl::Span<float> data) {
  if (step % 3 != 2) return group.AllReduce(data);
  TETHYS_RETURN_IF_ERROR(group.ReduceScatter(data));
  std::vector<Range> parts;
  for (int rank = 0; rank < group.world_size(); ++rank) {
    const Range block = group.OwnedBlock(rank, static_cast<int64_t>(data.size()));
    parts.push_back({4 * block.begin, 4 * block.count});
  }
  return group.AllGather(BytesOf(data), parts);
}

// Forms the group and sums until a call fails.
absl::Status TakePart(TestRing& ring, int index, const Order& order, Interruption& interruption,
                      Progress& progress) {
  RingOptions options = ring.options[index];
  options.members.clear();
  for (int member = 0; member < ring.world(); ++member) {
    if ((order.members >> member & 1) == 0) continue;
    if (member == index) options.rank = static_cast<int>(options.members.size());
    options.members.push_back(ring.options[index].members[member]);
  }
  options.generation = order.generation;
  options.interruption = &interruption;
  const bool tcp = ring.medium == Medium::kTcp || ring.medium == Medium::kTls;
  TETHYS_ASSIGN_OR_RETURN(
      const Exchange exchange,
      CreateExchange(*ring.listeners[index], options, tcp ? proto::Tuning::TCP : proto::Tuning::AUTOMATIC));
  Communicator& group = *exchange.communicator;
  TETHYS_ASSIGN_OR_RETURN(float* const shared, group.AllocateForReduction(kLong));
  std::vector<float> own(shared == nullptr ? kLong : kShort);
  for (int64_t step = 0;; ++step) {
    const int64_t count = step % 2 == 0 ? kLong : kShort;
    float* const data = shared != nullptr && count == kLong ? shared : own.data();
    for (int64_t i = 0; i < count; ++i) data[i] = Value(index, step, i);
    TETHYS_RETURN_IF_ERROR(SumOnce(group, step, {data, static_cast<size_t>(count)}));
    for (int64_t i = 0; i < count; ++i) {
      const float sum = Sum(order.members, step, i);
      if (data[i] != sum) {
        return absl::DataLossError(
            absl::StrCat("step ", step, ": element ", i, " is ", data[i], ", not ", sum));
      }
    }
    ++progress.steps;
  }
}

[[noreturn]] void RunRank(TestRing& ring, int index, int socket, Progress& progress) {
  for (int other = 0; other < ring.world(); ++other) {
    if (other != index) ring.listeners[other].reset();
  }
  OrderBook orders(socket);
  while (true) {
    Interruption interruption;
    const Order order = orders.Next(interruption);
    if (order.kind == Order::Kind::kEnd) _exit(0);
    progress.steps = 0;
    progress.generation = order.generation;
    const absl::Status status = TakePart(ring, index, order, interruption, progress);
    orders.Close();
    Halted halted{.generation = order.generation, .steps = progress.steps, .code = status.code()};
    status.message().copy(halted.message.data(), halted.message.size() - 1);
    if (send(socket, &halted, sizeof(halted), MSG_NOSIGNAL) != sizeof(halted)) _exit(1);
  }
}

// ------------------------------------------------------------------------------------------ parent

class Storm {
 public:
  Storm(int world, Medium medium, std::mt19937_64& random)
      : ring_(world, medium),
        random_(random),
        progress_(static_cast<Progress*>(mmap(nullptr, sizeof(Progress) * kMaxWorld, PROT_READ | PROT_WRITE,
                                              MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {
    for (int index = 0; index < world; ++index) {
      int ends[2];
      TETHYS_CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
      const pid_t parent = getpid();
      const pid_t child = fork();
      TETHYS_CHECK(child >= 0);
      if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent) _exit(1);
        for (const Rank& earlier : ranks_) close(earlier.socket);
        close(ends[0]);
        RunRank(ring_, index, ends[1], progress_[index]);
      }
      close(ends[1]);
      ranks_.push_back({.process = child, .socket = ends[0]});
    }
    for (auto& listener : ring_.listeners) listener.reset();
    members_ = (1u << world) - 1;
  }

  ~Storm() {
    for (const Rank& rank : ranks_) {
      if (rank.process > 0) kill(rank.process, SIGKILL);
      if (rank.process > 0) waitpid(rank.process, nullptr, 0);
      close(rank.socket);
    }
    munmap(progress_, sizeof(Progress) * kMaxWorld);
  }

  int size() const { return __builtin_popcount(members_); }

  // Forms a group of all members, and kills or stops one of them at a random time.
  void FormAndBreak() {
    Form();
    const bool formed = Chance(2);
    if (formed) {
      ASSERT_NO_FATAL_FAILURE(AwaitSteps(std::uniform_int_distribution<int>(1, 3)(random_)));
    }
    Sleep(4000);
    WakeStopped();
    int victim = 0;
    do {
      victim = std::uniform_int_distribution<int>(0, ring_.world() - 1)(random_);
    } while (!IsMember(victim));
    const bool stops = Chance(2);
    members_ &= ~(1u << victim);
    kill(ranks_[victim].process, stops ? SIGSTOP : SIGKILL);
    if (stops) {
      stopped_.push_back(victim);
    } else {
      waitpid(ranks_[victim].process, nullptr, 0);
      ranks_[victim].process = 0;
      // The other ranks notice a killed rank even without an interrupt, unless they are still forming the
      // group.
      if (formed && Chance(2)) {
        ASSERT_NO_FATAL_FAILURE(Await({FirstMember()}));
      }
    }
    InterruptAll();
  }

  // Forms a last group, waits until the group has made some steps, and ends all processes.
  void Finish() {
    Form();
    ASSERT_NO_FATAL_FAILURE(AwaitSteps(4));
    ASSERT_NO_FATAL_FAILURE(InterruptAll());
    WakeStopped();
    for (int index = 0; index < ring_.world(); ++index) {
      if (ranks_[index].process == 0) continue;
      Send(index, {.kind = Order::Kind::kInterrupt, .generation = generation_});
      Send(index, {.kind = Order::Kind::kEnd});
      int status = 0;
      waitpid(ranks_[index].process, &status, 0);
      ranks_[index].process = 0;
      EXPECT_EQ(status, 0) << "rank " << index;
    }
  }

 private:
  struct Rank {
    pid_t process = 0;  // 0: the process has ended.
    int socket = -1;
    Halted halted = {};
  };

  bool Chance(int one_in) { return std::uniform_int_distribution<int>(1, one_in)(random_) == 1; }
  void Sleep(int most_us) { usleep(std::uniform_int_distribution<int>(0, most_us)(random_)); }
  bool IsMember(int index) const { return (members_ >> index & 1) != 0; }
  int FirstMember() const { return __builtin_ctz(members_); }
  std::vector<int> Members() const {
    std::vector<int> members;
    for (int index = 0; index < ring_.world(); ++index) {
      if (IsMember(index)) members.push_back(index);
    }
    return members;
  }

  void Send(int index, const Order& order) {
    EXPECT_EQ(send(ranks_[index].socket, &order, sizeof(order), MSG_NOSIGNAL),
              static_cast<ssize_t>(sizeof(order)));
  }

  void Form() {
    ++generation_;
    for (const int index : Members()) {
      Send(index, {.kind = Order::Kind::kForm, .generation = generation_, .members = members_});
    }
  }

  // Blocks until every member has made `steps` steps in this generation.
  void AwaitSteps(int steps) {
    for (const int index : Members()) {
      for (int turn = 0; turn < kPatience; ++turn) {
        if (progress_[index].generation == generation_ && progress_[index].steps >= steps) break;
        usleep(1000);
        ASSERT_LT(turn + 1, kPatience) << "rank " << index << " makes no steps";
      }
    }
  }

  // Blocks until the ranks in `indices` have halted in this generation. During this wait, other ranks may be
  // stopped by SIGSTOP.
  void Await(const std::vector<int>& indices) {
    for (const int index : indices) {
      Rank& rank = ranks_[index];
      while (rank.halted.generation != generation_) {
        pollfd polled = {.fd = rank.socket, .events = POLLIN, .revents = 0};
        ASSERT_EQ(poll(&polled, 1, kPatience), 1) << "rank " << index << " stays blocked";
        ASSERT_EQ(recv(rank.socket, &rank.halted, sizeof(Halted), 0), static_cast<ssize_t>(sizeof(Halted)))
            << "rank " << index << " has ended";
      }
      const absl::StatusCode code = rank.halted.code;
      EXPECT_TRUE(code == absl::StatusCode::kAborted || code == absl::StatusCode::kUnavailable)
          << "rank " << index << ": " << absl::StatusCodeToString(code) << ": " << rank.halted.message.data();
    }
  }

  void InterruptAll() {
    const std::vector<int> members = Members();
    for (const int index : members) {
      Send(index, {.kind = Order::Kind::kInterrupt, .generation = generation_});
    }
    ASSERT_NO_FATAL_FAILURE(Await(members));
    int64_t fewest = INT64_MAX, most = 0;
    for (const int index : members) {
      fewest = std::min(fewest, ranks_[index].halted.steps);
      most = std::max(most, ranks_[index].halted.steps);
    }
    EXPECT_LE(most - fewest, 1) << "a rank got a sum without the part of another one";
  }

  // Wakes all stopped processes, whose groups no longer exist.
  void WakeStopped() {
    for (const int index : stopped_) kill(ranks_[index].process, SIGCONT);
    stopped_.clear();
  }

  TestRing ring_;
  std::mt19937_64& random_;
  Progress* const progress_;  // Indexed by rank.
  std::vector<Rank> ranks_;
  uint32_t members_ = 0;
  uint32_t generation_ = 0;
  std::vector<int> stopped_;
};

class KillStorm : public ::testing::TestWithParam<Medium> {};

INSTANTIATE_TEST_SUITE_P(Media, KillStorm, AllMedia(), NameOfMedium);

TEST_P(KillStorm, SurvivorsOfEachFaultFormTheNextGroupAndSumCorrectly) {
  std::mt19937_64 random(seed);
  for (int faults = 0; faults < faults_wanted / 4;) {
    SCOPED_TRACE(absl::StrCat("--seed=", seed, ", fault ", faults));
    Storm storm(std::uniform_int_distribution<int>(3, kMaxWorld)(random), GetParam(), random);
    for (; storm.size() > 1 && faults < faults_wanted / 4; ++faults) {
      ASSERT_NO_FATAL_FAILURE(storm.FormAndBreak());
    }
    ASSERT_NO_FATAL_FAILURE(storm.Finish());
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace tethys

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    const absl::string_view argument = argv[i];
    if (absl::StartsWith(argument, "--faults=")) tethys::faults_wanted = std::atoi(argv[i] + 9);
    if (absl::StartsWith(argument, "--seed=")) tethys::seed = std::strtoull(argv[i] + 7, nullptr, 10);
  }
  return RUN_ALL_TESTS();
}
