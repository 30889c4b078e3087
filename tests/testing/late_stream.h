// Streams, events and graphs of a late device (late_device.h). Work on a stream runs when the host waits for
// it. While a stream is captured, its work, records and waits are kept as commands. Each launch of the graph
// issues these commands again: the commands of the captured stream on the launching stream, and the commands
// of the other streams in the capture on streams of the graph, which are just as late.
#ifndef TETHYS_TESTS_TESTING_LATE_STREAM_H_
#define TETHYS_TESTS_TESTING_LATE_STREAM_H_

#include <deque>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "runtime/device/device.h"

namespace tethys::testing {

class LateCapture;
class LateStream;

using Work = std::function<absl::Status()>;
// Work that may have to wait, for example for another device. False: it cannot run yet, and is tried again.
using WaitingWork = std::function<absl::StatusOr<bool>()>;

// A point in a stream's order, at which an event was recorded.
struct LatePoint {
  LateStream* stream = nullptr;
  bool happened = false;
  Nanoseconds time = 0;
};

// Runs work in order until the first error, and nothing after it. Each piece of work takes kWorkTime on the
// device's clock.
class LateStream final : public Stream, public std::enable_shared_from_this<LateStream> {
 public:
  explicit LateStream(std::shared_ptr<Nanoseconds> time) : time_(std::move(time)) {}

  void Enqueue(Work work);
  void EnqueueWaiting(WaitingWork work);
  std::shared_ptr<LatePoint> Record();
  void Await(std::shared_ptr<LatePoint> point);
  // Runs the next piece of work. False if no work is left, if the work cannot run yet, or after an error.
  bool RunOne();
  // True if the last RunOne found work that cannot run yet.
  bool waits() const { return waits_; }
  const absl::Status& status() const { return status_; }
  absl::Status Synchronize() override;

  // The capture that this stream takes part in, or null.
  const std::shared_ptr<LateCapture>& capture() const { return capture_; }
  void set_capture(std::shared_ptr<LateCapture> capture) { capture_ = std::move(capture); }

 private:
  const std::shared_ptr<Nanoseconds> time_;
  std::deque<WaitingWork> work_;
  absl::Status status_;
  bool waits_ = false;
  std::shared_ptr<LateCapture> capture_;
};

inline LateStream& Late(Stream& stream) { return static_cast<LateStream&>(stream); }

// A launch of a graph: the streams and points that replace the streams and points of its capture.
struct LateLaunch {
  std::vector<LateStream*> streams;
  std::vector<std::shared_ptr<LatePoint>> points;
};

class LateCapture {
 public:
  explicit LateCapture(LateStream& first) { members_.push_back({&first}); }

  using Command = std::function<void(LateLaunch& launch, LateStream& stream)>;

  // Adds a command for `stream`, which joins the capture if it does not take part yet.
  void Add(LateStream& stream, Command command) {
    const size_t member = Member(stream);
    ++members_[member].commands;
    commands_.push_back([member, command = std::move(command)](LateLaunch& launch) {
      command(launch, *launch.streams[member]);
    });
  }
  size_t Record(LateStream& stream);
  void Await(LateStream& stream, size_t point);

  // Ends the capture on all streams. Returns an error if the first stream does not wait for all work of the
  // other streams.
  absl::Status End();
  bool ended() const { return ended_; }
  size_t streams() const { return members_.size(); }
  void Launch(std::vector<LateStream*> streams) const;

 private:
  struct TakesPart {
    LateStream* stream;
    int64_t commands = 0;
    int64_t awaited = 0;  // The number of these commands for which the first stream waits.
  };
  struct Point {
    size_t member;
    int64_t commands;  // The number of the stream's commands up to and including this point.
  };
  size_t Member(LateStream& stream);

  std::vector<TakesPart> members_;  // The first is the stream that was captured.
  std::vector<Point> points_;
  std::vector<std::function<void(LateLaunch&)>> commands_;
  bool ended_ = false;
};

class LateEvent final : public TimedEvent {
 public:
  // Each launch of a graph records the timed events that were captured. Other captured events only order work
  // within the graph.
  LateEvent(bool timed, bool hangs) : timed_(timed), hangs_(hangs) {}

  absl::Status Record(Stream& stream) override;
  absl::Status Wait(Stream& stream) const override;
  // Each query runs one piece of work on the event's stream, unless `hangs`.
  absl::StatusOr<bool> Happened() const override;
  absl::StatusOr<Nanoseconds> Since(const TimedEvent& earlier) const override;

 private:
  const bool timed_;
  const bool hangs_;
  std::shared_ptr<LatePoint> point_;
  std::shared_ptr<LateCapture> capture_;  // The capture during the last Record; null if there was none.
  size_t captured_point_ = 0;             // The recorded point in capture_.
};

// See Device::Capture for the contract. `time` is the device's clock; `live` counts the existing graphs.
absl::StatusOr<std::unique_ptr<Graph>> CaptureLate(LateStream& stream, absl::FunctionRef<absl::Status()> work,
                                                   std::shared_ptr<Nanoseconds> time,
                                                   std::shared_ptr<int> live);

}  // namespace tethys::testing

#endif  // TETHYS_TESTS_TESTING_LATE_STREAM_H_
