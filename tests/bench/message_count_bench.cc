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
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "tests/bench/server_steps.h"

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

template <typename Steps>
void Compare(const char* name, const Settings& settings, bool limited) {
  Steps few(OptionsFor(settings, settings.few));
  Steps many(OptionsFor(settings, settings.many));
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
