// A chief for tests of workers that outlive their groups. Workers and servers run as threads of the test,
// each with all that its process has but the session, which is a queue. The chief halts and forms groups as
// the product's chief does, and checks what workers and servers say.
#ifndef TETHYS_TESTS_WORKERS_FAKE_CHIEF_H_
#define TETHYS_TESTS_WORKERS_FAKE_CHIEF_H_

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/optional.h"
#include "gtest/gtest.h"
#include "ps/server_process.h"
#include "runtime/base/mutex.h"
#include "runtime/base/thread.h"
#include "runtime/cluster/job_plan.h"
#include "runtime/cluster/order_reader.h"
#include "runtime/cluster/task_life.h"
#include "workers/worker_process.h"

namespace tethys::testing {

// Tasks have numbers: a worker its index, a server its index after this one.
constexpr int kFirstServer = 1000;

// A message of a task to the chief, or the news that the task is lost.
struct TaskMessage {
  int task = 0;
  uint32_t incarnation = 0;
  bool lost = false;
  proto::FromTask message = {};
};

// The messages of all tasks, in the order in which they were sent.
class Inbox {
 public:
  void Add(TaskMessage message) {
    MutexLock lock(mu_);
    messages_.push_back(std::move(message));
    changed_.NotifyAll();
  }
  TaskMessage Take() {
    MutexLock lock(mu_);
    while (messages_.empty()) changed_.Wait(mu_);
    TaskMessage message = std::move(messages_.front());
    messages_.pop_front();
    return message;
  }

 private:
  Mutex mu_;
  CondVar changed_;
  std::deque<TaskMessage> messages_ ABSL_GUARDED_BY(mu_);
};

// A session whose orders come from Deliver, and whose messages go to an inbox.
class QueueSession final : public TaskSession {
 public:
  QueueSession(int task, uint32_t incarnation, Inbox& inbox)
      : task_(task), incarnation_(incarnation), inbox_(inbox) {}

  void Deliver(const proto::ToTask& order) {
    if (order.has_halt()) {
      MutexLock lock(halt_mu_);
      if (halted_) halted_(order.halt());
    }
    MutexLock lock(mu_);
    orders_.push_back(order);
    changed_.NotifyAll();
  }

  // Ends the worker as if its process were killed: all its exchange ends without a farewell, and the chief
  // gets no message of it any more but its loss. Any thread may call it.
  void Kill() {
    {
      MutexLock lock(mu_);
      if (dead_) return;
      dead_ = true;
      changed_.NotifyAll();
    }
    {
      MutexLock lock(halt_mu_);
      proto::Halt halt;
      halt.set_generation(~0U);
      if (halted_) halted_(halt);
    }
    inbox_.Add({.task = task_, .incarnation = incarnation_, .lost = true});
  }

  // Ends the worker as a failure of its own does: it takes leave of the other workers. Any thread may call
  // it.
  void Fail() {
    {
      MutexLock lock(mu_);
      if (dead_) return;
      mute_ = true;
    }
    proto::ToTask order;
    order.mutable_stop()->set_failed(true);
    Deliver(order);
    inbox_.Add({.task = task_, .incarnation = incarnation_, .lost = true});
  }

