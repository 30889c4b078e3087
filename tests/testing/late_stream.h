// Streams, events and graphs of a late device (late_device.h). Work put on a stream happens when somebody
// waits for it. While a stream is captured, what is put on it, recorded and awaited there is kept as
// commands, which each launch of the graph gives anew: on the stream that it is launched on, and on streams
// of the graph's own for the others that took part, which are as late.
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

// Where an event was recorded.
struct LatePoint {
  LateStream* stream = nullptr;
  bool happened = false;
  Nanoseconds time = 0;
};

// Work in order, until the first error: nothing happens after it. Each piece of work takes the device
// kWorkTime, whatever else it does.
class LateStream final : public Stream {
 public:
  explicit LateStream(std::shared_ptr<Nanoseconds> time) : time_(std::move(time)) {}

  void Put(Work work);
  std::shared_ptr<LatePoint> Record();
  void Await(std::shared_ptr<LatePoint> point);
  // False where nothing is left to happen, or nothing more does.
  bool RunOne();
  const absl::Status& status() const { return status_; }
  absl::Status Synchronize() override;

  // The capture that this stream takes part in, or null.
  const std::shared_ptr<LateCapture>& capture() const { return capture_; }
  void set_capture(std::shared_ptr<LateCapture> capture) { capture_ = std::move(capture); }

 private:
  const std::shared_ptr<Nanoseconds> time_;
  std::deque<Work> work_;
  absl::Status status_;
  std::shared_ptr<LateCapture> capture_;
};

inline LateStream& Late(Stream& stream) { return static_cast<LateStream&>(stream); }

// A launch of a graph: what stands for the streams and the points of its capture.
struct LateLaunch {
  std::vector<LateStream*> streams;
  std::vector<std::shared_ptr<LatePoint>> points;
};

class LateCapture {
 public:
  explicit LateCapture(LateStream& first) { members_.push_back({&first}); }

  using Command = std::function<void(LateLaunch& launch, LateStream& stream)>;

  // For `stream`, which takes part from now on if it did not.
  void Add(LateStream& stream, Command command) {
    const size_t member = Member(stream);
    ++members_[member].commands;
    commands_.push_back([member, command = std::move(command)](LateLaunch& launch) {
      command(launch, *launch.streams[member]);
    });
  }
  size_t Record(LateStream& stream);
  void Await(LateStream& stream, size_t point);

  // No stream takes part any longer. An error where one was left that the first does not wait for.
  absl::Status End();
  bool ended() const { return ended_; }
  size_t streams() const { return members_.size(); }
  void Launch(std::vector<LateStream*> streams) const;

 private:
  struct TakesPart {
    LateStream* stream;
    int64_t commands = 0;
    int64_t awaited = 0;  // Commands that the first stream waits for.
  };
  struct Point {
    size_t member;
    int64_t commands;  // Of its stream, up to it.
  };
  size_t Member(LateStream& stream);

  std::vector<TakesPart> members_;  // The first is the stream that was captured.
  std::vector<Point> points_;
  std::vector<std::function<void(LateLaunch&)>> commands_;
  bool ended_ = false;
};

class LateEvent final : public TimedEvent {
 public:
  // Timed ones are recorded by each launch of a graph, others order the work within it.
  LateEvent(bool timed, bool hangs) : timed_(timed), hangs_(hangs) {}

  absl::Status Record(Stream& stream) override;
  absl::Status Wait(Stream& stream) const override;
  // Each look lets one piece of work happen.
  absl::StatusOr<bool> Happened() const override;
  absl::StatusOr<Nanoseconds> Since(const TimedEvent& earlier) const override;

 private:
  const bool timed_;
  const bool hangs_;
  std::shared_ptr<LatePoint> point_;
  std::shared_ptr<LateCapture> capture_;  // In which it was recorded last, if it was; as this point of it.
  size_t captured_point_ = 0;
};

// Contract: Device::Capture. `time` is the device's; `live` counts the graphs there are.
absl::StatusOr<std::unique_ptr<Graph>> CaptureLate(LateStream& stream, absl::FunctionRef<absl::Status()> work,
                                                   std::shared_ptr<Nanoseconds> time,
                                                   std::shared_ptr<int> live);

}  // namespace tethys::testing

#endif  // TETHYS_TESTS_TESTING_LATE_STREAM_H_
