// A fake chief for tests of workers that continue when their group changes. Workers and servers run as
// threads of the test. Each has everything that a process of the product has, except that its session with
// the chief is a queue. The fake chief halts and forms groups as the product's chief does, and checks the
// messages of workers and servers.
#ifndef TETHYS_TESTS_WORKERS_FAKE_CHIEF_H_
#define TETHYS_TESTS_WORKERS_FAKE_CHIEF_H_

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/types/optional.h"
#include "gtest/gtest.h"
#include "ps/server_process.h"
#include "runtime/base/thread.h"
#include "runtime/cluster/job_plan.h"
#include "runtime/cluster/order_reader.h"
#include "runtime/cluster/task_life.h"
#include "tests/workers/queue_session.h"
#include "workers/device_factory.h"
#include "workers/worker_process.h"

namespace tethys::testing {

// The number of a task is a worker's index, or this number plus a server's index.
constexpr int kFirstServer = 1000;

// The state of a worker after its last order.
struct WorkerState {
  std::map<int, std::vector<float>> parts;  // Part 0: parameters; others: slots.
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

  // Called by the thread of a worker that has failed or was killed, before the objects of the worker are
  // destroyed. A process would end without destroying them.
  using Ended = std::function<void(const TaskOptions& worker)>;

  // `make_device` makes the devices of workers.
  explicit FakeChief(proto::JobPlan plan, MakeDevice make_device = CreateWorkerDevice, Ended ended = nullptr)
      : plan_(std::move(plan)), make_device_(std::move(make_device)), ended_(std::move(ended)) {
    for (int server = 0; server < plan_.placement().servers(); ++server) {
      servers_.push_back(kFirstServer + server);
      tasks_[servers_.back()] =
          std::make_unique<Task>(proto::PS, servers_.back(), 1, token_, inbox_, make_device_);
      SetUp(servers_.back());
    }
  }
  ~FakeChief() {
    for (auto& [number, task] : tasks_) {
      task->session.Kill();
      task->thread.Join();
    }
  }

  // Worker `index` will report a failure, and counts as lost then.
  void ExpectFailure(int index) { failing_.insert(index); }
  // The numbers of the workers that were expected to fail and have not failed yet.
  const std::set<int>& failing() const { return failing_; }

  // Lets the workers of a group receive Halt one after another, with pauses of up to `most`.
  void PauseBetweenHalts(Nanoseconds most) { halt_pause_ = most; }

  QueueSession& session(int number) { return tasks_.at(number)->session; }
  bool alive(int index) const { return tasks_.count(index) > 0 && !lost_.count(index); }
  const std::vector<Phase>& phases() const { return phases_; }
  int64_t step() const { return step_; }

  // Starts a worker, or the replacement of a lost worker, and waits until it is set up.
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
    tasks_[index] = std::make_unique<Task>(proto::WORKER, index, incarnation, token_, inbox_, make_device_);
    SetUp(index);
  }

  // Starts a task that has been created, and waits until it is set up.
  void SetUp(int number) {
    tasks_[number]->Run(ended_);
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

  // Lets these workers train up to step `end`, in a new group. If some of them are lost, the other workers
  // continue.
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

  // The states of the workers `indices`, without lost workers. All these workers must be idle.
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

  // The messages for which the last Await waited, by the number of the task.
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

  // Halts the group, and determines the step from which the next group continues. Removes lost workers from
  // `members`. False: another task was lost meanwhile.
  bool Halt(std::vector<int>& members) {
    std::erase_if(members, [this](int index) { return !alive(index); });
    if (generation_ == 0) return true;
    proto::ToTask order;
    order.mutable_halt()->set_generation(generation_);
    const std::vector<int> asked = WithServers(members);
    for (const int number : asked) {
      if (halt_pause_ > 0) {
        const auto pause = std::uniform_int_distribution<Nanoseconds>(0, halt_pause_)(random_);
        std::this_thread::sleep_for(std::chrono::nanoseconds(pause));
      }
      Send(number, order);
    }
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

  // The number of members that were behind in the last Form, because they lacked the state of its step.
  int behind() const { return behind_; }
  // How often servers had to take back a step.
  int back() const { return back_; }

  // Waits for a message from each of these tasks for which `fits` is true. False: one of the tasks was lost,
  // or has left the newest group by itself.
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
    Task(proto::Role role, int number, uint32_t incarnation, const JobToken& token, Inbox& inbox,
         const MakeDevice& make_device)
        : session(number, incarnation, inbox) {
      options.role = role;
      options.index = role == proto::PS ? number - kFirstServer : number;
      options.incarnation = incarnation;
      options.host = "here";
      options.token = token;
      if (role == proto::PS) {
        BeServer();
      } else {
        BeWorker(make_device);
      }
    }
    void BeWorker(const MakeDevice& make_device) {
      listener = *RingListener::Listen("127.0.0.1");
      address = listener->address();
      auto own = std::make_unique<WorkerCourse>(options.index);
      WorkerCourse& steps = *own;
      course = std::move(own);
      orders.emplace(session, *course);
      life = CreateWorkerLife(options, session, *listener, clock, steps, *orders, make_device);
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
    void Run(const Ended& ended) {
      EXPECT_TRUE(thread
                      .Start([this, ended] {
                        const absl::Status status =
                            LiveAsTask(options, session, clock, address, *orders, *life);
                        if (!status.ok() && ended) ended(options);
                        if (!status.ok()) session.Kill();
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
    std::unique_ptr<RingListener> listener;   // Only for a worker.
    std::unique_ptr<ParameterServer> server;  // Only for a server.
    std::string address;
    std::unique_ptr<TaskLife> life;
    Thread thread;
  };

  std::vector<int> WithServers(std::vector<int> workers) const {
    workers.insert(workers.end(), servers_.begin(), servers_.end());
    return workers;
  }

  // Lets a task save its parameters and slots. False: the task was lost.
  bool Save(int number) {
    proto::ToTask order;
    order.mutable_save()->set_count(VariablesOf(plan_)->arena_size());
    Send(number, order);
    return Await({number}, [](int, const proto::FromTask& message) { return message.has_save_done(); });
  }

  // Checks that the worker records steps in ascending order, each once, and before Halted only steps that
  // were applied. Keeps the statistics that the worker reports.
  void Check(int index, const proto::FromTask& message) {
    if (message.has_failure() && failing_.erase(index) > 0) return;
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
  const MakeDevice make_device_;
  const Ended ended_;
  const JobToken token_ = JobToken::Random();
  Inbox inbox_;
  std::map<int, std::unique_ptr<Task>> tasks_;
  std::vector<int> servers_;
  std::set<int> lost_;
  std::set<int> failing_;
  std::set<int> grouped_;  // The members of the newest group.
  std::map<int, proto::FromTask> answers_;
  std::map<int, std::vector<float>> statistics_;
  std::map<int, int64_t> recorded_;  // The last recorded step of each worker.
  std::vector<Phase> phases_;
  Nanoseconds halt_pause_ = 0;
  std::mt19937 random_{3};
  uint32_t generation_ = 0;
  int64_t runs_ = 0;
  int64_t step_ = 0;
  int behind_ = 0;
  int back_ = 0;
};

}  // namespace tethys::testing

#endif  // TETHYS_TESTS_WORKERS_FAKE_CHIEF_H_