  absl::Status status() override {
    MutexLock lock(mu_);
    return StatusNow();
  }
  void Send(proto::FromTask message) override {
    MutexLock lock(mu_);
    if (dead_ || mute_) return;
    inbox_.Add({.task = task_, .incarnation = incarnation_, .message = std::move(message)});
  }
  absl::StatusOr<proto::ToTask> Receive() override {
    MutexLock lock(mu_);
    while (orders_.empty() && !dead_) changed_.Wait(mu_);
    TETHYS_RETURN_IF_ERROR(StatusNow());
    proto::ToTask order = std::move(orders_.front());
    orders_.pop_front();
    return order;
  }
  absl::StatusOr<absl::optional<proto::ToTask>> Poll() override {
    {
      MutexLock lock(mu_);
      TETHYS_RETURN_IF_ERROR(StatusNow());
      if (orders_.empty()) return absl::optional<proto::ToTask>();
    }
    TETHYS_ASSIGN_OR_RETURN(proto::ToTask order, Receive());
    return absl::optional<proto::ToTask>(std::move(order));
  }
  void CallOnHalt(HaltCallback halted) override {
    MutexLock lock(halt_mu_);
    halted_ = std::move(halted);
  }
  void StartBeating(Nanoseconds, Fill fill) override {
    MutexLock lock(beat_mu_);
    fill_ = std::move(fill);
  }
  void Beat() override {
    MutexLock lock(beat_mu_);
    proto::Heartbeat heartbeat;
    std::vector<proto::FromTask> before;
    fill_(heartbeat, before);
    for (proto::FromTask& message : before) Send(std::move(message));
  }
  void BeatSoon() override {}
  bool peers_compute() const override { return false; }
  absl::Status ReadCheckpoint(int, int64_t, absl::Span<float>) override { return absl::OkStatus(); }
  absl::Status ReadDataFile(const std::string&, int64_t, TakeBytes) override { return absl::OkStatus(); }
  absl::Status WriteCheckpoint(int64_t, Source source) override {
    std::map<int, std::vector<float>> parts;
    TETHYS_RETURN_IF_ERROR(source([&](int part, int64_t, absl::Span<const float> values) {
      parts[part].insert(parts[part].end(), values.begin(), values.end());
      return absl::OkStatus();
    }));
    saved_ = std::move(parts);
    return absl::OkStatus();
  }
  void Close() override {}

  // The parameters and slots of the last save, by part. Read after SaveDone.
  const std::map<int, std::vector<float>>& saved() const { return saved_; }

 private:
  absl::Status StatusNow() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return dead_ ? absl::UnavailableError("the session broke") : absl::OkStatus();
  }

  const int task_;
  const uint32_t incarnation_;
  Inbox& inbox_;
  std::map<int, std::vector<float>> saved_;

  Mutex halt_mu_;
  HaltCallback halted_ ABSL_GUARDED_BY(halt_mu_);
  Mutex beat_mu_;  // Locked before mu_.
  Fill fill_ ABSL_GUARDED_BY(beat_mu_);
  Mutex mu_;
  CondVar changed_;
  std::deque<proto::ToTask> orders_ ABSL_GUARDED_BY(mu_);
  bool dead_ ABSL_GUARDED_BY(mu_) = false;
  bool mute_ ABSL_GUARDED_BY(mu_) = false;  // The chief gets no more messages of the worker.
};

// What a worker has at the end.
struct WorkerState {
  std::map<int, std::vector<float>> parts;  // Parameters, slots.
  std::vector<float> statistics;
  bool operator==(const WorkerState&) const = default;
};

class FakeChief {
 public:
  // The members of a group, and the step at which it began to train.
  struct Phase {
    std::vector<int> members;
    int64_t begin = 0;
    bool operator==(const Phase&) const = default;
  };

  explicit FakeChief(proto::JobPlan plan) : plan_(std::move(plan)) {
    for (int server = 0; server < plan_.placement().servers(); ++server) {
      servers_.push_back(kFirstServer + server);
      tasks_[servers_.back()] = std::make_unique<Task>(proto::PS, servers_.back(), 1, token_, inbox_);
      SetUp(servers_.back());
    }
  }
  ~FakeChief() {
    for (auto& [number, task] : tasks_) {
      task->session.Kill();
      task->thread.Join();
    }
  }

  QueueSession& session(int number) { return tasks_.at(number)->session; }
  bool alive(int index) const { return tasks_.count(index) > 0 && !lost_.count(index); }
  const std::vector<Phase>& phases() const { return phases_; }
  int64_t step() const { return step_; }

