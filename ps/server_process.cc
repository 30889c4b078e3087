#include "ps/server_process.h"

#include <memory>
#include <utility>

#include "ps/data_stream.h"
#include "runtime/cluster/task_session.h"

namespace tethys {
namespace {

class ServerTask final : public TaskLife {
 public:
  ServerTask(const TaskOptions& options, TaskSession& session, ParameterServer& server)
      : options_(options), session_(session), server_(server) {}

  absl::Status SetUp(const proto::Setup& setup) override {
    setup_ = setup;
    return absl::OkStatus();
  }

  absl::Status JoinGroup(const proto::Form& form, proto::Formed&) override {
    if (std::exchange(joined_, true)) return server_.JoinGroup(form.group(), form.step());
    TETHYS_RETURN_IF_ERROR(server_.Configure(setup_.plan(), options_.index, form.group().generation()));
    if (setup_.restore()) {
      TETHYS_RETURN_IF_ERROR(
          server_.Restore(setup_.state().step(), [&](int slot, int64_t begin, absl::Span<float> out) {
            // Without restore_slots, the slots in `out` keep their initial values.
            if (slot > 0 && !setup_.restore_slots()) return absl::OkStatus();
            return session_.ReadCheckpoint(slot, begin, out);
          }));
    }
    return server_.Serve();
  }

  // The server makes no update between its answer to Halt and the next group.
  void FillHalted(proto::Halted& halted) override {
    if (server_.has_shards()) halted.set_applied(server_.version());
  }
  absl::Status LeaveGroup() override { return server_.Halt(); }

  absl::Status Obey(const proto::ToTask& order) override {
    if (order.has_fence()) return Fence(order.fence());
    // Sends the chief the records of all pushes that the checkpoint will contain.
    session_.Beat();
    SendSaveDone(session_, order.save().id(),
                 session_.WriteCheckpoint(order.save().id(), [this](TaskSession::WriteRange write) {
                   return server_.Snapshot(write);
                 }));
    return absl::OkStatus();
  }

  void FillBeat(proto::Heartbeat& heartbeat, std::vector<proto::FromTask>& before) override {
    heartbeat.set_step(server_.version());
    proto::FromTask message;
    *message.mutable_applied() = server_.TakeApplied();
    if (message.applied().push_size() > 0) before.push_back(std::move(message));
  }
  int64_t step() const override { return server_.version(); }

 private:
  absl::Status Fence(const proto::Fence& fence) {
    TETHYS_RETURN_IF_ERROR(server_.Fence(fence));
    // Sends the records of applied pushes before the answer, because the chief uses them to settle the
    // worker's leases on batches.
    session_.Beat();
    proto::FromTask message;
    message.mutable_fenced()->set_worker(fence.worker());
    message.mutable_fenced()->set_incarnation(fence.incarnation());
    message.mutable_fenced()->set_takes_part(fence.takes_part());
    session_.Send(std::move(message));
    return absl::OkStatus();
  }

  const TaskOptions& options_;
  TaskSession& session_;
  ParameterServer& server_;
  proto::Setup setup_;
  bool joined_ = false;  // True once the server has joined its first group.
};

}  // namespace

std::unique_ptr<TaskLife> CreateServerLife(const TaskOptions& options, TaskSession& session,
                                           ParameterServer& server) {
  return std::make_unique<ServerTask>(options, session, server);
}

absl::Status RunParameterServer(const TaskOptions& options) {
  KeepMessageMemory();
  const MonotonicClock clock;
  TETHYS_ASSIGN_OR_RETURN(const std::unique_ptr<TaskSession> session, TaskSession::Connect(options, clock));
  ParameterServerOptions server_options;
  server_options.bind_address = options.bind_host;
  server_options.token = options.token;
  server_options.job_id = options.job_id;
  server_options.tls = options.tls;
  server_options.clock = &clock;
  server_options.on_fatal = [&session](const absl::Status& status) { SendFailure(*session, status, 0); };
  TETHYS_ASSIGN_OR_RETURN(const std::unique_ptr<ParameterServer> server,
                          ParameterServer::Start(std::move(server_options)));
  TaskCourse course(proto::PS);
  OrderReader orders(*session, course);
  const std::unique_ptr<TaskLife> life = CreateServerLife(options, *session, *server);
  return LiveAsTask(options, *session, clock, server->address(), orders, *life);
}

}  // namespace tethys
