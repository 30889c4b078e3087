// The protocol of a parameter stream: method names, channel arguments, and the format of messages.
//
// A message is one ByteBuffer: a frame header (runtime/tensor/frame.h, 104 bytes), then the payload, if any.
// A worker sends kPush and kPull. A server answers with kParameters: its base_version is the version of the
// sent parameters, its staleness the staleness of the answered push. If workers pull before each step, the
// answer to a push has no payload. Where updates depend on norms, a worker also sends kNorm, kMeasure and
// kCommit, which are answered by frames of the same kind (parameter_store_norms.cc). Another server sends
// kCopy, which is answered by kCopy (shard_copies.h). Errors end the stream with a gRPC status.
#ifndef TETHYS_PS_DATA_STREAM_H_
#define TETHYS_PS_DATA_STREAM_H_

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/channel_arguments.h>
#include <grpcpp/support/slice.h>

#include <functional>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "runtime/base/clock.h"
#include "runtime/tensor/frame.h"

namespace tethys {

// Unary; takes an empty message, returns a serialized proto::Challenge. Does not block; safe to retry.
inline constexpr char kGetChallengeMethod[] = "/tethys.ParameterServer/GetChallenge";
// Bidirectional stream, opened with a proto::Handshake in the metadata and kept open until the worker ends. A
// worker's new stream replaces its old one. Errors: UNAUTHENTICATED and FAILED_PRECONDITION (handshake or
// frame refused), UNAVAILABLE (not serving yet), INVALID_ARGUMENT and OUT_OF_RANGE (invalid frame).
inline constexpr char kStreamMethod[] = "/tethys.ParameterServer/Stream";

// The largest message that either end accepts; a job's message_bytes is limited to half of it. gRPC's default
// is 4 MiB.
constexpr int64_t kMaxMessageBytes = int64_t{64} << 20;

// Arguments of every channel to a parameter server: the limit above, keep-alive probes
// (runtime/cluster/keep_alive.h), no proxy, and no sharing of connections between channels, so that an
// earlier channel's back-off does not delay a reconnect.
grpc::ChannelArguments DataChannelArguments();

// Makes malloc keep 8 MiB of freed memory. Call it once, in the main function of a process that exchanges
// messages, before it creates threads. gRPC allocates the memory of every message anew. With glibc's
// defaults, freed memory returns to the kernel between messages, and a round trip of 1 MiB takes 1.3 times as
// long (measured). No-op with another C library.
void KeepMessageMemory();

// The tag of an operation on a gRPC completion queue. It holds the function to call when the operation is
// done, and must outlive the operation.
class Completion {
 public:
  explicit Completion(std::function<void(bool ok)> function) : function_(std::move(function)) {}
  void Run(bool ok) { function_(ok); }

 private:
  const std::function<void(bool)> function_;
};

// A received message: the frame, and its payload in gRPC's memory.
class ReceivedMessage {
 public:
  // Decodes the header and checks that the payload has the announced length. Errors: InvalidArgument,
  // DataLoss.
  absl::Status Parse(const grpc::ByteBuffer& buffer);
  const Frame& frame() const { return frame_; }
  absl::Span<const absl::string_view> payload() const { return payload_; }
  // Gives the message's memory back to gRPC.
  void Clear() {
    payload_.clear();
    slices_.clear();
  }

 private:
  Frame frame_;
  std::vector<grpc::Slice> slices_;
  std::vector<absl::string_view> payload_;
};

// Makes a message of a header and a payload, which may be empty, without a copy.
grpc::ByteBuffer MakeMessage(const grpc::Slice& header, const grpc::Slice& payload);

}  // namespace tethys

#endif  // TETHYS_PS_DATA_STREAM_H_