  // Starts a worker, or the replacement of one that was lost, and awaits that it is set up.
  void Start(int index) {
    uint32_t incarnation = 1;
    if (const auto old = tasks_.find(index); old != tasks_.end()) {
      incarnation = old->second->options.incarnation + 1;
      old->second->session.Kill();
      tasks_.erase(old);
    }
    lost_.erase(index);
    grouped_.erase(index);
    recorded_.erase(index);
    tasks_[index] = std::make_unique<Task>(proto::WORKER, index, incarnation, token_, inbox_);
    SetUp(index);
  }

  // Starts a task that has been created, and awaits that it is set up.
  void SetUp(int number) {
    tasks_[number]->Run();
    proto::ToTask order;
    proto::Setup& setup = *order.mutable_setup();
    *setup.mutable_plan() = plan_;
    setup.set_seconds_left(600);
    const VariableSet statistics = StatisticsOf(plan_).value();
    std::vector<float> values(statistics.arena_size());
    statistics.FillInitialValues(plan_.job().seed(), {0, statistics.arena_size()}, values.data());
    setup.mutable_statistics()->Assign(values.begin(), values.end());
    Send(number, order);
    Await({number}, [](int, const proto::FromTask& message) { return message.has_ready(); });
  }

  // Lets these workers train up to step `end`, in a new group. If some of them are lost, the others go on.
  void Train(std::vector<int> members, int64_t end) {
    while (step_ < end) {
      if (!Halt(members)) continue;
      ASSERT_FALSE(members.empty()) << "all workers are lost";
      if (!Form(members)) continue;
      proto::ToTask order;
      proto::Run& run = *order.mutable_run();
      run.set_number(++runs_);
      run.set_generation(generation_);
      run.set_begin(step_ * plan_.global_batch());
      run.set_end(end * plan_.global_batch());
      run.set_first_step(step_);
      for (const int index : members) Send(index, order);
      if (!Await(members, [](int, const proto::FromTask& message) { return message.has_run_done(); }))
        continue;
      step_ = end;
    }
  }

  void Send(int number, const proto::ToTask& order) { session(number).Deliver(order); }

  // The states of those of these workers, which must be idle, that are not lost.
  std::map<int, WorkerState> StatesOf(const std::vector<int>& indices) {
    std::map<int, WorkerState> states;
    std::map<int, std::vector<float>> on_servers;
    for (const int server : servers_) {
      if (!Save(server)) return states;
      for (const auto& [part, values] : session(server).saved()) {
        on_servers[part].insert(on_servers[part].end(), values.begin(), values.end());
      }
    }
    for (const int index : indices) {
      if (!alive(index) || !Save(index)) continue;
      states[index] = {servers_.empty() ? session(index).saved() : on_servers, statistics_[index]};
    }
    return states;
  }
  // The parameters of a worker, which must be idle and alive.
  std::vector<float> ParametersOf(int index) {
    EXPECT_TRUE(Save(index));
    return session(index).saved().at(0);
  }
  // The state of a worker, which must be idle and alive.
  WorkerState StateOf(int index) { return StatesOf({index}).at(index); }

  // The messages of the last Await in which workers took part.
  const std::map<int, proto::FromTask>& answers() const { return answers_; }
  uint32_t generation() const { return generation_; }

  // Lets the group train on a segment without steps.
  void RunNothing(const std::vector<int>& members) {
    proto::ToTask order;
    order.mutable_run()->set_number(++runs_);
    order.mutable_run()->set_generation(generation_);
    for (const int index : members) Send(index, order);
    EXPECT_TRUE(Await(members, [](int, const proto::FromTask& message) { return message.has_run_done(); }));
  }

