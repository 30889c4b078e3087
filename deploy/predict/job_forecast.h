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
// Parameters that never change: every worker holds them, and no server does.
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
// host. kDevices: some worker has a GPU; GPUs exchange themselves if each worker has a GPU of its own.
ExchangeKind ExchangeOf(const proto::JobPlan& plan, const std::vector<int>& worker_hosts);

// The vector that mirrored workers sum in a step, with the padding between variables.
int64_t GradientBytes(const proto::JobPlan& plan, const Model& model);
// The bytes that a rank sends in an all-reduce of `bytes` among n ranks, around the ring or through shared
// memory. A rank receives as many bytes.
int64_t RingBytes(int64_t bytes, int64_t n);
int64_t SharedMemoryBytes(int64_t bytes, int64_t n);

// A part of a mirrored step's gradients that is reduced at once.
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

// ---- memory: live buffers; the program itself comes on top

// The bytes of data and of an epoch's order that a worker holds. Samples in a cache count for the host
// instead.
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
// The memory of a server that holds so many elements.
ServerMemory MemoryOfServer(const proto::JobPlan& plan, int64_t elements);
// The memory of the largest server; 0 without servers.
int64_t LargestServerBytes(const proto::JobPlan& plan);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_PREDICT_JOB_FORECAST_H_
