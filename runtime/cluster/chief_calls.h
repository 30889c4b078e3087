// The calls of a task to its chief, on one channel: the session's stream, and reads and writes of checkpoint
// ranges. Before each call the task requests a challenge, and answers it by a handshake in the call's
// metadata. All calls can be cancelled together. Thread-safe.
#ifndef TETHYS_RUNTIME_CLUSTER_CHIEF_CALLS_H_
#define TETHYS_RUNTIME_CLUSTER_CHIEF_CALLS_H_

#include <grpcpp/grpcpp.h>

#include <memory>
#include <set>
#include <string>

#include "absl/types/span.h"
#include "proto/chief.grpc.pb.h"
#include "runtime/base/mutex.h"
#include "runtime/base/status.h"
#include "runtime/cluster/task_options.h"
#include "runtime/cluster/task_session.h"

namespace tethys {

// The calls in progress. CancelAll, on any thread, cancels these calls and all calls that begin later.
class OpenCalls {
 public:
  void Add(grpc::ClientContext& context) {
    MutexLock lock(mu_);
    contexts_.insert(&context);
    if (cancelled_) context.TryCancel();
  }
  void Remove(grpc::ClientContext& context) {
    MutexLock lock(mu_);
    contexts_.erase(&context);
  }
  void CancelAll() {
    MutexLock lock(mu_);
    cancelled_ = true;
    for (grpc::ClientContext* context : contexts_) context->TryCancel();
  }

 private:
  Mutex mu_;
  std::set<grpc::ClientContext*> contexts_ ABSL_GUARDED_BY(mu_);
  bool cancelled_ ABSL_GUARDED_BY(mu_) = false;
};

// The context of one call, which CancelAll can cancel until this object's scope ends.
class Call {
 public:
  explicit Call(OpenCalls& calls) : calls_(calls) { calls_.Add(context_); }
  ~Call() { calls_.Remove(context_); }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
  grpc::ClientContext& context() { return context_; }

 private:
  OpenCalls& calls_;
  grpc::ClientContext context_;
};

class ChiefCalls {
 public:
  // `options` must outlive the ChiefCalls.
  explicit ChiefCalls(const TaskOptions& options);

  // Cancels the calls in progress and all calls that begin later.
  void CancelAll() { open_.CancelAll(); }

  // Requests a challenge and puts the answer into the metadata of `context`. Blocks for at most
  // options.connect_timeout, plus a second to find out why the chief cannot be reached.
  absl::Status AddHandshake(grpc::ClientContext& context);

  // Opens the session's stream, whose context is session(). Does not block.
  std::unique_ptr<grpc::ClientReaderWriter<proto::FromTask, proto::ToTask>> OpenSession() {
    return stub_->Session(&session_.context());
  }
  grpc::ClientContext& session() { return session_.context(); }

  // Like the functions of TaskSession with the same names.
  absl::Status ReadCheckpoint(int slot, int64_t begin, absl::Span<float> out);
  absl::Status ReadDataFile(const std::string& path, int64_t offset, TaskSession::TakeBytes take);
  absl::Status WriteCheckpoint(int64_t save_id, const TaskSession::Source& source);

 private:
  absl::Status GetChallenge(Nanoseconds timeout, bool patient, proto::Challenge& challenge);

  const TaskOptions& options_;
  const std::unique_ptr<proto::Chief::Stub> stub_;
  OpenCalls open_;
  Call session_{open_};
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_CLUSTER_CHIEF_CALLS_H_
