#include "runtime/cluster/task_session.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/base/logging.h"
#include "runtime/base/mutex.h"
#include "runtime/base/process.h"
#include "runtime/base/thread.h"
#include "runtime/cluster/chief_clock.h"
#include "runtime/cluster/chief_session.h"
#include "runtime/cluster/chief_watch.h"
#include "runtime/cluster/sent_messages.h"

namespace tethys {
namespace {

// Close waits for the writer thread until no message has been sent for this time.
constexpr Nanoseconds kCloseProgress = kSecond;
// The pause between two attempts to open a session again.
constexpr Nanoseconds kResumePause = 20 * kMillisecond;

// Runs three threads: a reader, a writer, which also sends heartbeats, and a watch over the chief. The watch
// only reads the time and cancels calls, so nothing can delay it.
//
// If the chief is resumable, the reader opens the session again after it broke. Meanwhile the writer rests.
// Messages are kept until the chief has received them.
class GrpcTaskSession final : public TaskSession {
 public:
  GrpcTaskSession(const TaskOptions& options, const Clock& clock, std::function<void()> end_process)
      : options_(options), clock_(clock), end_process_(std::move(end_process)) {}

  ~GrpcTaskSession() override {
    Close();
    StopWatching();
  }

  absl::Status Open() {
    if (const absl::Status opened = first_->Open(absl::nullopt); !opened.ok()) {
      MutexLock lock(mu_);
      closed_ = true;
      return Annotate(opened,
                      absl::StrCat("the chief at ", options_.chief_address, " did not admit this task"));
    }
    TETHYS_RETURN_IF_ERROR(reader_.Start([this] { ReadOrders(); }));
    TETHYS_RETURN_IF_ERROR(writer_.Start([this] { WriteMessages(); }));
    return watch_.Start([this] { WatchChief(); });
  }

  absl::Status status() override {
    if (!lost_) return absl::OkStatus();
    MutexLock lock(mu_);
    return broken_;
  }

  void Send(proto::FromTask message) override {
    MutexLock lock(mu_);
    outgoing_.push_back(std::move(message));
    outgoing_changed_.NotifyOne();
  }

  absl::StatusOr<proto::ToTask> Receive() override {
    MutexLock lock(mu_);
    // The watch thread ends this wait if the chief is lost.
    while (incoming_.empty() && broken_.ok()) incoming_changed_.Wait(mu_);
    if (incoming_.empty()) return broken_;
    return TakeOrder();
  }

  absl::StatusOr<absl::optional<proto::ToTask>> Poll() override {
    MutexLock lock(mu_);
    if (!incoming_.empty()) return absl::optional<proto::ToTask>(TakeOrder());
    if (!broken_.ok()) return broken_;
    return absl::optional<proto::ToTask>();
  }

  void CallAtOnce(UrgentCallback urgent) override {
    MutexLock lock(urgent_mu_);
    urgent_ = std::move(urgent);
  }

  void StartBeating(Nanoseconds interval, Fill fill) override {
    MutexLock beat_lock(beat_mu_);
    fill_ = std::move(fill);
    MutexLock lock(mu_);
    beat_interval_ = interval;
    outgoing_changed_.NotifyOne();
  }

  void Beat() override {
    MutexLock beat_lock(beat_mu_);
    if (fill_ == nullptr) return;
    proto::FromTask beat;
    std::vector<proto::FromTask> before;
    proto::Heartbeat& heartbeat = *beat.mutable_heartbeat();
    heartbeat.set_resident_bytes(ResidentBytes());
    fill_(heartbeat, before);
    MutexLock lock(mu_);
    for (proto::FromTask& message : before) outgoing_.push_back(std::move(message));
    heartbeat.set_sent_ns(clock_.Now());
    heartbeat.set_clock_offset_ns(chief_clock_.offset());
    heartbeat.set_clock_error_ns(chief_clock_.ErrorAt(heartbeat.sent_ns()));
    heartbeat.set_orders_received(orders_);
    outgoing_.push_back(std::move(beat));
    outgoing_changed_.NotifyOne();
  }

  void BeatSoon() override {
    MutexLock lock(mu_);
    beat_soon_ = true;
    outgoing_changed_.NotifyOne();
  }

  bool peers_compute() const override { return peers_compute_ && !lost_; }

