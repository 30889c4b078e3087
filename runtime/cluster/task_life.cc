#include "runtime/cluster/task_life.h"

#include <unistd.h>

#include <atomic>
#include <memory>
#include <utility>

#include "absl/types/optional.h"
#include "runtime/base/logging.h"
#include "runtime/base/process.h"
#include "runtime/telemetry/nvml.h"
#include "runtime/telemetry/resource_sampler.h"

namespace tethys {
namespace {

constexpr Nanoseconds kBeatInterval = 250 * kMillisecond;

// Whether this task samples its machine: the first member on a machine does; on the chief's machine, the
// chief does.
bool SamplesMachine(const proto::Setup& setup) {
  return setup.first_on_host() && setup.self().host() != setup.chief_host();
}

// Adds resource samples to heartbeats, once Start has been called. The session calls Fill for each heartbeat.
class BeatSampler {
 public:
  // Starts sampling. Must return before the session calls Fill.
  void Start(const proto::Setup& setup, const Clock& clock) {
    const proto::Resources& sampling = setup.plan().job().tuning().resources();
    sampler_.emplace(clock, ResourceSampler::Options{.interval = FromSeconds(sampling.interval_seconds()),
                                                     .machine = SamplesMachine(setup)});
  }
  // From now on also samples the GPU with this identity (Device::identity). The session must not call Fill
  // during this call.
  void Watch(const std::string& identity) {
    absl::StatusOr<std::unique_ptr<NvmlGpu>> gpu = NvmlGpu::Open(identity);
    if (gpu.ok()) return sampler_->WatchGpu(*std::move(gpu));
    TETHYS_LOG(Warning, "use of the GPU is not sampled: ", StatusText(gpu.status()));
  }
  void Fill(proto::Heartbeat& heartbeat) {
    if (!sampler_.has_value()) return;
    if (ending_) {
      sampler_->CollectLast(*heartbeat.mutable_resources());
    } else {
      sampler_->Collect(*heartbeat.mutable_resources());
    }
  }
  // Makes the last sample part of the heartbeats that follow, even if the sample's interval is short.
  void End() { ending_ = true; }

 private:
  absl::optional<ResourceSampler> sampler_;
  std::atomic<bool> ending_{false};
};

void FillNothing(proto::Heartbeat&, std::vector<proto::FromTask>&) {}

absl::Status SetUp(const proto::Setup& setup, TaskSession& session, const Clock& clock, TaskLife& life,
                   BeatSampler& sampler) {
  sampler.Start(setup, clock);
  session.StartBeating(kBeatInterval, [&sampler](proto::Heartbeat& heartbeat, std::vector<proto::FromTask>&) {
    sampler.Fill(heartbeat);
  });
  return life.SetUp(setup);
}

// Makes the task a member of the group and reports to the chief that the task is ready. `begin`: the time at
// which the task's set-up began.
absl::Status JoinGroup(const proto::Group& group, Nanoseconds begin, TaskSession& session, const Clock& clock,
                       TaskLife& life, BeatSampler& sampler) {
  TETHYS_RETURN_IF_ERROR(life.JoinGroup(group));
  if (!life.gpu().empty()) {
    session.StartBeating(kBeatInterval, FillNothing);
    sampler.Watch(life.gpu());
  }
  session.StartBeating(kBeatInterval,
                       [&life, &sampler](proto::Heartbeat& heartbeat, std::vector<proto::FromTask>& before) {
                         life.FillBeat(heartbeat, before);
                         sampler.Fill(heartbeat);
                       });
  proto::FromTask ready;
  ready.mutable_ready()->set_setup_ns(clock.Now() - begin);
  ready.mutable_ready()->set_resident_bytes(ResidentBytes());
  life.FillReady(*ready.mutable_ready());
  session.Send(std::move(ready));
  TETHYS_LOG(Info, "ready after ", ToSeconds(clock.Now() - begin), " s");
  return absl::OkStatus();
}

absl::Status Live(const TaskOptions& options, TaskSession& session, const Clock& clock,
                  const std::string& data_address, OrderReader& orders, TaskLife& life,
                  BeatSampler& sampler) {
  // Empty heartbeats come first, so that the chief does not take a long set-up for silence.
  session.StartBeating(kBeatInterval, FillNothing);
  proto::FromTask join;
  join.mutable_join()->set_host(options.host.empty() ? HostName() : options.host);
  join.mutable_join()->set_data_address(data_address);
  join.mutable_join()->set_pid(getpid());
  session.Send(std::move(join));
  TaskCourse& course = orders.course();
  Nanoseconds begin = 0;
  while (true) {
    TETHYS_RETURN_IF_ERROR(orders.Read());
    if (course.ended()) return absl::OkStatus();
    const proto::ToTask& duty = course.duty();
    if (duty.has_setup()) {
      begin = clock.Now();
      TETHYS_RETURN_IF_ERROR(SetUp(duty.setup(), session, clock, life, sampler));
    } else if (duty.has_form()) {
      TETHYS_RETURN_IF_ERROR(JoinGroup(duty.form().group(), begin, session, clock, life, sampler));
    } else {
      TETHYS_RETURN_IF_ERROR(life.Obey(duty));
    }
    course.OnDone();
    orders.Answer();
  }
}

}  // namespace

absl::Status LiveAsTask(const TaskOptions& options, TaskSession& session, const Clock& clock,
                        const std::string& data_address, OrderReader& orders, TaskLife& life) {
  BeatSampler sampler;  // Fills the session's heartbeats until Close.
  const absl::Status status = Live(options, session, clock, data_address, orders, life, sampler);
  sampler.End();
  session.Beat();
  if (!status.ok()) SendFailure(session, status, life.step());
  session.Close();
  return status;
}

void SendSaveDone(TaskSession& session, int64_t save_id, const absl::Status& status) {
  proto::FromTask message;
  message.mutable_save_done()->set_id(save_id);
  if (!status.ok()) message.mutable_save_done()->set_error(StatusText(status));
  session.Send(std::move(message));
}

void SendFailure(TaskSession& session, const absl::Status& status, int64_t step) {
  proto::FromTask message;
  proto::Failure& failure = *message.mutable_failure();
  failure.set_message(std::string(status.message()));
  failure.set_status_code(static_cast<int>(status.code()));
  failure.set_step(step);
  session.Send(std::move(message));
}

}  // namespace tethys