  // Halts the group, and learns the step to go on from. Drops lost workers from `members`. False: another
  // worker was lost meanwhile.
  bool Halt(std::vector<int>& members) {
    std::erase_if(members, [this](int index) { return !alive(index); });
    if (generation_ == 0) return true;
    proto::ToTask order;
    order.mutable_halt()->set_generation(generation_);
    const std::vector<int> asked = WithServers(members);
    for (const int number : asked) Send(number, order);
    if (!Await(asked, [&](int number, const proto::FromTask& message) {
          return message.has_halted() && message.halted().reason().empty() &&
                 (grouped_.count(number) == 0 || message.halted().generation() == generation_);
        })) {
      return false;
    }
    int64_t most = 0, least = INT64_MAX;
    for (const int number : asked) {
      if (!answers_[number].halted().has_applied()) continue;
      const int64_t applied = answers_[number].halted().applied();
      most = std::max(most, applied);
      if (number >= kFirstServer) least = std::min(least, applied);
    }
    back_ += !servers_.empty() && most > least;
    step_ = servers_.empty() ? most : least;
    return true;
  }

  // Forms a group of these workers, which are halted. False: a worker was lost, or left the group.
  bool Form(const std::vector<int>& members) {
    proto::ToTask order;
    proto::Form& form = *order.mutable_form();
    form.mutable_group()->set_generation(generation_ + 1);
    form.set_step(step_);
    bool sourced = false;
    for (size_t rank = 0; rank < members.size(); ++rank) {
      *form.mutable_group()->add_member() = tasks_.at(members[rank])->AsMember();
      if (generation_ == 0) continue;
      const proto::Halted& halted = answers_[members[rank]].halted();
      if (halted.has_applied() && halted.applied() == step_) {
        if (!std::exchange(sourced, true)) form.set_source(static_cast<int>(rank));
      } else {
        EXPECT_TRUE(!halted.has_applied() || halted.applied() + 1 == step_)
            << halted.applied() << " and " << step_ << " steps were applied";
        form.add_behind(static_cast<int>(rank));
      }
    }
    for (const int server : servers_) *form.mutable_group()->add_member() = tasks_.at(server)->AsMember();
    EXPECT_TRUE(generation_ == 0 || sourced || !servers_.empty());
    behind_ = form.behind_size();
    ++generation_;
    const std::vector<int> asked = WithServers(members);
    grouped_ = {asked.begin(), asked.end()};
    for (const int number : asked) Send(number, order);
    if (!Await(asked, [](int, const proto::FromTask& message) { return message.has_formed(); })) return false;
    for (const int number : asked) EXPECT_EQ(answers_[number].formed().generation(), generation_);
    if (!phases_.empty() && phases_.back().begin == step_) phases_.pop_back();
    phases_.push_back({members, step_});
    return true;
  }

  // The number of members that were behind in the last Form.
  int behind() const { return behind_; }
  // How often servers had to take back a step.
  int back() const { return back_; }

  // Awaits a message that `fits` from each of these tasks. False: one of them was lost, or has left the
  // newest group by itself.
  bool Await(const std::vector<int>& from,
             const std::function<bool(int number, const proto::FromTask&)>& fits) {
    std::set<int> awaited(from.begin(), from.end());
    answers_.clear();
    while (!awaited.empty()) {
      TaskMessage got = inbox_.Take();
      if (got.incarnation != tasks_.at(got.task)->options.incarnation) continue;
      if (got.lost) {
        lost_.insert(got.task);
        if (std::find(from.begin(), from.end(), got.task) != from.end()) return false;
        continue;
      }
      Check(got.task, got.message);
      const proto::Halted& halted = got.message.halted();
      const bool left = got.message.has_halted() && halted.generation() == generation_ &&
                        !halted.reason().empty() && awaited.count(got.task) > 0;
      if (fits(got.task, got.message) && awaited.erase(got.task) > 0) {
        answers_[got.task] = std::move(got.message);
      } else if (left) {
        return false;
      }
    }
    return true;
  }

