#include "workers/step_phases.h"

#include "runtime/device/profiler_range.h"

namespace tethys {
namespace {

constexpr std::array<const char*, kPhases> kNames = {"data", "forward", "backward", "exchange"};

}  // namespace

absl::StatusOr<std::unique_ptr<StepPhases>> StepPhases::Create(Device& device, Stream& stream,
                                                               StepRecorder& recorder) {
  std::unique_ptr<StepPhases> phases(new StepPhases(device, stream, recorder));
  if (!device.reads_host_memory()) TETHYS_RETURN_IF_ERROR(phases->CreateEvents());
  return phases;
}

absl::Status StepPhases::CreateEvents() {
  timed_ = true;
  for (Events& events : events_) {
    TETHYS_ASSIGN_OR_RETURN(events.update, device_.CreateTimedEvent());
    for (auto& end : events.ends) {
      TETHYS_ASSIGN_OR_RETURN(end, device_.CreateTimedEvent());
    }
  }
  return absl::OkStatus();
}

absl::Status StepPhases::Run(Phase phase, absl::FunctionRef<absl::Status()> work) {
  const auto index = static_cast<size_t>(phase);
  const ProfilerRange range(device_, kNames[index], step_.step);
  TETHYS_RETURN_IF_ERROR(work());
  recorder_.Mark(phase);
  return timed_ ? events_[step_.parity].ends[index]->Record(stream_) : absl::OkStatus();
}

absl::StatusOr<std::optional<DeviceTimes>> StepPhases::OnDevice(const StepInfo& step) const {
  if (!timed_) return std::nullopt;
  const auto& [ends, update] = events_[step.parity];
  const auto end = [&ends = ends](Phase phase) -> const TimedEvent& {
    return *ends[static_cast<size_t>(phase)];
  };
  DeviceTimes times;
  TETHYS_ASSIGN_OR_RETURN(times.forward_ns, end(Phase::kForward).Since(end(Phase::kData)));
  TETHYS_ASSIGN_OR_RETURN(times.backward_ns, end(Phase::kBackward).Since(end(Phase::kForward)));
  TETHYS_ASSIGN_OR_RETURN(times.exchange_ns, end(Phase::kExchange).Since(end(Phase::kBackward)));
  if (!updates_here_) return times;
  TETHYS_ASSIGN_OR_RETURN(times.update_ns, end(Phase::kExchange).Since(*update));
  return times;
}

}  // namespace tethys
