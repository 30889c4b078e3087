// A step of a worker is a chain of tasks. A task has parts, each of which is work on one SharedResource, and
// ends when all its parts are done; then the next task of the chain begins (Then):
//
//   compute --> push to each server, chunk after chunk --> the server's loop --> the rule decides (Handle)
//      ^                                                                              |
//      +---- all servers have answered (with pulls_before_step, also a pull) <--------+
//
// Time advances from event to event. Whenever a part is added to a resource or ends on it, the time at which
// the next part of this resource ends is computed again, and is queued as an event with a new stamp.
//
// Invariants: an event with an older stamp than its resource is void, so exactly one event of each busy
// resource counts. A worker begins a step only when all its answers have come. A server's version counts its
// updates.
#include "deploy/predict/step_simulation.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <queue>

#include "absl/strings/str_cat.h"
#include "deploy/predict/shared_resource.h"
#include "runtime/base/random.h"
#include "runtime/consistency/rule.h"
#include "runtime/shape/job_shape.h"

namespace tethys {
namespace {

constexpr int64_t kMaxEvents = int64_t{1} << 31;
constexpr double kUnlimited = 1e15;

// The stage of the chain that a task completes; Continue starts the next stage.
enum class Then { kComputed, kPushed, kHandled, kPulled, kAnswered };

struct Task {
  Then then = Then::kComputed;
  int worker = 0;
  int server = 0;
  int parts = 0;  // The number of parts that are not done.
  int chunk = 0;
  double delay = 0;  // Seconds between the end of the task and the next task.
  int64_t version = 0;
};

struct Event {
  double time = 0;
  int64_t order = 0;  // Events of the same time happen in the order of their creation.
  // The resource on which a part of a task ends at this event; -1: the event continues `task`.
  int resource = -1;
  // The stamp of the resource when the event was made; an event with an older stamp is void.
  int64_t stamp = 0;
  int64_t task = 0;
  bool operator>(const Event& other) const {
    return time != other.time ? time > other.time : order > other.order;
  }
};

class Simulation {
 public:
  Simulation(const SimulatedCluster& cluster, int steps)
      : cluster_(cluster), steps_(steps), warm_(std::max(1, steps / 10)), kind_(NewRule()) {
    for (const auto& computer : cluster.computers) resources_.emplace_back(computer.capacity);
    for (const auto& host : cluster.hosts) {
      const double rate = host.rate > 0 ? host.rate : kUnlimited;
      resources_.emplace_back(std::vector<double>{rate});  // The link's outgoing direction.
      resources_.emplace_back(std::vector<double>{rate});  // The link's incoming direction.
    }
    stamps_.resize(resources_.size());
    workers_.resize(cluster.workers.size());
    for (size_t w = 0; w < workers_.size(); ++w) {
      workers_[w].taken.resize(cluster.servers.size());
      workers_[w].random = RandomStream(cluster.seed, RandomPurpose::kTest, w);
    }
    servers_.resize(cluster.servers.size());
    for (ServerState& server : servers_) {
      server.clock.resize(workers_.size());
      for (int chunk = 0; chunk < Chunks(); ++chunk) server.rules.push_back(NewRule());
    }
  }

  absl::StatusOr<SimulationResult> Run() {
    for (size_t w = 0; w < workers_.size(); ++w) BeginStep(static_cast<int>(w));
    while (!events_.empty()) {
      const Event event = events_.top();
      events_.pop();
      if (event.resource >= 0 && event.stamp != stamps_[event.resource]) continue;
      if (++result_.events > kMaxEvents) {
        return absl::ResourceExhaustedError(absl::StrCat("the simulation of ", workers_.size(),
                                                         " workers and ", servers_.size(),
                                                         " servers takes too many events"));
      }
      now_ = event.time;
      if (event.resource < 0) {
        Continue(event.task);
      } else {
        EndPart(resources_[event.resource].End(now_));
        Schedule(event.resource);
      }
    }
    return Result();
  }

 private:
  struct WorkerState {
    int done = 0;     // The number of steps that the worker has made.
    int answers = 0;  // The number of servers (or chunks) that have not answered yet.
    double warm_at = 0;
    double end = 0;
    std::vector<int64_t> taken;  // The version of each server's parameters from which the worker computes.
    double stale = 0;
    int64_t pushes = 0;
    RandomStream random{0, RandomPurpose::kTest, 0};
  };
  struct ServerState {
    int64_t version = 0;
    double free_at = 0;
    std::vector<int> clock;  // The number of pushes that have arrived from each worker.
    std::vector<std::unique_ptr<ConsistencyRule>> rules;  // One rule per chunk.
    double stale = 0;
    int64_t pushes = 0;
  };

  int Chunks() const { return kind_->lock_step() ? std::max(1, cluster_.chunks) : 1; }
  // Creates the rule of one chunk. In the simulation, every push has one sample.
  std::unique_ptr<ConsistencyRule> NewRule() const {
    const auto workers = static_cast<int>(cluster_.workers.size());
    return CreateRule(cluster_.parameter_server, workers, workers);
  }