  absl::Status ReadCheckpoint(int slot, int64_t begin, absl::Span<float> out) override {
    return first_->calls().ReadCheckpoint(slot, begin, out);
  }
  absl::Status ReadDataFile(const std::string& path, int64_t offset, TakeBytes take) override {
    return first_->calls().ReadDataFile(path, offset, take);
  }
  absl::Status WriteCheckpoint(int64_t save_id, Source source) override {
    return first_->calls().WriteCheckpoint(save_id, source);
  }

  void Close() override {
    {
      MutexLock lock(mu_);
      if (closed_) return;
      closed_ = true;
      outgoing_changed_.NotifyOne();
    }
    if (writer_.running()) {
      AwaitWriter();
      writer_.Join();
    }
    {
      // The chief ends the stream when it has read everything; if this takes more than a second, the call is
      // cancelled.
      const Nanoseconds deadline = clock_.Now() + kSecond;
      MutexLock lock(mu_);
      while (reader_.running() && broken_.ok() && clock_.Now() < deadline) {
        incoming_changed_.WaitFor(mu_, deadline - clock_.Now());
      }
      CancelSession();
    }
    if (reader_.running()) reader_.Join();
    // If the chief was lost, the watch continues: it ends this process if the task hangs.
    if (!lost_) StopWatching();
  }

 private:
  // Runs on the reader thread after the session broke with `status`. Opens it again at the chief's successor,
  // which may take as long as a chief may be silent. Returns false, and breaks the session, if that is not
  // possible.
  bool Resume(const absl::Status& status) {
    int64_t orders = 0;
    {
      MutexLock lock(mu_);
      if (!first_->resumable() || closed_ || ordered_to_stop_ || !broken_.ok()) {
        Break(status);
        return false;
      }
      resuming_ = true;
      outgoing_changed_.NotifyAll();
      while (writing_) writer_changed_.Wait(mu_);
      orders = orders_;
    }
    TETHYS_LOG(Warning, "the session with the chief broke (", StatusText(status),
               "); waiting for its successor");
    const Nanoseconds deadline = clock_.Now() + options_.chief_silence;
    absl::Status resumed;
    do {
      resumed = TryToResume(orders, deadline);
      const bool again = absl::IsUnavailable(resumed) || absl::IsDeadlineExceeded(resumed);
      MutexLock lock(mu_);
      if (resumed.ok()) break;
      if (!again || closed_ || !broken_.ok() || clock_.Now() >= deadline) {
        Break(absl::Status(status.code(),
                           absl::StrCat(status.message(), "; no successor: ", resumed.message())));
        break;
      }
      watch_changed_.WaitFor(mu_, kResumePause);
    } while (true);
    MutexLock lock(mu_);
    resuming_ = false;
    outgoing_changed_.NotifyAll();
    return broken_.ok();
  }

  absl::Status TryToResume(int64_t orders, Nanoseconds deadline) {
    TaskOptions options = options_;
    options.connect_timeout = std::clamp<Nanoseconds>(deadline - clock_.Now(), kMillisecond, 2 * kSecond);
    auto next = std::make_unique<ChiefSession>(options, clock_);
    {
      MutexLock lock(mu_);
      if (closed_) return absl::CancelledError("the session is closed");
      opening_ = next.get();
    }
    const absl::Status opened = next->Open(orders);
    MutexLock lock(mu_);
    opening_ = nullptr;
    TETHYS_RETURN_IF_ERROR(opened);
    if (!sent_.May(next->messages_received())) {
      next->Cancel();
      next->Finish().IgnoreError();
      return absl::AbortedError("the chief's successor does not know this session");
    }
    sent_.Received(next->messages_received());
    sent_.TakeTo(outgoing_);
    later_ = std::move(next);
    session_ = later_.get();
    ++sessions_;
    return absl::OkStatus();
  }

  // Cancels the session's stream, and an attempt to open it again.
  void CancelSession() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    session_->Cancel();
    if (opening_ != nullptr) opening_->calls().CancelAll();
  }

  // Waits until the writer has sent everything. Cancels the session if the writer makes no progress.
  void AwaitWriter() {
    MutexLock lock(mu_);
    int64_t written = -1;
    while (!writer_done_ && written_ != written) {
      written = written_;
      const Nanoseconds deadline = clock_.Now() + kCloseProgress;
      while (!writer_done_ && clock_.Now() < deadline) {
        writer_changed_.WaitFor(mu_, deadline - clock_.Now());
      }
    }
    if (!writer_done_) CancelSession();
  }

  proto::ToTask TakeOrder() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    proto::ToTask order = std::move(incoming_.front());
    incoming_.pop_front();
    return order;
  }