 private:
  struct Task {
    Task(proto::Role role, int number, uint32_t incarnation, const JobToken& token, Inbox& inbox)
        : session(number, incarnation, inbox) {
      options.role = role;
      options.index = role == proto::PS ? number - kFirstServer : number;
      options.incarnation = incarnation;
      options.host = "here";
      options.token = token;
      if (role == proto::PS) {
        BeServer();
      } else {
        BeWorker();
      }
    }
    void BeWorker() {
      listener = *RingListener::Listen("127.0.0.1");
      address = listener->address();
      auto own = std::make_unique<WorkerCourse>(options.index);
      WorkerCourse& steps = *own;
      course = std::move(own);
      orders.emplace(session, *course);
      life = CreateWorkerLife(options, session, *listener, clock, steps, *orders);
    }
    void BeServer() {
      ParameterServerOptions served;
      served.token = options.token;
      served.clock = &clock;
      server = *ParameterServer::Start(served);
      address = server->address();
      course = std::make_unique<TaskCourse>(proto::PS);
      orders.emplace(session, *course);
      life = CreateServerLife(options, session, *server);
    }
    void Run() {
      EXPECT_TRUE(thread
                      .Start([this] {
                        LiveAsTask(options, session, clock, address, *orders, *life).IgnoreError();
                        life.reset();
                      })
                      .ok());
    }
    proto::Member AsMember() const {
      proto::Member member;
      member.set_role(options.role);
      member.set_index(options.index);
      member.set_incarnation(options.incarnation);
      member.set_host(options.host);
      member.set_data_address(address);
      return member;
    }

    TaskOptions options;
    const MonotonicClock clock;
    QueueSession session;
    std::unique_ptr<TaskCourse> course;
    absl::optional<OrderReader> orders;
    std::unique_ptr<RingListener> listener;   // Of a worker.
    std::unique_ptr<ParameterServer> server;  // Of a server.
    std::string address;
    std::unique_ptr<TaskLife> life;
    Thread thread;
  };

  std::vector<int> WithServers(std::vector<int> workers) const {
    workers.insert(workers.end(), servers_.begin(), servers_.end());
    return workers;
  }

  // Lets a task save what it has. False: it was lost.
  bool Save(int number) {
    proto::ToTask order;
    order.mutable_save()->set_count(VariablesOf(plan_)->arena_size());
    Send(number, order);
    return Await({number}, [](int, const proto::FromTask& message) { return message.has_save_done(); });
  }

  // Checks that the records before Halted are those of all steps that were applied, each once.
  void Check(int index, const proto::FromTask& message) {
    TETHYS_CHECK(!message.has_failure(), "task ", index, " failed: ", message.failure().message());
    if (message.has_run_done()) {
      statistics_[index] = {message.run_done().statistics().begin(), message.run_done().statistics().end()};
    }
    for (const proto::StepRecord& record : message.steps().record()) {
      const int64_t last = recorded_.count(index) > 0 ? recorded_[index] : -1;
      EXPECT_GT(record.step(), last) << "worker " << index;
      recorded_[index] = record.step();
    }
    const proto::Halted& halted = message.halted();
    if (!message.has_halted() || !halted.has_applied()) return;
    if (recorded_.count(index) == 0) return;
    EXPECT_LE(recorded_[index] + 1, halted.applied()) << "worker " << index;
  }

  const proto::JobPlan plan_;
  const JobToken token_ = JobToken::Random();
  Inbox inbox_;
  std::map<int, std::unique_ptr<Task>> tasks_;
  std::vector<int> servers_;
  std::set<int> lost_;
  std::set<int> grouped_;  // The members of the newest group.
  std::map<int, proto::FromTask> answers_;
  std::map<int, std::vector<float>> statistics_;
  std::map<int, int64_t> recorded_;  // The last recorded step of each worker.
  std::vector<Phase> phases_;
  uint32_t generation_ = 0;
  int64_t runs_ = 0;
  int64_t step_ = 0;
  int behind_ = 0;
  int back_ = 0;
};

}  // namespace tethys::testing

#endif  // TETHYS_TESTS_WORKERS_FAKE_CHIEF_H_