  int64_t NewTask(const Task& task) {
    if (free_.empty()) {
      tasks_.push_back(task);
      return static_cast<int64_t>(tasks_.size()) - 1;
    }
    const int64_t id = free_.back();
    free_.pop_back();
    tasks_[id] = task;
    return id;
  }

  void At(double time, int64_t task) { events_.push({time, ++order_, -1, 0, task}); }

  void Schedule(int resource) {
    ++stamps_[resource];
    if (resources_[resource].idle()) return;
    events_.push({resources_[resource].NextEnd(), ++order_, resource, stamps_[resource], 0});
  }

  void AddPart(int64_t task, int resource, double work) {
    if (work <= 0) return;
    ++tasks_[task].parts;
    resources_[resource].Add(now_, work, task);
    Schedule(resource);
  }

  void EndPart(int64_t task) {
    if (--tasks_[task].parts > 0) return;
    if (tasks_[task].delay > 0) {
      At(now_ + tasks_[task].delay, task);
    } else {
      Continue(task);
    }
  }

  // Called after the parts of `task` are added. If all of them have length 0, queues the end of the task.
  void Started(int64_t task) {
    if (tasks_[task].parts == 0) At(now_ + tasks_[task].delay, task);
  }

  int OutOf(int host) const { return static_cast<int>(cluster_.computers.size()) + 2 * host; }
  int Into(int host) const { return OutOf(host) + 1; }

  // Moves a chunk between a worker and a server.
  void Transfer(Task task, bool up) {
    const SimulatedCluster::Server& server = cluster_.servers[task.server];
    const int there = server.host, here = cluster_.workers[task.worker].host;
    const int from = up ? here : there, to = up ? there : here;
    const double bytes = server.bytes / Chunks();
    const double work = bytes * cluster_.cpu_per_byte + server.messages / Chunks() * cluster_.cpu_per_message;
    if (from != to) task.delay += cluster_.delay;
    const int64_t id = NewTask(task);
    if (from != to) {
      AddPart(id, OutOf(from), bytes);
      AddPart(id, Into(to), bytes);
    }
    AddPart(id, cluster_.hosts[from].computer, work);
    AddPart(id, cluster_.hosts[to].computer, work);
    Started(id);
  }

  double Ratio(WorkerState& worker) {
    const std::vector<double>& ratio = cluster_.compute_ratio;
    if (ratio.empty()) return 1;
    return ratio[worker.random.NextBelow(static_cast<uint32_t>(ratio.size()))];
  }

  void BeginStep(int w) {
    WorkerState& worker = workers_[w];
    if (worker.done == warm_) worker.warm_at = now_;
    if (worker.done == steps_) {
      worker.end = now_;
      return;
    }
    if (cluster_.pulls_before_step && worker.done > 0) {
      worker.answers = static_cast<int>(servers_.size());
      for (size_t s = 0; s < servers_.size(); ++s) {
        const bool apart = cluster_.servers[s].host != cluster_.workers[w].host;
        const int64_t id = NewTask({.then = Then::kPulled, .worker = w, .server = static_cast<int>(s)});
        At(now_ + (apart ? cluster_.delay : 0), id);
      }
      return;
    }
    Compute(w);
  }

  void Compute(int w) {
    const int64_t id = NewTask({.then = Then::kComputed, .worker = w, .delay = cluster_.overhead});
    const double work = cluster_.workers[w].compute * Ratio(workers_[w]);
    AddPart(id, cluster_.hosts[cluster_.workers[w].host].computer, work);
    Started(id);
  }

  void Continue(int64_t id) {
    const Task task = tasks_[id];
    free_.push_back(id);
    switch (task.then) {
      case Then::kComputed:
        workers_[task.worker].answers = static_cast<int>(servers_.size()) * Chunks();
        for (size_t s = 0; s < servers_.size(); ++s) {
          Transfer({.then = Then::kPushed, .worker = task.worker, .server = static_cast<int>(s)}, true);
        }
        return;
      case Then::kPushed:
        if (task.chunk + 1 < Chunks()) {
          Transfer(
              {.then = Then::kPushed, .worker = task.worker, .server = task.server, .chunk = task.chunk + 1},
              true);
        }
        EnterLoop(task);
        return;
      case Then::kHandled:
        Handle(task);
        return;
      case Then::kPulled:
        Answer(task.worker, task.server, 0);
        return;
      case Then::kAnswered:
        TakeAnswer(task);
        return;
    }
  }

  // Queues the push for the server's thread, which adds one push after the other.
  void EnterLoop(const Task& task) {
    ServerState& server = servers_[task.server];
    const double work = cluster_.servers[task.server].bytes / Chunks() * cluster_.loop_per_byte;
    server.free_at = std::max(server.free_at, now_) + work;
    Task handled = task;
    handled.then = Then::kHandled;
    handled.delay = 0;
    At(server.free_at, NewTask(handled));
  }