  // Runs on the reader thread.
  void ReadOrders() {
    absl::Status status;
    do {
      proto::ToTask order;
      while (session_->stream().Read(&order)) TakeIn(order);
      status = session_->Finish();
    } while (Resume(status));
    outgoing_changed_.NotifyAll();
  }

  void TakeIn(proto::ToTask& order) {
    const Nanoseconds now = clock_.Now();
    if (order.has_halt() || order.has_servers()) PassOn(order);
    MutexLock lock(mu_);
    ++heard_;
    ++orders_;
    if (order.has_pong()) {
      peers_compute_ = order.pong().peers_compute();
      chief_clock_.Note(order.pong().sent_ns(), now, order.pong().chief_ns());
      sent_.Received(order.pong().messages_received());
      return;
    }
    if (order.has_stop()) {
      ordered_to_stop_ = true;
      // The job has ended without a failure, so the end of the session does not count as a loss of the chief.
      if (!order.stop().failed()) dismissed_ = true;
    }
    incoming_.push_back(std::move(order));
    incoming_changed_.NotifyAll();
  }

  void PassOn(const proto::ToTask& order) {
    MutexLock lock(urgent_mu_);
    if (urgent_) urgent_(order);
  }

  void Break(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (broken_.ok()) broken_ = Annotate(status, absl::StrCat("lost the chief at ", options_.chief_address));
    incoming_changed_.NotifyAll();
    watch_changed_.NotifyAll();
  }

  // Runs on the writer thread.
  void WriteMessages() {
    WriteUntilClosed();
    MutexLock lock(mu_);
    writer_done_ = true;
    writer_changed_.NotifyAll();
  }

  // Sends queued messages, and a heartbeat when it is due.
  void WriteUntilClosed() {
    Nanoseconds next_beat = clock_.Now();
    while (true) {
      absl::optional<proto::FromTask> message;
      bool beat = false;
      int64_t sessions = 0;
      {
        MutexLock lock(mu_);
        while (true) {
          if (!broken_.ok()) return;
          if (!resuming_) {
            if (!outgoing_.empty()) break;
            if (closed_) {
              session_->stream().WritesDone();
              return;
            }
            beat = beat_interval_ > 0 && (beat_soon_ || clock_.Now() >= next_beat);
            if (beat) break;
          }
          outgoing_changed_.WaitFor(mu_,
                                    beat_interval_ > 0 && !resuming_ ? next_beat - clock_.Now() : kSecond);
        }
        if (!beat) {
          message = std::move(outgoing_.front());
          outgoing_.pop_front();
          if (first_->resumable()) sent_.Add(*message);
          writing_ = true;
          sessions = sessions_;
        } else {
          beat_soon_ = false;
          next_beat = clock_.Now() + beat_interval_;
        }
      }
      if (beat) {
        Beat();
        continue;
      }
      const bool written = session_->stream().Write(*message);
      MutexLock lock(mu_);
      writing_ = false;
      writer_changed_.NotifyAll();
      if (written) {
        ++written_;
        continue;
      }
      // The reader thread gets the reason of the failure, and opens the session again or breaks it.
      while (broken_.ok() && sessions_ == sessions && !closed_) outgoing_changed_.WaitFor(mu_, kSecond);
      if (closed_ || !broken_.ok()) return;
    }
  }

  // Runs on the watch thread. Measures the chief's silence from the first heartbeat on, because the chief
  // need not send anything to a task that sends no heartbeats.
  void WatchChief() {
    const Nanoseconds interval = std::min(kSecond, options_.chief_silence) / 8;
    absl::optional<ChiefWatch> watch;
    while (true) {
      ChiefWatch::Verdict verdict = ChiefWatch::Verdict::kPresent;
      {
        MutexLock lock(mu_);
        watch_changed_.WaitFor(mu_, interval);
        if (unwatched_) return;
        const Nanoseconds now = clock_.Now();
        const bool broken = !broken_.ok() && !closed_ && !dismissed_;
        if (resuming_) ++heard_;  // The time of resuming has a limit of its own.
        if (!watch.has_value() && (beat_interval_ > 0 || broken)) {
          watch.emplace(options_.chief_silence, options_.chief_grace, 4 * interval, now);
        }
        if (watch.has_value()) verdict = watch->Look(now, heard_, broken);
        if (verdict == ChiefWatch::Verdict::kLost && !lost_ && !broken && first_->resumable()) {
          // A silent chief, too, may have a successor.
          watch.reset();
          CancelSession();
          continue;
        }
        if (verdict == ChiefWatch::Verdict::kLost && !lost_) NoteLoss();
      }
      if (verdict == ChiefWatch::Verdict::kPresent) continue;
      CancelCalls();
      if (verdict == ChiefWatch::Verdict::kLost) continue;
      TETHYS_LOG(Error, "the chief was lost and this process did not end within ",
                 ToSeconds(options_.chief_grace), " s by itself: this process is ended now");
      return end_process_();
    }
  }

