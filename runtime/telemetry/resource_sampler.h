// Samples the CPU, memory, network and disk that this process and, with Options::machine, its machine use.
// Every process has one ResourceSampler, and sends the samples to the chief with the heartbeats.
// Thread-compatible; a sample takes some tens of microseconds, on the calling thread.
//
// The numbers have the following sources. A number that the system does not give is 0.
//   process  CPU clock_gettime; memory /proc/self/statm; disk /proc/self/io; network: what the kernel counts
//            for each TCP connection of the process (TCP_INFO), payload without headers. A connection that is
//            opened and closed between two samples is not seen. GPU, if the process uses one: nvml.h.
//   machine  /proc/stat, /proc/meminfo, /proc/vmstat, and /proc/net/dev, which counts whole frames. These
//            include everything that runs on the machine, other users' programs, too.
#ifndef TETHYS_RUNTIME_TELEMETRY_RESOURCE_SAMPLER_H_
#define TETHYS_RUNTIME_TELEMETRY_RESOURCE_SAMPLER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>

#include "absl/types/optional.h"
#include "proto/telemetry.pb.h"
#include "runtime/base/clock.h"
#include "runtime/telemetry/nvml.h"
#include "runtime/telemetry/proc_text.h"

namespace tethys {

// Bytes of the TCP connections of this process.
class TcpCounter {
 public:
  // The bytes of all connections found by this and earlier calls, counted from the opening of each
  // connection.
  ByteCounts Count();

 private:
  std::unordered_map<int, ByteCounts> connections_;  // Connections by descriptor.
  ByteCounts sum_;
};

class ResourceSampler {
 public:
  struct Options {
    Nanoseconds interval = kSecond;  // 0: never samples.
    bool machine = false;            // This process samples its machine as well.
    bool loopback = false;  // True if the whole job runs on this machine: then the loopback counts, too.
  };
  // The first interval begins at construction.
  ResourceSampler(const Clock& clock, const Options& options);

  // Tells the sampler that the process computes on this GPU from now on.
  void WatchGpu(std::unique_ptr<NvmlGpu> gpu) { gpu_ = std::move(gpu); }

  using Samples = google::protobuf::RepeatedPtrField<proto::ResourceSample>;
  // If the interval is over, appends a sample of the process and, with `machine`, a sample of the machine.
  // Call Collect several times per interval.
  void Collect(Samples& out);
  // Appends a sample that covers the time since the last sample, unless this time is too short for a
  // meaningful sample.
  void CollectLast(Samples& out);

 private:
  struct Counters {
    Nanoseconds cpu_ns = 0;
    int64_t memory_bytes = 0;  // Bytes in use; the other fields are counters.
    ByteCounts network;
    ByteCounts disk;
  };
  Counters ReadProcess();
  Counters ReadMachine();
  void Sample(Nanoseconds now, Samples& out);
  void Append(bool machine, Nanoseconds now, const Counters& before, const Counters& after,
              Samples& out) const;

  const Clock& clock_;
  const Options options_;
  TcpCounter tcp_;
  const std::string boot_id_;  // The boot id of the machine's kernel; empty if unknown.
  int cores_ = 0;
  Nanoseconds last_ = 0;  // Time at which the counters below were read.
  Nanoseconds due_ = 0;
  Counters process_, machine_;
  std::unique_ptr<NvmlGpu> gpu_;  // Null: the process uses no GPU.
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_TELEMETRY_RESOURCE_SAMPLER_H_
