#include "runtime/cluster/chief_session.h"

#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "runtime/base/mutex.h"
#include "runtime/base/thread.h"
#include "runtime/cluster/grpc_status.h"
#include "runtime/cluster/session_metadata.h"

namespace tethys {
namespace {

// Metadata that the chief sent when it opened the session; empty: it sent none of this key.
std::string MetadataOf(const grpc::ClientContext& context, const char* key) {
  const auto& metadata = context.GetServerInitialMetadata();
  const auto found = metadata.find(key);
  return found == metadata.end() ? "" : std::string(found->second.data(), found->second.size());
}

}  // namespace

absl::Status ChiefSession::Open(absl::optional<int64_t> orders_received) {
  grpc::ClientContext& context = calls_.session();
  TETHYS_RETURN_IF_ERROR(calls_.AddHandshake(context));
  if (orders_received.has_value()) context.AddMetadata(kOrdersReceivedKey, absl::StrCat(*orders_received));
  TETHYS_RETURN_IF_ERROR(BeAdmitted());
  resumable_ = !MetadataOf(context, kResumableKey).empty();
  if (!absl::SimpleAtoi(MetadataOf(context, kMessagesReceivedKey), &messages_received_))
    messages_received_ = -1;
  return absl::OkStatus();
}

// If the chief admits the session, it sends initial metadata at once; otherwise it ends the call with a
// status.
absl::Status ChiefSession::BeAdmitted() {
  absl::Status late;
  bool answered = false;
  Mutex mu;
  CondVar changed;
  Thread timer;
  TETHYS_RETURN_IF_ERROR(timer.Start([&] {
    const Nanoseconds deadline = clock_.Now() + options_.connect_timeout;
    MutexLock lock(mu);
    while (!answered && clock_.Now() < deadline) changed.WaitFor(mu, deadline - clock_.Now());
    if (answered) return;
    late = absl::DeadlineExceededError(
        absl::StrCat("the chief did not answer within ", ToSeconds(options_.connect_timeout), " s"));
    Cancel();
  }));
  stream_ = calls_.OpenSession();
  stream_->WaitForInitialMetadata();
  {
    MutexLock lock(mu);
    answered = true;
    changed.NotifyOne();
  }
  timer.Join();
  if (late.ok() && !MetadataOf(calls_.session(), kAdmittedKey).empty()) return absl::OkStatus();
  stream_->WritesDone();
  const absl::Status status = FromGrpcStatus(stream_->Finish());
  if (!late.ok()) return late;
  return status.ok() ? absl::UnavailableError("the session ended at once") : status;
}

absl::Status ChiefSession::Finish() {
  const absl::Status status = FromGrpcStatus(stream_->Finish());
  return status.ok() ? absl::UnavailableError("the chief ended the session") : status;
}

}  // namespace tethys
