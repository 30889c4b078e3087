#include "runtime/cluster/task_life.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <utility>

#include "absl/types/optional.h"
#include "runtime/base/logging.h"
#include "runtime/base/process.h"
#include "runtime/cluster/membership.h"
#include "runtime/shape/job_shape.h"
#include "runtime/telemetry/nvml.h"
#include "runtime/telemetry/resource_sampler.h"

namespace tethys {
namespace {

constexpr Nanoseconds kBeatInterval = 250 * kMillisecond;
// The least number of heartbeats within the time after which the chief takes this task for lost.
constexpr int kBeatsOfSilence = 8;

Nanoseconds BeatInterval(const proto::Job& job) {
  return std::min(kBeatInterval, FromSeconds(WorkerSilence(job)) / kBeatsOfSilence);
}

// True if this task samples the resources of its machine: on each machine the first member does, except on
// the chief's machine, where the chief does.
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
  // From now on a heartbeat includes a sample of the time since the last sample, even if this time is shorter
  // than the sampling interval.
  void End() { ending_ = true; }

 private:
  absl::optional<ResourceSampler> sampler_;
  std::atomic<bool> ending_{false};
};

void FillNothing(proto::Heartbeat&, std::vector<proto::FromTask>&) {}

// Carries out the orders that all tasks have in common.
class Tasks {
 public:
  Tasks(TaskSession& session, const Clock& clock, OrderReader& orders, TaskLife& life, BeatSampler& sampler)
      : session_(session), clock_(clock), orders_(orders), life_(life), sampler_(sampler) {}

  // Carries out orders until the job ends.
  absl::Status Work() {
    TaskCourse& course = orders_.course();
    while (true) {
      TETHYS_RETURN_IF_ERROR(orders_.Read());
      if (course.ended()) return absl::OkStatus();
      const absl::Status done = Obey(course.duty());
      if (done.ok()) {
        course.OnDone();
      } else {
        TETHYS_RETURN_IF_ERROR(Leave(done));
      }
      orders_.Answer();
    }
  }

 private:
  absl::Status Obey(const proto::ToTask& duty) {
    if (duty.has_setup()) return SetUp(duty.setup());
    if (duty.has_form()) return JoinGroup(duty.form());
    if (!duty.has_halt()) return life_.Obey(duty);
    TETHYS_RETURN_IF_ERROR(life_.LeaveGroup());
    SayHalted();
    return absl::OkStatus();
  }

  absl::Status SetUp(const proto::Setup& setup) {
    const Nanoseconds begin = set_up_begin_ = clock_.Now();
    sampler_.Start(setup, clock_);
    beat_interval_ = BeatInterval(setup.plan().job());
    session_.StartBeating(beat_interval_,
                          [&sampler = sampler_](proto::Heartbeat& heartbeat, std::vector<proto::FromTask>&) {
                            sampler.Fill(heartbeat);
                          });
    TETHYS_RETURN_IF_ERROR(life_.SetUp(setup));
    proto::FromTask ready;
    ready.mutable_ready()->set_setup_ns(clock_.Now() - begin);
    ready.mutable_ready()->set_resident_bytes(ResidentBytes());
    life_.FillReady(*ready.mutable_ready());
    session_.Send(std::move(ready));
    return absl::OkStatus();
  }

  absl::Status JoinGroup(const proto::Form& form) {
    const Nanoseconds begin = clock_.Now();
    proto::FromTask message;
    proto::Formed& formed = *message.mutable_formed();
    TETHYS_RETURN_IF_ERROR(life_.JoinGroup(form, formed));
    const bool first = !std::exchange(joined_, true);
    if (first) BeatFully();
    // A replaced server reports the pushes that it took over before it takes part.
    if (first && form.group().generation() > Membership::kFirstGeneration) session_.Beat();
    formed.set_generation(form.group().generation());
    formed.set_form_ns(clock_.Now() - begin - formed.copy_ns());
    if (first) {
      TETHYS_LOG(Info, "ready after ", ToSeconds(clock_.Now() - set_up_begin_), " s");
    } else {
      TETHYS_LOG(Info, "joined group ", formed.generation(), " after ", ToSeconds(clock_.Now() - begin),
                 " s, of which the copy of parameters took ", ToSeconds(formed.copy_ns()), " s");
    }
    session_.Send(std::move(message));
    return absl::OkStatus();
  }

  // From now on heartbeats have all fields.
  void BeatFully() {
    if (!life_.gpu().empty()) {
      session_.StartBeating(beat_interval_, FillNothing);
      sampler_.Watch(life_.gpu());
    }
    session_.StartBeating(beat_interval_,
                          [&life = life_, &sampler = sampler_](proto::Heartbeat& heartbeat,
                                                               std::vector<proto::FromTask>& before) {
                            life.FillBeat(heartbeat, before);
                            sampler.Fill(heartbeat);
                          });
  }

  // Leaves the order that ended with `error`, if this is no failure of the task; otherwise returns `error`.
  absl::Status Leave(const absl::Status& error) {
    TaskCourse& course = orders_.course();
    const TaskLife::Trouble trouble = life_.trouble();
    if (course.duty().has_setup() || trouble == TaskLife::Trouble::kFailure) return error;
    TETHYS_LOG(Info, "left group ", course.generation(), ": ", StatusText(error));
    course.OnLeft();
    if (trouble == TaskLife::Trouble::kBroken && !course.busy()) SayHalted();
    return absl::OkStatus();
  }

  // Beat sends a heartbeat at once, so that the records of all steps and pushes are sent before the message
  // Halted.
  void SayHalted() {
    session_.Beat();
    proto::Halted halted;
    life_.FillHalted(halted);
    orders_.course().SayHalted(std::move(halted));
  }

  TaskSession& session_;
  const Clock& clock_;
  OrderReader& orders_;
  TaskLife& life_;
  BeatSampler& sampler_;
  Nanoseconds set_up_begin_ = 0;
  Nanoseconds beat_interval_ = kBeatInterval;
  bool joined_ = false;  // True once JoinGroup has returned OK.
};

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
  return Tasks(session, clock, orders, life, sampler).Work();
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