  void CancelCalls() {
    MutexLock lock(mu_);
    for (ChiefSession* const session : {first_.get(), later_.get(), opening_}) {
      if (session != nullptr) session->calls().CancelAll();
    }
  }

  void NoteLoss() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    Break(absl::UnavailableError(
        absl::StrCat("nothing was heard from the chief for ", ToSeconds(options_.chief_silence), " s")));
    TETHYS_LOG(Error, broken_.message());
    lost_ = true;
  }

  void StopWatching() {
    {
      MutexLock lock(mu_);
      unwatched_ = true;
      watch_changed_.NotifyAll();
    }
    if (watch_.running()) watch_.Join();
  }

  const TaskOptions options_;
  const Clock& clock_;
  const std::function<void()> end_process_;
  // The session as it was opened first, and all other calls.
  const std::unique_ptr<ChiefSession> first_ = std::make_unique<ChiefSession>(options_, clock_);
  std::unique_ptr<ChiefSession> later_ ABSL_GUARDED_BY(mu_);  // The session as it was opened last, if again.
  ChiefSession* opening_ ABSL_GUARDED_BY(mu_) = nullptr;      // The session that is being opened again.
  // first_ or later_. The reader thread changes it while the writer thread rests, so that both threads read
  // it without the lock.
  ChiefSession* session_ = first_.get();
  std::atomic<bool> peers_compute_{false};
  std::atomic<bool> lost_{false};  // Set by the watch thread once the chief is lost.

  Mutex beat_mu_;  // Locked before mu_ if both are held.
  Fill fill_ ABSL_GUARDED_BY(beat_mu_);

  Mutex urgent_mu_;  // Never locked together with another lock of the session.
  UrgentCallback urgent_ ABSL_GUARDED_BY(urgent_mu_);

  Mutex mu_;
  CondVar incoming_changed_;
  CondVar outgoing_changed_;
  CondVar writer_changed_;
  CondVar watch_changed_;
  std::deque<proto::ToTask> incoming_ ABSL_GUARDED_BY(mu_);
  std::deque<proto::FromTask> outgoing_ ABSL_GUARDED_BY(mu_);
  absl::Status broken_ ABSL_GUARDED_BY(mu_);
  bool beat_soon_ ABSL_GUARDED_BY(mu_) = false;
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
  bool ordered_to_stop_ ABSL_GUARDED_BY(mu_) = false;
  bool resuming_ ABSL_GUARDED_BY(mu_) = false;   // The session is being opened again.
  bool writing_ ABSL_GUARDED_BY(mu_) = false;    // The writer thread uses the stream.
  SentMessages sent_ ABSL_GUARDED_BY(mu_);       // If the session is resumable.
  int64_t orders_ ABSL_GUARDED_BY(mu_) = 0;      // Orders received.
  int64_t sessions_ ABSL_GUARDED_BY(mu_) = 1;    // The number of times that the session was opened.
  bool dismissed_ ABSL_GUARDED_BY(mu_) = false;  // True once the chief has said that the job succeeded.
  bool writer_done_ ABSL_GUARDED_BY(mu_) = false;
  bool unwatched_ ABSL_GUARDED_BY(mu_) = false;
  int64_t heard_ ABSL_GUARDED_BY(mu_) = 0;    // Messages received from the chief.
  int64_t written_ ABSL_GUARDED_BY(mu_) = 0;  // Messages sent to the chief.
  Nanoseconds beat_interval_ ABSL_GUARDED_BY(mu_) = 0;
  ChiefClock chief_clock_ ABSL_GUARDED_BY(mu_);

  Thread reader_;
  Thread writer_;
  Thread watch_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<TaskSession>> TaskSession::Connect(const TaskOptions& options,
                                                                  const Clock& clock,
                                                                  std::function<void()> end_process) {
  auto session = std::make_unique<GrpcTaskSession>(options, clock, std::move(end_process));
  TETHYS_RETURN_IF_ERROR(session->Open());
  return absl::StatusOr<std::unique_ptr<TaskSession>>(std::move(session));
}

}  // namespace tethys
