// The rules both ends of a parameter stream keep: method names, channel arguments, and a message's form.
//
// A message is one ByteBuffer: a frame header (runtime/tensor/frame.h, 104 bytes), then the payload, a slice
// of a live arena. Worker to server: kPush, kPull. Server to worker: kParameters, whose `base version` is the
// version sent and whose `flags` hold the staleness of the push it answers; where workers pull before each
// step, the answer to a push has no payload. Errors end the stream with a gRPC status.
#ifndef TETHYS_PS_DATA_STREAM_H_
#define TETHYS_PS_DATA_STREAM_H_

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/channel_arguments.h>
#include <grpcpp/support/slice.h>

#include <functional>
#include <utility>
#include <vector>

#include "runtime/base/clock.h"
#include "runtime/tensor/frame.h"

namespace tethys {

// Unary, takes nothing, returns a serialized proto::Challenge. Does not block; safe to retry.
inline constexpr char kGetChallengeMethod[] = "/tethys.ParameterServer/GetChallenge";
// Bidirectional; opened with a proto::Handshake in the metadata; lives as long as the worker. A worker's
// newer stream takes the place of its older one. Errors: UNAUTHENTICATED, FAILED_PRECONDITION (handshake;
// ParameterStore's refusals), UNAVAILABLE (not serving yet), INVALID_ARGUMENT and OUT_OF_RANGE (frames).
inline constexpr char kStreamMethod[] = "/tethys.ParameterServer/Stream";

// The largest message either end receives; job files are held to half of it. gRPC's own default is 4 MiB.
constexpr int64_t kMaxMessageBytes = int64_t{64} << 20;

// For every channel to a parameter server: the limit above, probes (runtime/cluster/keep_alive.h), no sharing
// of connections between channels (so that a reconnect is not held up by an earlier one's back-off), no
// proxy.
grpc::ChannelArguments DataChannelArguments();

// To be called once, by the main function of a process that exchanges messages, before it makes threads:
// tells malloc to keep 8 MiB of what is freed. gRPC allocates the memory of every message anew, and by
// default glibc gives it back to the kernel in between, page by page: measured, 1 MiB up and down then
// takes 1.3 times as long. Does nothing with another C library.
void KeepMessageMemory();

// The tag of an operation on a completion queue: what to do when it is done. Lives as long as the operation.
class Completion {
 public:
  explicit Completion(std::function<void(bool ok)> function) : function_(std::move(function)) {}
  void Run(bool ok) { function_(ok); }

 private:
  const std::function<void(bool)> function_;
};

// A received message: the frame and its payload as gRPC holds it.
class ReceivedMessage {
 public:
  // Decodes the header and checks that the payload has the announced length. InvalidArgument, DataLoss.
  absl::Status Parse(const grpc::ByteBuffer& buffer);
  const Frame& frame() const { return frame_; }
  absl::Span<const absl::string_view> payload() const { return payload_; }
  // Gives the memory back to gRPC.
  void Clear() {
    payload_.clear();
    slices_.clear();
  }

 private:
  Frame frame_;
  std::vector<grpc::Slice> slices_;
  std::vector<absl::string_view> payload_;
};

// Header and payload (empty: none) as one message, without a copy.
grpc::ByteBuffer MakeMessage(const grpc::Slice& header, const grpc::Slice& payload);

}  // namespace tethys

#endif  // TETHYS_PS_DATA_STREAM_H_
