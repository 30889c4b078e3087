#include "runtime/device/cuda/nccl_communicator.h"

#include <nccl.h>
#include <pthread.h>
#include <sched.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/functional/function_ref.h"
#include "runtime/device/cuda/stream.h"

namespace tethys::cuda {
namespace {

// A Status with NCCL's own message for an error of `comm`, which may be null. NCCL reports the loss of
// another rank as ncclRemoteError, or as the failure of a system call on the connection to the rank.
absl::Status NcclStatus(ncclResult_t result, ncclComm_t comm, absl::string_view call) {
  if (result == ncclSuccess) return absl::OkStatus();
  const char* detail = ncclGetLastError(comm);
  const bool said = detail != nullptr && *detail != '\0';
  const bool of_others = result == ncclRemoteError || result == ncclSystemError;
  return absl::Status(
      of_others ? absl::StatusCode::kUnavailable : absl::StatusCode::kInternal,
      absl::StrCat(call, " failed: ", ncclGetErrorString(result), said ? ": " : "", said ? detail : ""));
}

// Runs ncclCommAbort on a thread of its own. Internal: it did not end within `timeout`; the thread then goes
// on without the caller. (The class Thread needs files of runtime/base that this library does not contain.)
absl::Status AbortWithin(ncclComm_t comm, Nanoseconds timeout, const Clock& clock) {
  struct Abort {
    explicit Abort(ncclComm_t aborted) : comm(aborted) {}
    const ncclComm_t comm;
    std::atomic<bool> ended = false;
  };
  const auto abort = std::make_shared<Abort>(comm);
  auto argument = std::make_unique<std::shared_ptr<Abort>>(abort);
  const auto run = [](void* given) -> void* {
    const std::unique_ptr<std::shared_ptr<Abort>> own(static_cast<std::shared_ptr<Abort>*>(given));
    ncclCommAbort((*own)->comm);
    (*own)->ended = true;
    return nullptr;
  };
  pthread_t thread{};
  if (pthread_create(&thread, nullptr, run, argument.get()) != 0) {
    return absl::InternalError("ncclCommAbort was not called: the system starts no further thread");
  }
  static_cast<void>(argument.release());
  pthread_detach(thread);
  const Nanoseconds deadline = clock.Now() + timeout;
  while (!abort->ended && clock.Now() <= deadline) sched_yield();
  if (abort->ended) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("ncclCommAbort did not end within ", ToSeconds(timeout),
                                          " s, so this process cannot use its GPU any more and ends"));
}

std::string VersionText() {
  int version = 0;
  if (ncclGetVersion(&version) != ncclSuccess) return "NCCL";
  return absl::StrCat("NCCL ", version / 10000, ".", version / 100 % 100, ".", version % 100);
}

class NcclCommunicator final : public StreamCommunicator {
 public:
  explicit NcclCommunicator(const StreamGroup& group) : group_(group) {}

  // Each rank closes its own communicator. After a run without errors, no work is in flight.
  ~NcclCommunicator() override {
    if (comm_ == nullptr) return;
    const ncclResult_t finalized = Interrupted().ok() ? ncclCommFinalize(comm_) : ncclInternalError;
    if ((finalized == ncclSuccess || finalized == ncclInProgress) && Settle("ncclCommFinalize").ok()) {
      ncclCommDestroy(std::exchange(comm_, nullptr));
    }
    Abort().IgnoreError();
  }

  absl::Status Join() {
    ncclUniqueId id;
    if (group_.id.size() != sizeof(id)) {
      return absl::InvalidArgumentError(
          absl::StrCat("the id of an NCCL group has ", sizeof(id), " bytes, not ", group_.id.size()));
    }
    std::memcpy(&id, group_.id.data(), sizeof(id));
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    const ncclResult_t result = ncclCommInitRankConfig(&comm_, group_.world_size, id, group_.rank, &config);
    if (result != ncclSuccess && result != ncclInProgress) {
      return NcclStatus(result, comm_, "ncclCommInitRankConfig");
    }
    return Settle("ncclCommInitRankConfig");
  }

  int rank() const override { return group_.rank; }
  int world_size() const override { return group_.world_size; }

  absl::Status AllReduce(Stream& stream, float* data, int64_t count) override {
    return Sum(stream, data, ncclFloat32, count);
  }
  absl::Status AllReduce(Stream& stream, Bfloat16* data, int64_t count) override {
    return Sum(stream, data, ncclBfloat16, count);
  }

