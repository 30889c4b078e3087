#include "deploy/report/medium.h"

#include "absl/strings/match.h"
#include "deploy/report/comparison.h"

namespace tethys {

std::string MediumOf(const proto::RunSummary& summary) {
  const proto::Communication& communication = summary.communication();
  if (communication.bytes_out_per_step() + communication.bytes_in_per_step() <= 0) return "";
  const std::string exchange = ExchangeOf(summary);
  const bool memory = absl::StrContains(exchange, "shared memory");
  if (memory && absl::StrContains(exchange, "TCP")) return kThroughBoth;
  if (memory) return kThroughMemory;
  return absl::StrContains(exchange, "NCCL") ? kThroughNccl : kThroughTcp;
}

}  // namespace tethys
