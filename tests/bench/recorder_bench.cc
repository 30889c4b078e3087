// Measures what recording costs the training thread, in nanoseconds per step and as a share of a 500 us step.
// A step is recorded by BeginStep, four marks, four bucket marks and EndStep, while another thread drains and
// serializes the records. Limit: 1 % of the step, which is 5000 ns.
//
// Also measures what sampling resources costs a process, in microseconds per sample of itself and its
// machine, with 16 TCP sockets, and as a share of the second between samples. Limit: 0.1 %, which is 1000 us.
// The training thread does not sample.
//
// No work is done between steps, so they follow one another some hundred times faster than real steps. The
// recorder's ring buffer must therefore hold all steps of a round; otherwise the time spent waiting for a
// free slot would be counted.
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "runtime/base/socket.h"
#include "runtime/telemetry/resource_sampler.h"
#include "runtime/telemetry/step_recorder.h"

namespace tethys {
namespace {

constexpr int kBuckets = 4;
constexpr int64_t kSteps = 8000;
constexpr int kRounds = 25;
constexpr double kStepNs = 500e3;
constexpr double kLimitShare = 0.01;
constexpr double kSamplingLimitShare = 0.001;

void RecordSteps(StepRecorder& recorder) {
  for (int64_t step = 0; step < kSteps; ++step) {
    TETHYS_CHECK(
        recorder.BeginStep({.step = step, .epoch = 0, .sample_begin = 128 * step, .samples = 128}).ok());
    recorder.Mark(Phase::kData);
    recorder.Mark(Phase::kForward);
    for (int bucket = 0; bucket < kBuckets; ++bucket) recorder.BucketReady(bucket);
    recorder.Mark(Phase::kBackward);
    recorder.Mark(Phase::kExchange);
    recorder.EndStep(
        {.loss_sum = 1, .correct = 1, .bytes_out = 1, .bytes_in = 1, .staleness = 0, .update_ns = 0});
  }
}

// Connects this process to itself; returns both ends of each connection.
std::vector<FileDescriptor> Connect(int connections) {
  const FileDescriptor listener = ListenTcp({"127.0.0.1", 0}).value();
  const HostPort address = LocalAddress(listener.get()).value();
  std::vector<FileDescriptor> ends;
  for (int i = 0; i < connections; ++i) {
    ends.push_back(StartConnectTcp(address).value());
    ends.emplace_back(accept(listener.get(), nullptr, nullptr));
  }
  return ends;
}

// The median time, in microseconds, of taking a sample of this process and, if `machine`, of its machine.
double TimeSampling(const Clock& clock, bool machine) {
  constexpr int kSamples = 300;
  ResourceSampler sampler(clock, {.interval = 1, .machine = machine, .loopback = machine});
  std::vector<double> times;
  for (int i = 0; i < kSamples; ++i) {
    ResourceSampler::Samples samples;
    const Nanoseconds begin = clock.Now();
    sampler.Collect(samples);
    times.push_back(static_cast<double>(clock.Now() - begin) / kMicrosecond);
  }
  std::nth_element(times.begin(), times.begin() + kSamples / 2, times.end());
  return times[kSamples / 2];
}

bool RunSampling() {
  const MonotonicClock clock;
  const std::vector<FileDescriptor> connections = Connect(8);
  const double process = TimeSampling(clock, false), machine = TimeSampling(clock, true);
  std::printf(
      "sampling: median %.0f us of a process, %.0f us with its machine; share of a second %.4f %% (limit "
      "%.1f %%)\n",
      process, machine, machine / 1e4, 100 * kSamplingLimitShare);
  return machine <= kSamplingLimitShare * 1e6;
}

bool RunRecording() {
  const MonotonicClock clock;
  StepRecorder recorder(clock, 0, kBuckets);
  std::atomic<bool> done{false};
  std::atomic<int64_t> drained{0};
  std::thread drainer([&] {
    while (!done) {
      proto::StepRecords records;
      drained += recorder.Drain(records);
      records.SerializeAsString();
    }
  });
  std::vector<double> per_step;
  for (int round = 1; round <= kRounds; ++round) {
    const Nanoseconds begin = clock.Now();
    RecordSteps(recorder);
    per_step.push_back(static_cast<double>(clock.Now() - begin) / kSteps);
    while (drained < round * kSteps) std::this_thread::yield();
  }
  done = true;
  drainer.join();

  std::sort(per_step.begin(), per_step.end());
  const double median = per_step[per_step.size() / 2];
  std::printf(
      "recording: median %.0f ns per step (least %.0f, most %.0f), %d bucket marks, drained meanwhile\n",
      median, per_step.front(), per_step.back(), kBuckets);
  std::printf("share of a 500 us step: %.3f %% (limit %.0f %%); waited for room: %.3f ms\n",
              100 * median / kStepNs, 100 * kLimitShare, ToSeconds(recorder.stalled_ns()) * 1e3);
  return median <= kLimitShare * kStepNs;
}

int Run() {
  const bool recording = RunRecording();
  return RunSampling() && recording ? 0 : 1;
}

}  // namespace
}  // namespace tethys

int main() { return tethys::Run(); }