  // Called when a push, or a chunk of a push, is in the server's memory.
  void Handle(const Task& task) {
    ServerState& server = servers_[task.server];
    ConsistencyRule& rule = *server.rules[task.chunk];
    const bool last = task.chunk + 1 == Chunks();
    const auto step = static_cast<uint64_t>(server.clock[task.worker]);
    const auto workers = static_cast<int64_t>(workers_.size());
    if (last) ++server.clock[task.worker];
    rule.Open({.worker = task.worker,
               .step = step,
               .version = static_cast<uint64_t>(workers_[task.worker].taken[task.server]),
               .samples = 1,
               .global_samples = workers,
               .position = step * static_cast<uint64_t>(workers)});
    const std::vector<DueUpdate>& due = rule.Arrived(task.worker);
    if (due.empty()) return;
    going_.clear();
    for (const DueUpdate& update : due) {
      if (last) Apply(server, task.server, update.workers);
      going_.insert(going_.end(), update.workers.begin(), update.workers.end());
    }
    std::sort(going_.begin(), going_.end());
    for (const int w : going_) {
      rule.Close(w);
      if (cluster_.pulls_before_step) {
        Confirm(w, task.server);
      } else {
        Answer(w, task.server, task.chunk);
      }
    }
  }

  // Makes one update from the pushes of `workers`.
  void Apply(ServerState& server, int s, const std::vector<int>& workers) {
    for (const int w : workers) {
      const int64_t stale = server.version - workers_[w].taken[s];
      // The push that is applied here is the latest push of worker w, so clock[w] is its number.
      if (server.clock[w] <= warm_) continue;
      server.stale += static_cast<double>(stale);
      ++server.pushes;
      workers_[w].stale += static_cast<double>(stale);
      ++workers_[w].pushes;
      result_.most_staleness = std::max(result_.most_staleness, stale);
    }
    ++server.version;
  }

  // Sends an answer without parameters.
  void Confirm(int worker, int server) {
    const bool apart = cluster_.servers[server].host != cluster_.workers[worker].host;
    At(now_ + (apart ? cluster_.delay : 0),
       NewTask({.then = Then::kAnswered, .worker = worker, .server = server, .version = -1}));
  }

  void Answer(int worker, int server, int chunk) {
    Transfer({.then = Then::kAnswered,
              .worker = worker,
              .server = server,
              .chunk = chunk,
              .version = servers_[server].version},
             false);
  }

  void TakeAnswer(const Task& task) {
    WorkerState& worker = workers_[task.worker];
    worker.taken[task.server] = std::max(worker.taken[task.server], task.version);
    if (--worker.answers > 0) return;
    // With a pull before the step, the answers to the pull begin the step, and the answers to the push end
    // it.
    if (cluster_.pulls_before_step && task.version >= 0) {
      Compute(task.worker);
      return;
    }
    ++worker.done;
    BeginStep(task.worker);
  }

  SimulationResult Result() {
    double rate = 0, stale = 0;
    int64_t pushes = 0;
    for (const WorkerState& worker : workers_) {
      const double seconds = worker.end - worker.warm_at;
      result_.worker_steps.push_back(seconds > 0 ? (steps_ - warm_) / seconds : 0);
      result_.worker_staleness.push_back(worker.pushes > 0 ? worker.stale / static_cast<double>(worker.pushes)
                                                           : 0);
      rate += result_.worker_steps.back();
    }
    const double workers = static_cast<double>(workers_.size());
    const bool each_push = TraitsOf(cluster_.parameter_server).batches == Batches::kOnDemand;
    if (rate > 0) result_.step = each_push ? 1 / rate : workers / rate;
    for (const ServerState& server : servers_) {
      if (server.pushes == 0) continue;
      result_.worst_staleness =
          std::max(result_.worst_staleness, server.stale / static_cast<double>(server.pushes));
      stale += server.stale;
      pushes += server.pushes;
    }
    result_.staleness = pushes > 0 ? stale / static_cast<double>(pushes) : 0;
    return result_;
  }

  const SimulatedCluster& cluster_;
  const int steps_;
  const int warm_;
  // A rule of the same kind as the servers' rules, for the properties that all rules of this kind share.
  const std::unique_ptr<ConsistencyRule> kind_;
  std::vector<SharedResource> resources_;
  std::vector<int64_t> stamps_;
  std::vector<Task> tasks_;
  std::vector<int64_t> free_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::vector<WorkerState> workers_;
  std::vector<ServerState> servers_;
  std::vector<int> going_;  // The workers to be answered. The vector is a member, so its memory is reused.
  double now_ = 0;
  int64_t order_ = 0;
  SimulationResult result_;
};

}  // namespace

absl::StatusOr<SimulationResult> Simulate(const SimulatedCluster& cluster, int steps) {
  TETHYS_RETURN_IF_ERROR(CheckCluster(cluster, steps));
  return Simulation(cluster, steps).Run();
}

}  // namespace tethys
