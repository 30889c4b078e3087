// Measures how much longer a bulk-synchronous step takes if the server keeps what it needs to undo the step,
// with which a job survives the loss of a worker. Each turn times one step without and one step with this
// undo. Unit: milliseconds per step, medians over turns; each ratio is the median of the turns' ratios.
//
//   undo_bench [MEBIBYTES] [WORKERS] [TURNS]       default: 0.2, 20 and 100 MiB, 2 workers, 31 turns
//
// store:    the server's part without a network.
// exchange: worker threads and the server's loop, in this process, over loopback. Limit: a step with the undo
//           takes at most 1.02 times as long as a step without.
#include <cstdlib>

#include "absl/strings/str_format.h"
#include "tests/bench/server_steps.h"

namespace tethys {
namespace {

constexpr int64_t kMessageBytes = 512 << 10;

ExchangeOptions OptionsFor(int64_t bytes, int workers, bool keeps_undo) {
  return {.workers = workers,
          .bytes = bytes,
          .message_bytes = kMessageBytes,
          .momentum = true,
          .keeps_undo = keeps_undo,
          .token = JobToken::Random()};
}

template <typename Steps>
void Compare(const char* name, int64_t bytes, int workers, int turns, const char* limit) {
  Steps without(OptionsFor(bytes, workers, false));
  Steps with(OptionsFor(bytes, workers, true));
  TimedStep(without);
  TimedStep(with);
  std::vector<double> without_times, with_times, ratios;
  for (int turn = 0; turn < turns; ++turn) {
    without_times.push_back(TimedStep(without));
    with_times.push_back(TimedStep(with));
    ratios.push_back(with_times.back() / without_times.back());
  }
  absl::PrintF("%6.1f MiB  %-8s  without %8.3f ms   with %8.3f ms   ratio %.3f%s\n",
               static_cast<double>(bytes) / (1 << 20), name, Median(without_times), Median(with_times),
               Median(ratios), limit);
}

}  // namespace
}  // namespace tethys

int main(int argc, char** argv) {
  tethys::KeepMessageMemory();
  std::vector<double> sizes = {0.2, 20, 100};
  if (argc > 1) sizes = {std::atof(argv[1])};
  const int workers = argc > 2 ? std::atoi(argv[2]) : 2;
  const int turns = argc > 3 ? std::atoi(argv[3]) : 31;
  for (const double mebibytes : sizes) {
    const int64_t bytes = static_cast<int64_t>(mebibytes * (1 << 20)) / 2048 * 2048;
    if (bytes <= 0 || workers < 1 || turns < 1) return 2;
    tethys::Compare<tethys::StoreSteps>("store", bytes, workers, turns, "");
    tethys::Compare<tethys::ExchangeSteps>("exchange", bytes, workers, turns, "   (limit 1.020)");
  }
  return 0;
}
