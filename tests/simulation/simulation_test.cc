// A deterministic simulation of whole jobs: the product's pure classes decide, and everything around them is
// modelled in virtual time on one thread. Everything that happens follows from a seed.
//
// The product's own classes are JobController and all that it owns (RunningSegment, LeaseBook, Roster with
// Membership, coordinators of saves, evaluations and pauses, TaskLosses), the workers' WorkerCourse and
// SegmentCourse, the servers' TaskCourse, ParameterStore and ShardCopy with the consistency rules, and the
// journal with its check. Modelled are:
//
//   event_queue.h        virtual time, random numbers
//   process.h            processes that are killed or stopped, connections with delays, losses and breaks
//   disk.h               what outlives the chief: the journal's file and committed checkpoints
//   simulated_job.h      the job of a seed, and a model whose sums are exact in any order
//   simulated_task.h     the loop of a task: session, heartbeats, orders
//   simulated_worker.h   a worker around its course
//   exchange.h           the exchange of gradients; server_exchange.cc: a client of servers
//   simulated_server.h   a server around its store; copy_stream.h: the copies of its shards
//   simulated_chief.h    the chief's process around its controller
//   disturbances.h       kills, stops and breaks, at random times and at points of the protocol
//   deliberate_faults.h  faults that the invariants must find
//   invariants.h         the conditions that must hold at every event
//   world.h              one run: attempts of a job until it ends well
//
// In the suite, seeds of every kind of job run, and every deliberate fault must be found. By hand:
//
//   simulation_test --seeds=100000 [--from=N] [--kind=local|mirrored|bulk|copied|stale|async|...]
//   simulation_test --kind=bulk --seed=17 --trace       one run again, with all that happens in it
//   simulation_test --fault=NAME [--seeds=N]            after how many seeds a deliberate fault is found
//
// Not simulated: threads, gRPC, TLS and sockets; the deadlines of exchanges; the ring's and shared memory's
// own protocols; clipping and trust ratios on servers; moving statistics; the launcher itself.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"
#include "absl/types/optional.h"
#include "tests/simulation/world.h"

namespace tethys::simulation {
namespace {

constexpr size_t kKinds = std::size(kKindNames);

struct Totals {
  int64_t runs = 0, attempts = 0, restarts = 0;
  std::array<int64_t, kPoints> aimed = {};
};

RunResult RunOne(const RunOptions& options, Totals& totals) {
  RunResult result = World(options).Run();
  ++totals.runs;
  totals.attempts += result.attempts;
  totals.restarts += result.restarts;
  for (size_t point = 0; point < kPoints; ++point) totals.aimed[point] += result.aimed[point];
  return result;
}

std::string Replay(const RunOptions& options) {
  const char* const fault =
      options.fault == Fault::kNone ? "" : kDeliberateFaults[static_cast<int>(options.fault)].name;
  return absl::StrCat("simulation_test --kind=", kKindNames[static_cast<int>(options.kind)],
                      " --seed=", options.seed, *fault == 0 ? "" : " --fault=", fault, " --trace");
}

// The first of `seeds` seeds that finds the fault; nullopt: no seed finds it.
absl::optional<uint64_t> FindFault(Fault fault, uint64_t from, uint64_t seeds, std::string* broken) {
  Totals totals;
  RunOptions options{.kind = kDeliberateFaults[static_cast<int>(fault)].kind, .fault = fault};
  for (options.seed = from; options.seed < from + seeds; ++options.seed) {
    *broken = RunOne(options, totals).broken;
    if (!broken->empty()) return options.seed;
  }
  return absl::nullopt;
}

TEST(SimulationTest, SimulatedJobsKeepAllInvariantsForAllSeeds) {
  Totals totals;
  for (size_t kind = 0; kind < kKinds; ++kind) {
    for (uint64_t seed = 0; seed < 300; ++seed) {
      const RunOptions options{.seed = seed, .kind = static_cast<Kind>(kind)};
      const RunResult result = RunOne(options, totals);
      EXPECT_EQ(result.broken, "") << Replay(options);
    }
  }
  // The seeds must disturb jobs at every point, make attempts fail, and make the launcher replace workers.
  for (size_t point = 0; point < kPoints; ++point) EXPECT_GT(totals.aimed[point], 0) << kPointNames[point];
  EXPECT_GT(totals.attempts, totals.runs);
  EXPECT_GT(totals.restarts, 0);
}

TEST(SimulationTest, SeedsThatFoundFaultsKeepAllInvariants) {
  Totals totals;
  const std::vector<std::pair<Kind, std::vector<uint64_t>>> found = {
      {Kind::kCopied, {2100, 2754, 4966, 5960, 64647}},
      {Kind::kCopiedStale, {144, 164, 1176, 1338, 5443, 5444}},
      {Kind::kCopiedAsync, {1366, 1418, 10578, 10579, 21798, 24820}}};
  for (const auto& [kind, seeds] : found) {
    for (const uint64_t seed : seeds) {
      const RunOptions options{.seed = seed, .kind = kind};
      EXPECT_EQ(RunOne(options, totals).broken, "") << Replay(options);
    }
  }
}

TEST(DeterminismTest, SameSeedGivesTheSameSimulatedEvents) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const RunOptions options{.seed = seed, .kind = static_cast<Kind>(seed % kKinds)};
    const RunResult first = World(options).Run(), second = World(options).Run();
    EXPECT_EQ(first.events, second.events) << Replay(options);
    EXPECT_EQ(first.ended, second.ended) << Replay(options);
  }
}

