// The chief's side of measuring resources: receives the samples of all processes and machines, writes them to
// RUN_DIR/resources.csv with times on the chief's clock, and keeps means and extremes for the summary. Memory
// grows with the number of processes, not of samples. Thread-compatible; only Open, Restore and Flush
// wait for the disk.
#ifndef TETHYS_RUNTIME_TELEMETRY_RESOURCE_LOG_H_
#define TETHYS_RUNTIME_TELEMETRY_RESOURCE_LOG_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "proto/chief_snapshot.pb.h"
#include "proto/summary.pb.h"
#include "proto/telemetry.pb.h"
#include "runtime/base/clock.h"
#include "runtime/base/state_check.h"
#include "runtime/base/status.h"
#include "runtime/telemetry/csv_file.h"

namespace tethys {

inline constexpr char kResourcesCsvFile[] = "resources.csv";
// Columns of resources.csv. `seconds` is when the sample was taken, from the chief's start (a resumed run
// begins at 0 again). `process` is empty on a machine's own lines. Network and disk bytes count from the
// previous sample; resident_bytes and gpu_memory_bytes are bytes in use. Cells about the GPU are empty if a
// process uses no GPU.
extern const char kResourcesCsvHeader[];

class ResourceLog {
 public:
  // The column `seconds` counts from `begin`, a time on the chief's clock.
  static absl::StatusOr<std::unique_ptr<ResourceLog>> Open(const std::string& run_dir, Nanoseconds begin);

  // Writes the log's state into an empty message. Does not block. Errors: those of CsvFile::Save.
  absl::Status Save(proto::ResourceLogState& state) const;
  // Recreates the log whose Save wrote `state`, for a process that takes over, with the file as it was then.
  // InvalidArgument: no log can have written `state`. DataLoss: the file is shorter than it was then.
  static absl::StatusOr<std::unique_ptr<ResourceLog>> Restore(const std::string& run_dir, Nanoseconds begin,
                                                              const proto::ResourceLogState& state);

  // Sets the machines whose samples are added up. A sum is made whenever each of these machines has sent a
  // new sample; a machine that has sent no sample for three intervals is neither waited for nor counted.
  void SetMachines(const std::vector<std::string>& hosts);

  // `clock_offset` is the chief's clock minus the sample's clock. An implausible sample (no length, a
  // negative or non-finite number) is dropped. An error concerns the file only; the summary counts the sample
  // even then.
  absl::Status Add(const std::string& host, const std::string& process, const proto::ResourceSample& sample,
                   Nanoseconds clock_offset);
  // Queues all lines added so far for writing. Does not block.
  absl::Status HandOn() { return csv_->HandOn(); }
  // Blocks until all lines added so far are in the file.
  absl::Status Flush() { return csv_->Flush(); }

  // Fills in the summary's `resources`.
  void FillSummary(proto::RunSummary& summary) const;

 private:
  static constexpr int kQuantities = 6;  // CPU %, resident bytes, four rates in bytes/s.
  using Values = std::array<double, kQuantities>;
  struct Gauge {
    double seconds = 0;   // The total time that the values cover.
    double weighted = 0;  // Sum over the values of value * seconds.
    double minimum = 0;
    double maximum = 0;

    void Add(double value, double length);
    void Fill(proto::Range& range) const;
    void Save(proto::ResourceLogState::Gauge& state) const;
    void Restore(const proto::ResourceLogState::Gauge& state, StateCheck& check);
  };
  struct Use {
    int cores = 0;
    std::string boot_id;
    int64_t samples = 0;
    std::array<Gauge, kQuantities> gauges;
    Gauge gpu_percent, gpu_memory_bytes, gpu_power_watts;

    void Add(const Values& values, double length);
    void AddGpu(const proto::ResourceSample& sample);
    void Fill(proto::ResourceSummary& summary) const;
    void Save(proto::ResourceLogState::Use& state) const;
    void Restore(const proto::ResourceLogState::Use& state, StateCheck& check);
  };
  // A machine's latest sample. `fresh` is true until the sample has been added to a sum over machines. A sum
  // is made once every machine has a fresh sample, except machines that have sent no sample for three
  // intervals.
  struct Latest {
    bool fresh = false;
    int cores = 0;
    Nanoseconds taken = 0;  // When the sample was taken, on the chief's clock.
    Values values{};

    void Save(proto::ResourceLogState::Machine& state) const;
    void Restore(const proto::ResourceLogState::Machine& state, StateCheck& check);
  };

  ResourceLog(std::unique_ptr<CsvFile> csv, Nanoseconds begin) : csv_(std::move(csv)), begin_(begin) {}
  absl::Status RestoreSums(const proto::ResourceLogState& state);
  void AddMachine(const std::string& host, const Values& values, const proto::ResourceSample& sample,
                  Nanoseconds taken);

  const std::unique_ptr<CsvFile> csv_;
  const Nanoseconds begin_;
  // Keyed by host and process; the process "" is the machine itself.
  std::map<std::pair<std::string, std::string>, Use> use_;
  std::map<std::string, Latest> machines_;
  Use cluster_;
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_TELEMETRY_RESOURCE_LOG_H_
