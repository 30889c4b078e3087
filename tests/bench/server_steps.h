// Bulk-synchronous steps of one server and its workers, for benchmarks.
#ifndef TETHYS_TESTS_BENCH_SERVER_STEPS_H_
#define TETHYS_TESTS_BENCH_SERVER_STEPS_H_

#include <algorithm>
#include <memory>
#include <thread>
#include <vector>

#include "ps/data_stream.h"
#include "ps/message_plan.h"
#include "ps/served_store.h"
#include "tests/bench/exchange_fixture.h"

namespace tethys {

class NoNetwork final : public StoreActions {
 public:
  void Record(const proto::AppliedPush&) override {}
  void Reply(const ParameterReply&) override { ++replies; }
  void ReplyNorm(const NormReply&) override {}
  void Fail(const absl::Status& status) override { TETHYS_CHECK(false, StatusText(status)); }

  int64_t replies = 0;
};

// Steps of one parameter store without a network: every worker's messages are pushed into the store.
class StoreSteps {
 public:
  explicit StoreSteps(const ExchangeOptions& options)
      : fixture_(options),
        served_(*ServedStore::Create(fixture_.plan(), 0, 1, 1)),
        gradients_(options.bytes / 4) {
    const Range all[] = {{0, gradients_.size()}};
    messages_ =
        *PlanMessages(fixture_.plan().placement(), gradients_.size(), all, fixture_.options().message_bytes);
  }

  void Step() {
    const auto workers = static_cast<int>(served_->store->workers().size());
    for (const StepMessage& message : messages_) {
      for (int worker = 0; worker < workers; ++worker) Push(worker, message.range);
    }
    ++step_;
    const auto answered = static_cast<int64_t>(messages_.size()) * workers * step_;
    TETHYS_CHECK(actions_.replies == answered, actions_.replies, " replies");
  }

 private:
  void Push(int worker, Range range) {
    Frame frame;
    frame.kind = FrameKind::kPush;
    frame.generation = 1;
    frame.rank = static_cast<uint32_t>(worker);
    frame.step = frame.base_version = static_cast<uint64_t>(step_);
    frame.sequence = frame.step + 1;
    frame.range_begin = static_cast<uint64_t>(range.begin);
    frame.range_count = static_cast<uint64_t>(range.count);
    frame.sample_count = 128;
    frame.payload_bytes = frame.range_count * sizeof(float);
    const absl::string_view payload(reinterpret_cast<const char*>(gradients_.data() + range.begin),
                                    frame.payload_bytes);
    const absl::Status pushed = served_->store->OnPush(frame, {payload}, actions_);
    TETHYS_CHECK(pushed.ok(), StatusText(pushed));
  }

  const ExchangeFixture fixture_;
  const std::shared_ptr<ServedStore> served_;
  const Arena gradients_;
  std::vector<StepMessage> messages_;
  NoNetwork actions_;
  int64_t step_ = 0;
};

// Steps of worker threads and a server's loop, in this process, over loopback.
class ExchangeSteps {
 public:
  explicit ExchangeSteps(const ExchangeOptions& options)
      : fixture_(options), server_(fixture_.StartServer("127.0.0.1:0", 0, clock_)) {
    for (int worker = 0; worker < options.workers; ++worker) {
      const std::vector<ServerAddress> servers = {{"localhost", server_->address()}};
      workers_.push_back(std::make_unique<PushPull>(fixture_, worker, servers, clock_));
    }
  }

  void Step() {
    std::vector<std::thread> threads;
    for (const auto& worker : workers_) threads.emplace_back([&worker] { worker->Exchange(); });
    for (std::thread& thread : threads) thread.join();
  }

 private:
  const MonotonicClock clock_;
  const ExchangeFixture fixture_;
  const std::unique_ptr<ParameterServer> server_;
  std::vector<std::unique_ptr<PushPull>> workers_;
};

inline double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// The time of one step in milliseconds.
template <typename Steps>
double TimedStep(Steps& steps) {
  const MonotonicClock clock;
  const Nanoseconds begin = clock.Now();
  steps.Step();
  return static_cast<double>(clock.Now() - begin) / kMillisecond;
}

}  // namespace tethys

#endif  // TETHYS_TESTS_BENCH_SERVER_STEPS_H_
