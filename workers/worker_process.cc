#include "workers/worker_process.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "collectives/ring_communicator.h"
#include "ps/client_options.h"
#include "ps/data_stream.h"
#include "runtime/base/logging.h"
#include "runtime/base/process.h"
#include "runtime/checkpoint/model_description.h"
#include "runtime/cluster/order_reader.h"
#include "runtime/cluster/task_life.h"
#include "runtime/cluster/task_session.h"
#include "workers/trainer.h"
#include "workers/worker_course.h"

namespace tethys {
namespace {

class Worker final : public TaskLife {
 public:
  Worker(const TaskOptions& options, TaskSession& session, RingListener& listener, const Clock& clock,
         WorkerCourse& course, OrderReader& orders, MakeDevice make_device)
      : options_(options),
        session_(session),
        listener_(listener),
        clock_(clock),
        course_(course),
        orders_(orders),
        make_device_(std::move(make_device)) {
    session.CallAtOnce([this](const proto::ToTask& order) {
      if (order.has_halt()) interruption_.OnHalt(order.halt().generation());
      if (order.has_servers()) interruption_.moves().Move(AddressesOf(order.servers().server()));
    });
  }
  ~Worker() override { session_.CallAtOnce(nullptr); }

  absl::Status SetUp(const proto::Setup& setup) override {
    TETHYS_ASSIGN_OR_RETURN(trainer_,
                            Trainer::Create(options_, setup, session_, interruption_, clock_, make_device_));
    return absl::OkStatus();
  }

  absl::Status JoinGroup(const proto::Form& form, proto::Formed& formed) override {
    return trainer_->JoinGroup(form, listener_, formed);
  }

  Trouble trouble() const override { return trainer_ == nullptr ? Trouble::kFailure : trainer_->trouble(); }
  void FillHalted(proto::Halted& halted) override {
    if (trainer_ != nullptr) trainer_->FillHalted(halted);
  }

  void FillReady(proto::Ready& ready) const override {
    *ready.mutable_scaling() = MessageOf(trainer_->scaling());
  }
  std::string gpu() const override { return trainer_->gpu(); }

  absl::Status Obey(const proto::ToTask& order) override {
    if (order.has_run()) return Run();
    if (order.has_evaluate()) return Evaluate(order.evaluate());
    return Save(order.save());
  }

  void FillBeat(proto::Heartbeat& heartbeat, std::vector<proto::FromTask>& before) override {
    trainer_->FillBeat(heartbeat, before);
  }
  int64_t step() const override { return trainer_ == nullptr ? 0 : trainer_->steps(); }

  bool ends_with_process(bool failed) const {
    return trainer_ != nullptr && trainer_->ends_with_process(failed);
  }

 private:
  absl::Status Run() {
    TETHYS_RETURN_IF_ERROR(trainer_->RunSegment(course_, orders_));
    TETHYS_ASSIGN_OR_RETURN(const std::vector<float> statistics, trainer_->ReadStatistics());
    session_.Beat();  // Sends the records of all steps before the answer.
    course_.EndRun(statistics);
    return absl::OkStatus();
  }

  absl::Status Evaluate(const proto::Evaluate& order) {
    proto::FromTask answer;
    proto::EvaluationDone& done = *answer.mutable_evaluation_done();
    TETHYS_ASSIGN_OR_RETURN(done, trainer_->Evaluate(order));
    done.set_id(order.id());
    session_.Send(std::move(answer));
    return absl::OkStatus();
  }

  // A failed save is reported to the chief and does not end the training. If a Halt ended the save, nothing
  // is reported, because the chief has abandoned the save.
  absl::Status Save(const proto::Save& order) {
    const absl::Status saved = trainer_->Save(order);
    if (!saved.ok() && trouble() == Trouble::kHalted) return saved;
    SendSaveDone(session_, order.id(), saved);
    return absl::OkStatus();
  }

  const TaskOptions& options_;
  TaskSession& session_;
  RingListener& listener_;
  const Clock& clock_;
  WorkerCourse& course_;
  OrderReader& orders_;
  const MakeDevice make_device_;
  GroupInterruption interruption_;
  std::unique_ptr<Trainer> trainer_;
};

}  // namespace

std::unique_ptr<TaskLife> CreateWorkerLife(const TaskOptions& options, TaskSession& session,
                                           RingListener& listener, const Clock& clock, WorkerCourse& course,
                                           OrderReader& orders, MakeDevice make_device) {
  return std::make_unique<Worker>(options, session, listener, clock, course, orders, std::move(make_device));
}

absl::Status RunWorker(const TaskOptions& options) {
  KeepMessageMemory();
  TETHYS_RETURN_IF_ERROR(KeepSignalsOffThisThread());
  const MonotonicClock clock;
  TETHYS_ASSIGN_OR_RETURN(const std::unique_ptr<RingListener> listener,
                          RingListener::Listen(options.bind_host));
  TETHYS_ASSIGN_OR_RETURN(const std::unique_ptr<TaskSession> session, TaskSession::Connect(options, clock));
  WorkerCourse course(options.index);
  OrderReader orders(*session, course);
  auto worker =
      std::make_unique<Worker>(options, *session, *listener, clock, course, orders, CreateWorkerDevice);
  absl::Status status = LiveAsTask(options, *session, clock, listener->address(), orders, *worker);
  // The process ends without exit handlers (EndProcess), so nothing uses what remains.
  if (worker->ends_with_process(!status.ok())) static_cast<void>(worker.release());
  return status;
}

}  // namespace tethys
