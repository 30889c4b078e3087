#include "runtime/telemetry/resource_sampler.h"

#include <dirent.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <memory>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "runtime/base/file.h"
#include "runtime/base/process.h"

namespace tethys {
namespace {

// CollectLast takes no sample of a shorter interval: the kernel counts a machine's CPU time in ticks of 10
// ms, so the sample would be inaccurate.
constexpr Nanoseconds kLeastInterval = 100 * kMillisecond;
constexpr int64_t kMaxProcBytes = int64_t{4} << 20;

template <typename Value, typename Parse>
Value ReadProc(const char* path, const Parse& parse) {
  const absl::StatusOr<std::string> text = ReadFile(path, kMaxProcBytes);
  if (!text.ok()) return Value{};
  const absl::StatusOr<Value> value = parse(*text);
  return value.ok() ? *value : Value{};
}

Nanoseconds ProcessCpu() {
  timespec used{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return used.tv_sec * kSecond + used.tv_nsec;
}

// The bytes of a TCP connection; absent if the descriptor is not a TCP connection.
absl::optional<ByteCounts> ConnectionBytes(int fd) {
  tcp_info info{};
  socklen_t size = sizeof(info);
  if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return absl::nullopt;
  if (size < offsetof(tcp_info, tcpi_bytes_received) + sizeof(info.tcpi_bytes_received)) return absl::nullopt;
  return ByteCounts{static_cast<int64_t>(info.tcpi_bytes_received),
                    static_cast<int64_t>(info.tcpi_bytes_acked)};
}

void AddGpu(const GpuReading& gpu, proto::ResourceSample& sample) {
  if (gpu.percent.has_value()) sample.set_gpu_percent(*gpu.percent);
  if (gpu.memory_bytes.has_value()) sample.set_gpu_memory_bytes(*gpu.memory_bytes);
  if (gpu.power_watts.has_value()) sample.set_gpu_power_watts(*gpu.power_watts);
}

// The increase of a counter. A decrease means that a new connection or a restarted interface has begun to
// count at 0.
int64_t Growth(int64_t before, int64_t after) { return after >= before ? after - before : after; }

}  // namespace

ByteCounts TcpCounter::Count() {
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(opendir("/proc/self/fd"), closedir);
  if (directory == nullptr) return sum_;
  std::unordered_map<int, ByteCounts> found;
  while (const dirent* entry = readdir(directory.get())) {
    int fd = -1;
    if (!absl::SimpleAtoi(entry->d_name, &fd)) continue;
    const absl::optional<ByteCounts> now = ConnectionBytes(fd);
    if (!now.has_value()) continue;
    const ByteCounts before = connections_[fd];
    sum_.in += Growth(before.in, now->in);
    sum_.out += Growth(before.out, now->out);
    found[fd] = *now;
  }
  connections_ = std::move(found);
  return sum_;
}

ResourceSampler::ResourceSampler(const Clock& clock, const Options& options)
    : clock_(clock), options_(options), boot_id_(BootId()) {
  if (options_.interval <= 0) return;
  last_ = clock_.Now();
  due_ = last_ + options_.interval;
  process_ = ReadProcess();
  machine_ = ReadMachine();
}

void ResourceSampler::Collect(Samples& out) {
  const Nanoseconds now = options_.interval > 0 ? clock_.Now() : 0;
  if (options_.interval <= 0 || now < due_) return;
  // Due times are multiples of the interval apart, so that delays do not add up. If several due times have
  // passed, one sample covers them all.
  due_ += std::max<Nanoseconds>(1, (now - due_) / options_.interval + 1) * options_.interval;
  Sample(now, out);
}

void ResourceSampler::CollectLast(Samples& out) {
  if (options_.interval <= 0) return;
  const Nanoseconds now = clock_.Now();
  if (now - last_ >= std::min(kLeastInterval, options_.interval)) Sample(now, out);
}

void ResourceSampler::Sample(Nanoseconds now, Samples& out) {
  const Counters process = ReadProcess();
  Append(false, now, process_, process, out);
  if (gpu_ != nullptr) AddGpu(gpu_->Read(), *out.rbegin());
  process_ = process;
  if (options_.machine) {
    const Counters machine = ReadMachine();
    Append(true, now, machine_, machine, out);
    machine_ = machine;
  }
  last_ = now;
}

ResourceSampler::Counters ResourceSampler::ReadProcess() {
  return {.cpu_ns = ProcessCpu(),
          .memory_bytes = ResidentBytes(),
          .network = tcp_.Count(),
          .disk = ReadProc<ByteCounts>("/proc/self/io", ParseSelfIo)};
}

ResourceSampler::Counters ResourceSampler::ReadMachine() {
  if (!options_.machine) return {};
  const int64_t ticks_per_second = std::max<int64_t>(1, sysconf(_SC_CLK_TCK));
  const auto cpu = ReadProc<MachineCpu>(
      "/proc/stat", [&](absl::string_view text) { return ParseStat(text, ticks_per_second); });
  const auto network = ReadProc<ByteCounts>(
      "/proc/net/dev", [&](absl::string_view text) { return ParseNetDev(text, options_.loopback); });
  cores_ = cpu.cores;
  return {.cpu_ns = cpu.busy_ns,
          .memory_bytes = ReadProc<int64_t>("/proc/meminfo", ParseUsedMemory),
          .network = network,
          .disk = ReadProc<ByteCounts>("/proc/vmstat", ParseVmstat)};
}

void ResourceSampler::Append(bool machine, Nanoseconds now, const Counters& before, const Counters& after,
                             Samples& out) const {
  proto::ResourceSample& sample = *out.Add();
  sample.set_machine(machine);
  sample.set_taken_ns(now);
  sample.set_interval_ns(std::max<Nanoseconds>(1, now - last_));
  sample.set_cpu_percent(100.0 * std::max<Nanoseconds>(0, after.cpu_ns - before.cpu_ns) /
                         sample.interval_ns());
  sample.set_resident_bytes(after.memory_bytes);
  sample.set_network_in_bytes(Growth(before.network.in, after.network.in));
  sample.set_network_out_bytes(Growth(before.network.out, after.network.out));
  sample.set_disk_read_bytes(Growth(before.disk.in, after.disk.in));
  sample.set_disk_write_bytes(Growth(before.disk.out, after.disk.out));
  if (!machine) return;
  sample.set_cores(cores_);
  sample.set_boot_id(boot_id_);
}

}  // namespace tethys
