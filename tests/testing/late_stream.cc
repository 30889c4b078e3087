#include "tests/testing/late_stream.h"

#include <algorithm>
#include <thread>

#include "tests/testing/late_device.h"

namespace tethys::testing {

void LateStream::Enqueue(Work work) {
  EnqueueWaiting([work = std::move(work)]() -> absl::StatusOr<bool> {
    TETHYS_RETURN_IF_ERROR(work());
    return true;
  });
}

void LateStream::EnqueueWaiting(WaitingWork work) {
  if (capture_ == nullptr) {
    work_.push_back(std::move(work));
  } else {
    capture_->Add(*this,
                  [work = std::move(work)](LateLaunch&, LateStream& stream) { stream.EnqueueWaiting(work); });
  }
}

std::shared_ptr<LatePoint> LateStream::Record() {
  auto point = std::make_shared<LatePoint>(LatePoint{this});
  Enqueue([point, time = time_] {
    point->happened = true;
    point->time = *time;
    return absl::OkStatus();
  });
  return point;
}

// Keeps the awaited stream, which may belong to a graph that is destroyed before its launch has ended.
void LateStream::Await(std::shared_ptr<LatePoint> point) {
  std::shared_ptr<LateStream> awaited = point->stream->weak_from_this().lock();
  EnqueueWaiting([point = std::move(point), awaited = std::move(awaited)]() -> absl::StatusOr<bool> {
    while (!point->happened && point->stream->RunOne()) {
    }
    if (point->happened) return true;
    TETHYS_RETURN_IF_ERROR(point->stream->status());
    if (point->stream->waits()) return false;
    return absl::FailedPreconditionError("a stream waits for an event that never happens");
  });
}

bool LateStream::RunOne() {
  waits_ = false;
  if (work_.empty() || !status_.ok()) return false;
  WaitingWork work = std::move(work_.front());
  work_.pop_front();
  const absl::StatusOr<bool> done = work();
  if (done.ok() && !*done) {
    work_.push_front(std::move(work));
    waits_ = true;
    return false;
  }
  *time_ += kWorkTime;
  status_ = done.status();
  return true;
}

absl::Status LateStream::Synchronize() {
  if (capture_ != nullptr) return absl::FailedPreconditionError("a captured stream was waited for");
  while (RunOne() || waits_) {
    if (waits_) std::this_thread::yield();
  }
  return status_;
}

size_t LateCapture::Member(LateStream& stream) {
  for (size_t i = 0; i < members_.size(); ++i) {
    if (members_[i].stream == &stream) return i;
  }
  stream.set_capture(members_[0].stream->capture());
  members_.push_back({&stream});
  return members_.size() - 1;
}

size_t LateCapture::Record(LateStream& stream) {
  const size_t point = points_.size();
  Add(stream, [point](LateLaunch& launch, LateStream& on) { launch.points[point] = on.Record(); });
  const size_t member = Member(stream);
  points_.push_back({member, members_[member].commands});
  return point;
}

void LateCapture::Await(LateStream& stream, size_t point) {
  Add(stream, [point](LateLaunch& launch, LateStream& on) { on.Await(launch.points[point]); });
  if (&stream != members_[0].stream) return;
  int64_t& awaited = members_[points_[point].member].awaited;
  awaited = std::max(awaited, points_[point].commands);
}

absl::Status LateCapture::End() {
  ended_ = true;
  bool joined = true;
  for (const TakesPart& member : members_) {
    joined &= member.stream == members_[0].stream || member.awaited == member.commands;
    member.stream->set_capture(nullptr);
  }
  if (joined) return absl::OkStatus();
  return absl::FailedPreconditionError("the captured stream does not wait for another that takes part");
}

void LateCapture::Launch(std::vector<LateStream*> streams) const {
  LateLaunch launch = {std::move(streams), std::vector<std::shared_ptr<LatePoint>>(points_.size())};
  for (const auto& command : commands_) command(launch);
}

absl::Status LateEvent::Record(Stream& stream) {
  LateStream& late = Late(stream);
  capture_ = timed_ ? nullptr : late.capture();
  if (capture_ != nullptr) {
    captured_point_ = capture_->Record(late);
  } else if (late.capture() != nullptr) {
    late.capture()->Add(late, [this](LateLaunch&, LateStream& on) { point_ = on.Record(); });
  } else {
    point_ = late.Record();
  }
  return absl::OkStatus();
}

absl::Status LateEvent::Wait(Stream& stream) const {
  LateStream& late = Late(stream);
  if (capture_ != nullptr) {
    if (capture_->ended()) return absl::FailedPreconditionError("an event was awaited outside its capture");
    capture_->Await(late, captured_point_);
  } else if (late.capture() != nullptr) {
    return absl::FailedPreconditionError("captured work was to wait for an event outside the capture");
  } else if (point_ != nullptr) {
    late.Await(point_);
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> LateEvent::Happened() const {
  if (capture_ != nullptr) return absl::FailedPreconditionError("a captured event was asked");
  if (point_ == nullptr) return true;
  if (!point_->happened && !hangs_) point_->stream->RunOne();
  if (!point_->happened) TETHYS_RETURN_IF_ERROR(point_->stream->status());
  return point_->happened;
}

absl::StatusOr<Nanoseconds> LateEvent::Since(const TimedEvent& earlier) const {
  const LatePoint* begin = static_cast<const LateEvent&>(earlier).point_.get();
  if (begin == nullptr || point_ == nullptr || !begin->happened || !point_->happened) {
    return absl::FailedPreconditionError("an event was asked for its time before it happened");
  }
  return point_->time - begin->time;
}

namespace {

class LateGraph final : public Graph {
 public:
  LateGraph(std::shared_ptr<LateCapture> capture, std::shared_ptr<Nanoseconds> time,
            std::shared_ptr<int> live)
      : capture_(std::move(capture)), live_(std::move(live)) {
    ++*live_;
    while (others_.size() + 1 < capture_->streams()) others_.push_back(std::make_shared<LateStream>(time));
  }
  ~LateGraph() override { --*live_; }

  absl::Status Launch(Stream& stream) override {
    std::vector<LateStream*> streams = {&Late(stream)};
    for (const auto& other : others_) streams.push_back(other.get());
    capture_->Launch(std::move(streams));
    return absl::OkStatus();
  }

 private:
  const std::shared_ptr<const LateCapture> capture_;
  const std::shared_ptr<int> live_;
  std::vector<std::shared_ptr<LateStream>> others_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Graph>> CaptureLate(LateStream& stream, absl::FunctionRef<absl::Status()> work,
                                                   std::shared_ptr<Nanoseconds> time,
                                                   std::shared_ptr<int> live) {
  auto capture = std::make_shared<LateCapture>(stream);
  stream.set_capture(capture);
  const absl::Status put = work();
  const absl::Status ended = capture->End();
  TETHYS_RETURN_IF_ERROR(put);
  TETHYS_RETURN_IF_ERROR(ended);
  return std::make_unique<LateGraph>(std::move(capture), std::move(time), std::move(live));
}

}  // namespace tethys::testing
