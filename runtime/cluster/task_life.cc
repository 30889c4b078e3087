#include "runtime/cluster/task_life.h"

#include <unistd.h>

#include "runtime/base/logging.h"
#include "runtime/base/process.h"

namespace tethys {
namespace {

constexpr Nanoseconds kBeatInterval = 250 * kMillisecond;

absl::Status Live(TaskSession& session, const Clock& clock, const std::string& data_address, TaskLife& life) {
  // Beats without content until there is something to tell: the chief must not take a long set-up for
  // silence.
  session.StartBeating(kBeatInterval, [](proto::Heartbeat&, std::vector<proto::FromTask>&) {});
  proto::FromTask join;
  join.mutable_join()->set_host(HostName());
  join.mutable_join()->set_data_address(data_address);
  join.mutable_join()->set_pid(getpid());
  session.Send(std::move(join));
  while (true) {
    TETHYS_ASSIGN_OR_RETURN(const proto::ToTask order, session.Receive());
    if (order.has_setup()) {
      const Nanoseconds begin = clock.Now();
      TETHYS_RETURN_IF_ERROR(life.SetUp(order.setup()));
      session.StartBeating(kBeatInterval,
                           [&life](proto::Heartbeat& heartbeat, std::vector<proto::FromTask>& before) {
                             life.FillBeat(heartbeat, before);
                           });
      proto::FromTask ready;
      ready.mutable_ready()->set_setup_ns(clock.Now() - begin);
      ready.mutable_ready()->set_resident_bytes(ResidentBytes());
      session.Send(std::move(ready));
      TETHYS_LOG(Info, "ready after ", ToSeconds(clock.Now() - begin), " s");
    } else if (order.has_stop()) {
      if (!order.stop().failed()) return absl::OkStatus();
      return absl::AbortedError(absl::StrCat("the chief ended the job: ", order.stop().reason()));
    } else {
      TETHYS_RETURN_IF_ERROR(life.Obey(order));
    }
  }
}

}  // namespace

absl::Status LiveAsTask(const TaskOptions&, TaskSession& session, const Clock& clock,
                        const std::string& data_address, TaskLife& life) {
  const absl::Status status = Live(session, clock, data_address, life);
  session.Beat();
  if (!status.ok()) {
    TETHYS_LOG(Error, StatusText(status));
    SendFailure(session, status, life.step());
  }
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
  failure.set_message(std::string(status.message().data(), status.message().size()));
  failure.set_status_code(static_cast<int>(status.code()));
  failure.set_step(step);
  session.Send(std::move(message));
}

}  // namespace tethys
