// Processes and their connections. A process runs, is stopped for a while (its events then wait, as after
// SIGSTOP), or is dead. A connection is two links, each of which delivers in order and after random delays,
// as TCP does:
//
//   the process ends itself   all that it has sent arrives, then the other end learns of the end
//   the process is killed     a suffix of what it has sent is lost, then the other end learns of the end
//   the host vanishes         a suffix is lost, and the other end learns nothing for a long time
//   the connection breaks     both directions lose a suffix, then both ends learn of the end
#ifndef TETHYS_TESTS_SIMULATION_PROCESS_H_
#define TETHYS_TESTS_SIMULATION_PROCESS_H_

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/cluster/task_id.h"
#include "tests/simulation/event_queue.h"

namespace tethys::simulation {

class World;
class Connection;

class Process {
 public:
  using Event = EventQueue::Event;
  Process(World& world, TaskId id, uint32_t incarnation)
      : world_(world), id_(id), incarnation_(incarnation) {}
  virtual ~Process() = default;

  TaskId id() const { return id_; }
  uint32_t incarnation() const { return incarnation_; }
  std::string name() const;  // "worker 2", with the incarnation if it is not the first: "worker 2.3".
  bool alive() const { return alive_; }
  bool stopped() const { return stopped_; }

  // Runs `event` at once. If the process is stopped, `event` runs when the process continues. If the process
  // is dead, `event` never runs.
  void Do(Event event);
  void After(Nanoseconds delay, Event event);

  // The connections of this process that are open.
  std::vector<std::shared_ptr<Connection>> connections();

  enum class End { kExit, kKill, kVanish };
  void EndAs(End end);
  void StopFor(Nanoseconds time);

 protected:
  World& world() const { return world_; }

 private:
  friend class Connection;

  World& world_;
  const TaskId id_;
  const uint32_t incarnation_;
  bool alive_ = true;
  bool vanished_ = false;
  bool stopped_ = false;
  std::deque<Event> waiting_;  // Events that wait while the process is stopped.
  std::vector<std::weak_ptr<Connection>> connections_;
};

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  using OnClosed = std::function<void(const absl::Status&)>;
  enum class Use {
    kSession,  // Between a task and the chief. When the connection ends, the task ends, too.
    // Between a worker and a server. If the connection breaks, the worker connects again and repeats
    // unanswered messages.
    kData,
    kRing,  // Between two mirrored workers. When the connection ends, both workers end, too.
    kSave,  // A stream into a checkpoint. When it ends early, the save fails.
  };

  static std::shared_ptr<Connection> Make(World& world, Process& a, Process& b, Use use);

  // Sets the function that is called once when the connection ends, unless `at` has closed its end before.
  void WhenClosed(const Process& at, OnClosed closed) { EndOf(at).closed = std::move(closed); }
  // Runs `arrival` at the other end when the message arrives, unless that end is closed by then.
  void Send(const Process& from, Process::Event arrival);
  // Closes the end of `at`. The other end learns `status` after all messages sent so far.
  void Close(const Process& at, const absl::Status& status);
  // Loses the last messages in flight in both directions, and closes both ends.
  void Break();
  bool broken() const { return broken_; }
  bool open(const Process& at) { return EndOf(at).open; }
  Use use() const { return use_; }
  Process& other(const Process& than) { return *ends_[1 - IndexOf(than)].process; }

 private:
  friend class Process;
  struct EndPoint {
    Process* process = nullptr;
    bool open = true;
    OnClosed closed;
    // The messages from this end: how many were sent, how many have arrived, and how many are not lost.
    int64_t sent = 0, arrived = 0, kept = INT64_MAX;
    Nanoseconds last = 0;  // When the last message from this end arrives.
  };

  Connection(World& world, Process& a, Process& b, Use use) : world_(world), use_(use) {
    ends_[0].process = &a;
    ends_[1].process = &b;
  }
  int IndexOf(const Process& process) const { return ends_[0].process == &process ? 0 : 1; }
  EndPoint& EndOf(const Process& process) { return ends_[IndexOf(process)]; }
  // The process at end `from` has ended. If `loses`, the last messages of the process are lost.
  void Abandon(int from, bool loses, Nanoseconds notice);
  void LoseSuffix(EndPoint& from);
  // Tells the end `to` that the connection is closed, `notice` after the last message that arrives there.
  void TellClosed(int to, const absl::Status& status, Nanoseconds notice);

  World& world_;
  const Use use_;
  bool broken_ = false;
  std::array<EndPoint, 2> ends_;
};

}  // namespace tethys::simulation

#endif  // TETHYS_TESTS_SIMULATION_PROCESS_H_