  absl::Status ReduceScatter(Stream& stream, float* data, int64_t count) override {
    return Enqueue("ncclReduceScatter", [&] {
      return ncclReduceScatter(data, data + group_.rank * count, static_cast<size_t>(count), ncclFloat32,
                               ncclSum, comm_, Handle(stream));
    });
  }
  absl::Status AllGather(Stream& stream, float* data, int64_t count) override {
    return Enqueue("ncclAllGather", [&] {
      return ncclAllGather(data + group_.rank * count, data, static_cast<size_t>(count), ncclFloat32, comm_,
                           Handle(stream));
    });
  }
  absl::Status Send(Stream& stream, int peer, const float* data, int64_t count) override {
    return Enqueue("ncclSend", [&] {
      return ncclSend(data, static_cast<size_t>(count), ncclFloat32, peer, comm_, Handle(stream));
    });
  }
  absl::Status Receive(Stream& stream, int peer, float* data, int64_t count) override {
    return Enqueue("ncclRecv", [&] {
      return ncclRecv(data, static_cast<size_t>(count), ncclFloat32, peer, comm_, Handle(stream));
    });
  }

  absl::Status Check() override {
    if (comm_ == nullptr) return absl::CancelledError("the group was aborted");
    ncclResult_t state = ncclSuccess;
    TETHYS_RETURN_IF_ERROR(NcclStatus(ncclCommGetAsyncError(comm_, &state), comm_, "ncclCommGetAsyncError"));
    return state == ncclInProgress ? absl::OkStatus() : NcclStatus(state, comm_, "an operation by NCCL");
  }

  absl::Status Abort() override {
    if (comm_ == nullptr) return aborted_;
    aborted_ = AbortWithin(std::exchange(comm_, nullptr), group_.abort_timeout, *group_.clock);
    return aborted_;
  }

  std::string Describe() const override {
    return absl::StrCat(VersionText(), " among ", group_.world_size,
                        group_.world_size == 1 ? " GPU" : " GPUs");
  }

 private:
  absl::Status Sum(Stream& stream, void* data, ncclDataType_t type, int64_t count) {
    return Enqueue("ncclAllReduce", [&] {
      return ncclAllReduce(data, data, static_cast<size_t>(count), type, ncclSum, comm_, Handle(stream));
    });
  }

  absl::Status Interrupted() const {
    return group_.interrupted == nullptr ? absl::OkStatus() : group_.interrupted();
  }

  // `call` is a call of NCCL that uses comm_.
  absl::Status Enqueue(absl::string_view name, absl::FunctionRef<ncclResult_t()> call) {
    if (comm_ == nullptr) return absl::CancelledError("the group was aborted");
    const ncclResult_t result = call();
    if (result != ncclSuccess && result != ncclInProgress) return NcclStatus(result, comm_, name);
    return Settle(name);
  }

  // Waits until NCCL has accepted the last call.
  absl::Status Settle(absl::string_view call) {
    const Nanoseconds deadline = group_.clock->Now() + group_.timeout;
    while (true) {
      ncclResult_t state = ncclSuccess;
      TETHYS_RETURN_IF_ERROR(
          NcclStatus(ncclCommGetAsyncError(comm_, &state), comm_, "ncclCommGetAsyncError"));
      if (state != ncclInProgress) return NcclStatus(state, comm_, call);
      TETHYS_RETURN_IF_ERROR(Interrupted());
      if (group_.clock->Now() > deadline) {
        return absl::DeadlineExceededError(
            absl::StrCat(call, " did not end within ", ToSeconds(group_.timeout),
                         " s: a rank of the group is lost or cannot be reached; NCCL_DEBUG=INFO "
                         "shows which network NCCL uses"));
      }
      sched_yield();
    }
  }

  const StreamGroup group_;
  ncclComm_t comm_ = nullptr;  // Null once aborted.
  absl::Status aborted_;       // The result of Abort.
};

}  // namespace

absl::StatusOr<std::string> NewNcclGroupId() {
  ncclUniqueId id;
  TETHYS_RETURN_IF_ERROR(NcclStatus(ncclGetUniqueId(&id), nullptr, "ncclGetUniqueId"));
  return std::string(reinterpret_cast<const char*>(&id), sizeof(id));
}

absl::StatusOr<std::unique_ptr<StreamCommunicator>> JoinNcclGroup(const StreamGroup& group) {
  auto communicator = std::make_unique<NcclCommunicator>(group);
  const absl::Status joined = communicator->Join();
  if (joined.ok()) return communicator;
  TETHYS_RETURN_IF_ERROR(Annotate(communicator->Abort(), StatusText(joined)));
  return joined;
}

}  // namespace tethys::cuda
