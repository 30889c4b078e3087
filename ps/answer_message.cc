#include "ps/answer_message.h"

#include "absl/strings/string_view.h"
#include "ps/data_stream.h"
#include "runtime/base/crc32c.h"

namespace tethys {
namespace {

grpc::ByteBuffer MessageOf(const Frame& frame, const grpc::Slice& payload) {
  char header[kFrameBytes];
  frame.EncodeTo(header);
  return MakeMessage(grpc::Slice(header, kFrameBytes), payload);
}

}  // namespace

grpc::ByteBuffer AnswerMessage(const ParameterReply& reply, const std::shared_ptr<ServedStore>& served,
                               uint32_t generation, bool checksums) {
  Frame frame = AnswerFrame(reply, generation);
  float* values = const_cast<float*>(served->store->parameters()) + reply.local.begin;
  const size_t bytes = frame.payload_bytes;
  if (checksums) frame.payload_checksum = Crc32c({reinterpret_cast<const char*>(values), bytes});
  // In lock step, parameters do not change until every worker has its replies (ParameterStore's invariant
  // 3), so gRPC sends the parameters from the store's memory. (An answer that is still being sent when the
  // group is halted may change, but no worker reads it.) Otherwise, parameters may change while gRPC still
  // sends, so they are copied (50 us for 1 MiB). A second buffer would cost the same copy, since updates are
  // made in place.
  if (!served->store->lock_step()) return MessageOf(frame, grpc::Slice(values, bytes));
  const auto release = [](void* owner) { delete static_cast<std::shared_ptr<ServedStore>*>(owner); };
  return MessageOf(frame, grpc::Slice(values, bytes, release, new std::shared_ptr<ServedStore>(served)));
}

grpc::ByteBuffer AnswerMessage(const NormReply& reply, uint32_t generation, bool checksums) {
  Frame frame = AnswerFrame(reply, generation);
  const absl::string_view payload(reinterpret_cast<const char*>(reply.values.data()), frame.payload_bytes);
  if (checksums) frame.payload_checksum = Crc32c(payload);
  return MessageOf(frame, grpc::Slice(payload.data(), payload.size()));
}

grpc::ByteBuffer AnswerMessage(const Frame& frame) { return MessageOf(frame, grpc::Slice()); }

}  // namespace tethys
