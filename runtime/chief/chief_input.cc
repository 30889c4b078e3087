#include "runtime/chief/chief_input.h"

#include <utility>

#include "runtime/chief/saved_values.h"

namespace tethys {
namespace {

void Fill(TaskId task, uint32_t incarnation, proto::TaskInput& input) {
  Put(task, *input.mutable_task());
  input.set_incarnation(incarnation);
}

}  // namespace

absl::Status GiveInput(const proto::ChiefRecord& record, const std::string& host, JobController& controller,
                       Actions& actions) {
  const Nanoseconds now = record.now_ns();
  switch (record.input_case()) {
    case proto::ChiefRecord::kAdmit:
      return controller.Admit(TaskOf(record.admit().task()), record.admit().incarnation(), now);
    case proto::ChiefRecord::kMessage: {
      const proto::TaskInput& from = record.message();
      controller.OnMessage(TaskOf(from.task()), from.incarnation(), from.message(), now, actions);
      break;
    }
    case proto::ChiefRecord::kGone:
      controller.OnGone(TaskOf(record.gone().task()), record.gone().incarnation(), now, actions);
      break;
    case proto::ChiefRecord::kTick:
      controller.OnTick(now, actions);
      break;
    case proto::ChiefRecord::kInterrupt:
      controller.OnInterrupt(now, actions);
      break;
    case proto::ChiefRecord::kSaveOpened:
      controller.SaveOpened(StatusOf(record.save_opened()), now, actions);
      break;
    case proto::ChiefRecord::kSaveCommitted:
      controller.SaveCommitted(StatusOf(record.save_committed().status()),
                               record.save_committed().directory(), now, actions);
      break;
    case proto::ChiefRecord::kSamples:
      controller.AddChiefSamples(host, record.samples().sample());
      break;
    case proto::ChiefRecord::kTookOver:
      controller.OnTookOver(now, actions);
      break;
    case proto::ChiefRecord::kBegin:
    case proto::ChiefRecord::INPUT_NOT_SET:
      break;
  }
  return absl::OkStatus();
}

proto::ChiefRecord AdmitInput(TaskId task, uint32_t incarnation) {
  proto::ChiefRecord record;
  Fill(task, incarnation, *record.mutable_admit());
  return record;
}

proto::ChiefRecord MessageInput(TaskId task, uint32_t incarnation, proto::FromTask message) {
  proto::ChiefRecord record;
  Fill(task, incarnation, *record.mutable_message());
  *record.mutable_message()->mutable_message() = std::move(message);
  return record;
}

proto::ChiefRecord GoneInput(TaskId task, uint32_t incarnation) {
  proto::ChiefRecord record;
  Fill(task, incarnation, *record.mutable_gone());
  return record;
}

proto::ChiefRecord SaveOpenedInput(const absl::Status& status) {
  proto::ChiefRecord record;
  Put(status, *record.mutable_save_opened());
  return record;
}

proto::ChiefRecord SaveCommittedInput(const absl::Status& status, const std::string& directory) {
  proto::ChiefRecord record;
  Put(status, *record.mutable_save_committed()->mutable_status());
  record.mutable_save_committed()->set_directory(directory);
  return record;
}

}  // namespace tethys
