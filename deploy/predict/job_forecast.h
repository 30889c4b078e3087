// The sizes that follow from a job's plan without any measurement: bytes that each process sends, buckets,
// messages, memory. `tethys plan` prints them (deploy/describe/job_description.h) and predictions are
// computed from them (step_model.h), so both agree. Pure; any thread.
#ifndef TETHYS_DEPLOY_PREDICT_JOB_FORECAST_H_
#define TETHYS_DEPLOY_PREDICT_JOB_FORECAST_H_

#include <cstdint>
#include <vector>

#include "proto/plan.pb.h"
#include "runtime/base/status.h"
#include "runtime/data/sample_source.h"
#include "runtime/nn/memory_forecast.h"
#include "runtime/nn/model.h"

namespace tethys {

int64_t ParameterCount(const proto::JobPlan& plan);
// The number of parameters that never change: every worker has them, and no server does.
int64_t FrozenCount(const proto::JobPlan& plan);
int64_t ElementsOf(const proto::VariableSpec& variable);
int WorkersOn(proto::Device::Kind device, const proto::JobPlan& plan);
bool InBfloat16(const proto::Job& job);
SampleSpec SampleSpecOf(const proto::JobPlan& plan);

absl::StatusOr<Model> ModelOf(const proto::JobPlan& plan);

// ---- exchange

// How the workers of a job exchange gradients, as CreateExchange (collectives/exchange.h) chooses on CPUs.
enum class ExchangeKind { kNone, kServers, kRing, kSharedMemory, kHierarchical, kDevices };

// `worker_hosts` has a number for each worker, equal for workers on one host; empty: all workers are on one
// host. kDevices: at least one worker has a GPU. GPUs exchange gradients among themselves if each worker has
// a GPU of its own.
ExchangeKind ExchangeOf(const proto::JobPlan& plan, const std::vector<int>& worker_hosts);

// The bytes of the vector that mirrored workers sum in a step, with the padding between variables.
int64_t GradientBytes(const proto::JobPlan& plan, const Model& model);
// The bytes that a rank sends in an all-reduce of `bytes` among n ranks through shared memory. The rank
// receives as many bytes.
int64_t SharedMemoryBytes(int64_t bytes, int64_t n);

// Mirrored workers that send and receive the same bytes in a step.
struct WorkerTraffic {
  int workers = 0;
  // The number of workers on the host of each of these workers; 0: the traffic does not depend on hosts.
  int ranks = 0;
  // True if each of these workers is the first worker of its host, and so exchanges sums with the other
  // hosts.
  bool leads = false;
  int64_t out = 0;
  int64_t in = 0;
  int64_t out_by_tcp = 0;  // The part of `out` that goes by TCP. As many bytes arrive by TCP.
};
// The bytes that the run will measure (Communicator::traffic), grouped by the number of ranks on a host.
// Within a host, each worker sums its share of all gradients in place and writes the sums to all workers of
// the host. A ring all-reduce moves each byte twice. Empty without mirrored workers.
std::vector<WorkerTraffic> MirroredTraffic(const proto::JobPlan& plan, const Model& model,
                                           const std::vector<int>& worker_hosts);

// A part of a mirrored step's gradients that one all-reduce sums.
struct BucketForecast {
  int64_t bytes = 0;
  int64_t last_ready = 0;  // Index in Model::ready_order of the last range that the bucket waits for.
};
absl::StatusOr<std::vector<BucketForecast>> ForecastBuckets(const proto::JobPlan& plan, const Model& model);

// The push of a worker to a server in a step.
struct PushForecast {
  int64_t bytes = 0;  // Bytes of the gradients, without padding.
  int64_t messages = 0;
  int64_t last_message_bytes = 0;
};
// The pushes of a worker, one per server. `one_machine`: all servers listen on loopback, which makes messages
// larger.
absl::StatusOr<std::vector<PushForecast>> ForecastPushes(const proto::JobPlan& plan, const Model& model,
                                                         bool one_machine);

// ---- memory: the live buffers, without the memory of the program itself

// The bytes of memory in which a worker holds data and the order of an epoch's samples. Samples in a cache
// count for the host instead.
int64_t DatasetBytes(const proto::JobPlan& plan);

MemoryForecast WorkerMemory(const proto::JobPlan& plan, const Model& model, proto::Device::Kind device);

struct ServerMemory {
  int64_t parameters = 0;
  int64_t gradients = 0;
  int64_t slots = 0;
  int64_t total() const { return parameters + gradients + slots; }
};
// Copies of gradients that a server keeps: one for each worker, unless it adds each push on arrival.
int64_t GradientCopies(const proto::JobPlan& plan);
// The memory of a server whose shards have `elements` elements. In jobs whose workers form a new group after
// the loss of a worker (FormsNewGroups), a server keeps parameters and slots twice, so that it can take back
// a step.
ServerMemory MemoryOfServer(const proto::JobPlan& plan, int64_t elements);
// The memory of the largest server; 0 without servers.
int64_t LargestServerBytes(const proto::JobPlan& plan);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_PREDICT_JOB_FORECAST_H_
