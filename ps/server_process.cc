#include "ps/server_process.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/types/optional.h"
#include "ps/data_stream.h"
#include "runtime/cluster/membership.h"
#include "runtime/cluster/task_session.h"
#include "runtime/shape/job_shape.h"

namespace tethys {
namespace {

class ServerTask final : public TaskLife {
 public:
  ServerTask(const TaskOptions& options, TaskSession& session, ParameterServer& server)
      : options_(options), session_(session), server_(server) {
    session.CallAtOnce([this](const proto::ToTask& order) {
      if (order.has_halt()) OnHalt(order.halt().generation());
    });
  }
  ~ServerTask() override { session_.CallAtOnce(nullptr); }

  absl::Status SetUp(const proto::Setup& setup) override {
    setup_ = setup;
    return absl::OkStatus();
  }

  absl::Status JoinGroup(const proto::Form& form, proto::Formed& formed) override {
    trouble_ = Trouble::kFailure;
    TETHYS_RETURN_IF_ERROR(TakeParameters(form));
    const Nanoseconds begin = clock_.Now();
    const absl::Status exchanged = server_.ExchangeCopies(form, Patience());
    if (!exchanged.ok()) return Left(exchanged);
    formed.set_copy_ns(clock_.Now() - begin);
    has_values_ = true;
    for (const proto::Fence& fence : form.fence()) {
      if (const absl::Status fenced = server_.Fence(fence); !fenced.ok()) return Left(fenced);
    }
    return server_.Serve();
  }

  Trouble trouble() const override { return trouble_; }
  // The server makes no update between its answer to Halt and the next group.
  void FillHalted(proto::Halted& halted) override {
    if (has_values_ && server_.has_shards()) halted.set_applied(server_.version());
    if (const absl::optional<int64_t> copy = server_.CopyVersion(); copy.has_value()) halted.set_copy(*copy);
    if (std::exchange(trouble_, Trouble::kFailure) == Trouble::kBroken) halted.set_reason(broken_);
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
  // Called by the session's reader thread.
  void OnHalt(uint32_t generation) {
    halted_ = std::max<uint32_t>(halted_, generation);
    if (configured_) server_.Interrupt(halted_);
  }

  absl::Status TakeParameters(const proto::Form& form) {
    const uint32_t generation = form.group().generation();
    // Replaces a lost server, if the server joins its first group.
    const bool replaces = generation > Membership::kFirstGeneration;
    const bool leases = TraitsOf(setup_.plan().job()).leases();
    if (!std::exchange(joined_, true)) {
      // Workers on leases keep the first generation.
      TETHYS_RETURN_IF_ERROR(server_.Configure(setup_.plan(), options_.index,
                                               !replaces || leases ? Membership::kFirstGeneration : 0));
      configured_ = true;
      server_.Interrupt(halted_);
      has_values_ = !absl::c_linear_search(form.restored(), options_.index);
      if (!replaces) return setup_.restore() ? ReadCheckpoint() : absl::OkStatus();
    }
    if (!has_values_ && !leases) {
      // The server takes the values of this version from their copy (ExchangeCopies).
      TETHYS_RETURN_IF_ERROR(
          server_.Restore(form.step(), [](int, int64_t, absl::Span<float>) { return absl::OkStatus(); }));
    }
    return server_.JoinGroup(form.group(), form.step());
  }

  absl::Status ReadCheckpoint() {
    return server_.Restore(setup_.state().step(), [&](int slot, int64_t begin, absl::Span<float> out) {
      // Without restore_slots, the slots in `out` keep their initial values.
      if (slot > 0 && !setup_.restore_slots()) return absl::OkStatus();
      return session_.ReadCheckpoint(slot, begin, out);
    });
  }

  Nanoseconds Patience() const { return FromSeconds(setup_.plan().job().timeouts().start()); }

  // Notes what the error of an exchange of copies means, or of a wait for it.
  absl::Status Left(const absl::Status& failed) {
    if (absl::IsAborted(failed)) {
      trouble_ = Trouble::kHalted;
    } else if (absl::IsDeadlineExceeded(failed)) {
      trouble_ = Trouble::kBroken;
      broken_ = std::string(failed.message());
    }
    return failed;
  }

  absl::Status Fence(const proto::Fence& fence) {
    if (const absl::Status fenced = server_.Fence(fence); !fenced.ok()) return Left(fenced);
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
  const MonotonicClock clock_;
  proto::Setup setup_;
  bool joined_ = false;      // True once the server has begun to join its first group.
  bool has_values_ = false;  // False: the server has not taken the values of its shards from their copy.
  Trouble trouble_ = Trouble::kFailure;
  std::string broken_;  // The reason of kBroken.
  std::atomic<bool> configured_{false};
  std::atomic<uint32_t> halted_{0};  // The latest generation of a Halt.
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
