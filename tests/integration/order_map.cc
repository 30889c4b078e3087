// Prints the sample at each position of a job's epochs, for tests that compare the samples with a journal:
//
//   order_map JOB EPOCHS
//
// prints a line "EPOCH POSITION RANK SAMPLE" for each position of the first EPOCHS epochs.
#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>

#include "absl/strings/numbers.h"
#include "runtime/base/status.h"
#include "runtime/cluster/sample_order.h"
#include "runtime/job/job_file.h"
#include "workers/plan_job.h"

namespace tethys {
namespace {

absl::Status Print(const std::string& job_file, int64_t epochs) {
  TETHYS_ASSIGN_OR_RETURN(const proto::Job job, LoadJob(job_file, {}));
  TETHYS_ASSIGN_OR_RETURN(const proto::JobPlan plan, PlanJob(job));
  const RankSplit split = RankSplitOf(plan);
  EpochOrders orders(OrderRulesOf(plan));
  for (int64_t epoch = 0; epoch < epochs; ++epoch) {
    const std::shared_ptr<const EpochOrder> order = orders.Of(epoch);
    for (int64_t position = 0; position < order->size(); ++position) {
      std::cout << epoch << ' ' << position << ' ' << split.PlaceOf(position).rank << ' '
                << (*order)[position] << '\n';
    }
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace tethys

int main(int count, char** arguments) {
  int64_t epochs = 0;
  if (count != 3 || !absl::SimpleAtoi(arguments[2], &epochs)) {
    std::cerr << "usage: order_map JOB EPOCHS\n";
    return EXIT_FAILURE;
  }
  const absl::Status status = tethys::Print(arguments[1], epochs);
  if (!status.ok()) std::cerr << tethys::StatusText(status) << '\n';
  return status.ok() ? EXIT_SUCCESS : EXIT_FAILURE;
}
