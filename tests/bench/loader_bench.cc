// Builds the batches of whole epochs of a job's data, as a worker's loader does, for
// tests/bench/peers/data_loading.py:
//
//   loader_bench JOB [--set=FIELD=VALUE]...
//
// JOB is the file of a whole job, or a file with `data { ... }` alone. For each line on standard input, the
// program reads one epoch in batches of 128, and prints a line with the seconds that the epoch took. Each
// epoch has a different order.
#include <chrono>
#include <cstdio>
#include <iostream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "runtime/data/dataset.h"
#include "runtime/data/loader.h"
#include "runtime/job/job_file.h"

namespace tethys {
namespace {

constexpr int64_t kBatch = 128;

void ReadEpoch(BatchLoader& loader, const std::shared_ptr<const EpochOrder>& order) {
  const int64_t steps = StepsPerEpoch(order->size(), kBatch, /*drop_remainder=*/false);
  int64_t announced = 0;
  for (int64_t step = 0; step < steps; ++step) {
    for (; announced < steps && loader.room() > 0; ++announced) {
      loader.Announce(order, StepSlice(order->size(), kBatch, announced));
    }
    const absl::StatusOr<HostBatch> batch = loader.Next();
    TETHYS_CHECK(batch.ok(), batch.status().ToString());
  }
}

int Main(int argc, char** argv) {
  std::vector<std::string> overrides;
  for (int i = 2; i < argc; ++i) {
    const absl::string_view flag = argv[i];
    if (!absl::StartsWith(flag, "--set=")) return 2;
    overrides.emplace_back(flag.substr(6));
  }
  if (argc < 2) return 2;
  const absl::StatusOr<proto::Job> job = LoadData(argv[1], overrides);
  TETHYS_CHECK(job.ok(), job.status().ToString());
  const absl::StatusOr<Datasets> data = LoadDatasets(*job);
  TETHYS_CHECK(data.ok(), data.status().ToString());

  const Dataset& train = *data->train;
  const BatchLoader::Options options = {.prefetch_batches = job->tuning().prefetch_batches(),
                                        .threads = job->data().loader_threads()};
  std::vector<BatchBuffer> buffers;
  std::vector<HostBatch> batches;
  for (int64_t i = 0; i < BatchLoader::Buffers(options); ++i) {
    buffers.emplace_back(kBatch, train.sample_elements(), train.label_format().elements());
    batches.push_back(buffers.back().batch());
  }
  BatchLoader loader(data->train, options, batches);
  std::string line;
  for (int64_t epoch = 0; std::getline(std::cin, line); ++epoch) {
    const auto begin = std::chrono::steady_clock::now();
    ReadEpoch(loader, std::make_shared<const EpochOrder>(1, epoch, train.size()));
    std::printf("%.6f\n", std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace
}  // namespace tethys

int main(int argc, char** argv) { return tethys::Main(argc, argv); }