TEST(DeliberateFaultTest, SimulationFindsEveryDeliberateFault) {
  for (size_t fault = 1; fault < std::size(kDeliberateFaults); ++fault) {
    std::string broken;
    EXPECT_TRUE(FindFault(static_cast<Fault>(fault), 0, 1000, &broken).has_value())
        << kDeliberateFaults[fault].name << ": " << kDeliberateFaults[fault].meaning;
  }
}

// ---------------------------------------------------------------------------------------- the command line

struct CommandLine {
  bool given = false;
  absl::optional<Kind> kind;
  Fault fault = Fault::kNone;
  absl::optional<uint64_t> seed;
  uint64_t from = 0, seeds = 1000;
  bool trace = false;
};

// False: the argument is not valid.
bool Read(absl::string_view argument, CommandLine& line) {
  absl::string_view value = argument;
  uint64_t number = 0;
  line.given = true;
  if (argument == "--trace") {
    line.trace = true;
  } else if (absl::ConsumePrefix(&value, "--kind=")) {
    line.kind = ParseKind(value);
    return line.kind.has_value();
  } else if (absl::ConsumePrefix(&value, "--fault=")) {
    const absl::optional<Fault> fault = ParseFault(value);
    line.fault = fault.value_or(Fault::kNone);
    return fault.has_value();
  } else if (absl::ConsumePrefix(&value, "--seed=") && absl::SimpleAtoi(value, &number)) {
    line.seed = number;
  } else if (absl::ConsumePrefix(&value, "--seeds=") && absl::SimpleAtoi(value, &number)) {
    line.seeds = number;
  } else if (absl::ConsumePrefix(&value, "--from=") && absl::SimpleAtoi(value, &number)) {
    line.from = number;
  } else {
    return false;
  }
  return true;
}

int Obey(const CommandLine& line) {
  if (line.fault != Fault::kNone && !line.seed.has_value()) {
    std::string broken;
    const absl::optional<uint64_t> found = FindFault(line.fault, line.from, line.seeds, &broken);
    const char* const name = kDeliberateFaults[static_cast<int>(line.fault)].name;
    if (!found.has_value()) {
      std::printf("%s: not found in %llu seeds\n", name, static_cast<unsigned long long>(line.seeds));
      return 1;
    }
    std::printf("%s: found after %llu seeds: %s\n", name,
                static_cast<unsigned long long>(*found - line.from + 1), broken.c_str());
    return 0;
  }
  int failures = 0;
  Totals totals;
  const uint64_t from = line.seed.value_or(line.from),
                 end = line.seed.has_value() ? from + 1 : from + line.seeds;
  for (size_t kind = 0; kind < kKinds; ++kind) {
    if (line.kind.has_value() && *line.kind != static_cast<Kind>(kind)) continue;
    for (uint64_t seed = from; seed < end; ++seed) {
      const RunOptions options{
          .seed = seed, .kind = static_cast<Kind>(kind), .fault = line.fault, .trace = line.trace};
      const RunResult result = RunOne(options, totals);
      if (result.broken.empty()) continue;
      ++failures;
      std::printf("BROKEN %s\n  %s\n", Replay(options).c_str(), result.broken.c_str());
    }
  }
  std::printf("%lld runs, %lld attempts, %lld workers replaced, %d broken; disturbed at points:",
              static_cast<long long>(totals.runs), static_cast<long long>(totals.attempts),
              static_cast<long long>(totals.restarts), failures);
  for (size_t point = 0; point < kPoints; ++point) {
    std::printf(" %s %lld", kPointNames[point], static_cast<long long>(totals.aimed[point]));
  }
  std::printf("\n");
  return failures > 0 ? 1 : 0;
}

}  // namespace
}  // namespace tethys::simulation

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);  // Removes the arguments of GoogleTest.
  tethys::simulation::CommandLine line;
  for (int i = 1; i < argc; ++i) {
    if (tethys::simulation::Read(argv[i], line)) continue;
    std::fprintf(stderr, "%s: no such argument; see the head of tests/simulation/simulation_test.cc\n",
                 argv[i]);
    return 2;
  }
  return line.given ? tethys::simulation::Obey(line) : RUN_ALL_TESTS();
}
