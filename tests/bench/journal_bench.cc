// Measures the time and memory of checking a long journal. The limit on memory does not depend on the length.
//
//   journal_bench [MiB]    size of the journal, default 1024; made in the temporary directory, then removed
//
// In the journal eight workers train asynchronously with two servers. Each worker reports a hundred steps at
// a time, so the lines of successive samples lie far apart.
#include <sys/resource.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include "runtime/chief/journal.h"
#include "runtime/chief/journal_check.h"

namespace tethys {
namespace {

constexpr int kWorkers = 8, kServers = 2, kStepsPerBeat = 100, kBatch = 32;
constexpr int64_t kSamples =
    // The number of samples of an epoch: an epoch lasts ten heartbeats of every worker.
    int64_t{kWorkers} * kStepsPerBeat * kBatch * 10;
constexpr double kMostMiB = 64;

// The lines that one heartbeat of every worker adds to the journal. The first sample of these lines has the
// number `begin`.
std::string Beat(int64_t step, int64_t begin) {
  std::string text;
  for (int worker = 0; worker < kWorkers; ++worker) {
    for (int i = 0; i < kStepsPerBeat; ++i) {
      const int64_t at = begin + (int64_t{i} * kWorkers + worker) * kBatch;
      text += journal::Used(worker, step + i, at, kBatch);
      proto::AppliedPush push;
      push.set_worker(worker);
      push.set_sequence(step + i);
      push.set_sample_begin(at);
      push.set_sample_count(kBatch);
      push.set_version((step + i) * kWorkers + worker);
      for (int server = 0; server < kServers; ++server) text += journal::Applied(server, push);
    }
  }
  return text;
}

int64_t Write(const std::string& path, int64_t bytes) {
  std::ofstream file(path);
  proto::TrainingState state;
  state.set_train_samples(kSamples);
  file << journal::Attempt(state, kSamples, kWorkers, kServers, "parameter_server asynchronous");
  constexpr int64_t kBeatSamples = int64_t{kWorkers} * kStepsPerBeat * kBatch;
  int64_t written = 0, begin = 0;
  for (int64_t step = 0; written < bytes || begin % kSamples != 0; step += kStepsPerBeat) {
    const std::string text = Beat(step, begin);
    file << text;
    written += static_cast<int64_t>(text.size());
    begin += kBeatSamples;
    if (begin % kSamples == 0) file << journal::EpochDone(begin / kSamples - 1, kSamples);
  }
  state.set_epoch(begin / kSamples);
  file << journal::End(state);
  return begin;
}

int Main(int argc, char** argv) {
  const int64_t bytes = (argc > 1 ? std::atoll(argv[1]) : 1024) << 20;
  const char* folder = std::getenv("TMPDIR");
  const std::string path = std::string(folder != nullptr ? folder : "/tmp") + "/journal_bench.journal";
  const int64_t samples = Write(path, bytes);
  const auto begin = std::chrono::steady_clock::now();
  const absl::StatusOr<journal::CheckResult> result = journal::CheckFile(path);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  std::remove(path.c_str());
  rusage use{};
  getrusage(RUSAGE_SELF, &use);
  const double peak = static_cast<double>(use.ru_maxrss) / 1024;
  const bool right = result.ok() && result->ended && result->samples == samples;
  std::printf("journal of %lld MiB: %s, %.1f s, %.0f MiB/s; memory of the process %.1f MiB (limit %.0f)\n",
              static_cast<long long>(bytes >> 20), right ? "checked" : result.status().ToString().c_str(),
              seconds.count(), static_cast<double>(bytes >> 20) / seconds.count(), peak, kMostMiB);
  return right && peak <= kMostMiB ? 0 : 1;
}

}  // namespace
}  // namespace tethys

int main(int argc, char** argv) { return tethys::Main(argc, argv); }
