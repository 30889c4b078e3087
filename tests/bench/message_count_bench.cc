// Measures whether a bulk-synchronous step with a parameter server costs more when the same bytes are sent in
// many messages. A turn times one step with few messages and one with many. Unit: milliseconds per step,
// medians over turns; each ratio is the median of the turns' ratios.
//
//   message_count_bench [--bytes=N] [--few=N] [--many=N] [--shards=N] [--workers=N] [--turns=N]
//                       [--exchange=0]
//
// store:    the server's part without a network: every worker's messages are pushed into one ParameterStore.
//           Limit: a step with 8,000 messages takes at most 1.5 times as long as one with 200.
// exchange: worker threads and the server's loop, in this process, over loopback. The limit of 1.5 holds for
//           messages of 128 KiB, as large models send over links (--bytes=536870912 --few=100 --many=4096,
//           7 GB of memory). With smaller messages the ratio shows gRPC's cost per message.
#include <algorithm>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "ps/data_stream.h"
#include "ps/message_plan.h"
#include "ps/served_store.h"
#include "tests/bench/exchange_fixture.h"

namespace tethys {
namespace {

struct Settings {
  int64_t bytes = 64 << 20;
  int64_t few = 200;
  int64_t many = 8000;
  int shards = 8;
  int workers = 2;
  int turns = 9;
  int exchange = 1;
};

Settings ParseFlags(int argc, char** argv) {
  Settings settings;
  for (int i = 1; i < argc; ++i) {
    const std::pair<std::string, std::string> flag = absl::StrSplit(argv[i], absl::MaxSplits('=', 1));
    bool ok = true;
    if (flag.first == "--bytes") {
      ok = absl::SimpleAtoi(flag.second, &settings.bytes);
    } else if (flag.first == "--few") {
      ok = absl::SimpleAtoi(flag.second, &settings.few);
    } else if (flag.first == "--many") {
      ok = absl::SimpleAtoi(flag.second, &settings.many);
    } else if (flag.first == "--shards") {
      ok = absl::SimpleAtoi(flag.second, &settings.shards);
    } else if (flag.first == "--workers") {
      ok = absl::SimpleAtoi(flag.second, &settings.workers);
    } else if (flag.first == "--turns") {
      ok = absl::SimpleAtoi(flag.second, &settings.turns);
    } else {
      ok = flag.first == "--exchange" && absl::SimpleAtoi(flag.second, &settings.exchange);
    }
    TETHYS_CHECK(ok, "bad flag ", argv[i]);
  }
  return settings;
}

ExchangeOptions OptionsFor(const Settings& settings, int64_t messages) {
  return {.workers = settings.workers,
          .shards = settings.shards,
          .bytes = settings.bytes,
          .message_bytes = std::max<int64_t>(64, settings.bytes / messages / 64 * 64),
          .token = JobToken::Random()};
}

class NoNetwork final : public StoreActions {
 public:
  void Record(const proto::AppliedPush&) override {}
  void Reply(const ParameterReply&) override { ++replies; }
  void ReplyNorm(const NormReply&) override {}
  void Fail(const absl::Status& status) override { TETHYS_CHECK(false, StatusText(status)); }

  int64_t replies = 0;
};

class StoreSteps {
 public:
  StoreSteps(const Settings& settings, int64_t messages)
      : fixture_(OptionsFor(settings, messages)),
        served_(*ServedStore::Create(fixture_.plan(), 0, 1, 1)),
        gradients_(settings.bytes / 4) {
    const Range all[] = {{0, gradients_.size()}};
    messages_ =
        *PlanMessages(fixture_.plan().placement(), gradients_.size(), all, fixture_.options().message_bytes);
  }

  void Step() {
    const auto workers = static_cast<int>(served_->workers.size());
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

class ExchangeSteps {
 public:
  ExchangeSteps(const Settings& settings, int64_t messages)
      : fixture_(OptionsFor(settings, messages)), server_(fixture_.StartServer("127.0.0.1:0", 0, clock_)) {
    for (int worker = 0; worker < settings.workers; ++worker) {
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

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

template <typename Steps>
double TimedStep(Steps& steps) {
  const MonotonicClock clock;
  const Nanoseconds begin = clock.Now();
  steps.Step();
  return static_cast<double>(clock.Now() - begin) / kMillisecond;
}

template <typename Steps>
void Compare(const char* name, const Settings& settings, bool limited) {
  Steps few(settings, settings.few);
  Steps many(settings, settings.many);
  TimedStep(few);
  TimedStep(many);
  std::vector<double> few_times;
  std::vector<double> many_times;
  std::vector<double> ratios;
  for (int turn = 0; turn < settings.turns; ++turn) {
    few_times.push_back(TimedStep(few));
    many_times.push_back(TimedStep(many));
    ratios.push_back(many_times.back() / few_times.back());
  }
  absl::PrintF("%-8s  %d messages %8.1f ms   %d messages %8.1f ms   ratio %.2f%s\n", name, settings.few,
               Median(few_times), settings.many, Median(many_times), Median(ratios),
               limited ? "   (limit 1.50)" : "");
}

}  // namespace
}  // namespace tethys

int main(int argc, char** argv) {
  tethys::KeepMessageMemory();
  const tethys::Settings settings = tethys::ParseFlags(argc, argv);
  absl::PrintF("%d bytes in %d shards, %d workers, 1 server\n", settings.bytes, settings.shards,
               settings.workers);
  tethys::Compare<tethys::StoreSteps>("store", settings, true);
  const bool large = settings.bytes / settings.many >= 128 << 10;
  if (settings.exchange != 0) tethys::Compare<tethys::ExchangeSteps>("exchange", settings, large);
  return 0;
}
