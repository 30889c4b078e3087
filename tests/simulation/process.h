// Processes and their connections. A process runs, is stopped for a while (what it should do then waits, as
// after SIGSTOP), or is dead. A connection is two links, each of which delivers in order and after random
// delays, as TCP does:
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

  // Does it now; if the process is stopped, once it goes on; if it is dead, never.
  void Do(Event event);
  void After(Nanoseconds delay, Event event);

  // Those that are open at this end.
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
  std::deque<Event> waiting_;  // While the process is stopped.
  std::vector<std::weak_ptr<Connection>> connections_;
};

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  using OnClosed = std::function<void(const absl::Status&)>;
  enum class Use {
    kSession,  // A task's with the chief. It is not made again: its end is the task's end.
    kData,     // A worker's with a server. The worker makes it again, and repeats what has no answer.
    kRing,     // Between two mirrored workers. Its end is the end of both.
    kSave,     // A stream into a checkpoint. Its end is the end of the save.
  };

  static std::shared_ptr<Connection> Make(World& world, Process& a, Process& b, Use use);

  // Called at this end once, unless this end was closed before.
  void WhenClosed(const Process& at, OnClosed closed) { EndOf(at).closed = std::move(closed); }
  // Does `arrival` at the other end, unless it is closed there by then.
  void Send(const Process& from, Process::Event arrival);
  // Closes this end; the other learns `status` after all that was sent.
  void Close(const Process& at, const absl::Status& status);
  // Loses a suffix of what is under way in both directions, and closes both ends.
  void Break();
  bool open(const Process& at) { return EndOf(at).open; }
  Use use() const { return use_; }
  Process& other(const Process& than) { return *ends_[1 - IndexOf(than)].process; }

 private:
  friend class Process;
  struct EndPoint {
    Process* process = nullptr;
    bool open = true;
    OnClosed closed;
    // Of the messages from this end.
    int64_t sent = 0, arrived = 0, kept = INT64_MAX;
    Nanoseconds last = 0;  // When the last one arrives.
  };

  Connection(World& world, Process& a, Process& b, Use use) : world_(world), use_(use) {
    ends_[0].process = &a;
    ends_[1].process = &b;
  }
  int IndexOf(const Process& process) const { return ends_[0].process == &process ? 0 : 1; }
  EndPoint& EndOf(const Process& process) { return ends_[IndexOf(process)]; }
  // The process at end `from` is no more.
  void Abandon(int from, bool loses, Nanoseconds notice);
  void LoseSuffix(EndPoint& from);
  // Tells the end `to` that the connection is closed, after `notice` and after all that arrives.
  void TellClosed(int to, const absl::Status& status, Nanoseconds notice);

  World& world_;
  const Use use_;
  std::array<EndPoint, 2> ends_;
};

}  // namespace tethys::simulation

#endif  // TETHYS_TESTS_SIMULATION_PROCESS_H_
