#include "ps/data_stream.h"

#include <grpc/grpc.h>
#include <malloc.h>

#include <algorithm>
#include <cstring>

#include "ps/payload.h"
#include "runtime/cluster/keep_alive.h"

namespace tethys {

grpc::ChannelArguments DataChannelArguments() {
  grpc::ChannelArguments arguments;
  KeepAlive(arguments);
  arguments.SetMaxReceiveMessageSize(static_cast<int>(kMaxMessageBytes));
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  return arguments;
}

void KeepMessageMemory() {
#ifdef __GLIBC__
  // Sets how much free memory at the end of the heap is kept, and the size from which an allocation gets its
  // own pages.
  constexpr int kKeptBytes = 8 << 20;
  mallopt(M_TRIM_THRESHOLD, kKeptBytes);
  mallopt(M_MMAP_THRESHOLD, kKeptBytes);
#endif
}

absl::Status ReceivedMessage::Parse(const grpc::ByteBuffer& buffer) {
  payload_.clear();
  if (!buffer.Dump(&slices_).ok()) return absl::InternalError("gRPC could not read a received message");
  char header[kFrameBytes];
  int64_t header_bytes = 0;
  for (const grpc::Slice& slice : slices_) {
    absl::string_view bytes(reinterpret_cast<const char*>(slice.begin()), slice.size());
    const int64_t missing = std::min<int64_t>(kFrameBytes - header_bytes, bytes.size());
    std::memcpy(header + header_bytes, bytes.data(), missing);
    header_bytes += missing;
    bytes.remove_prefix(missing);
    if (!bytes.empty()) payload_.push_back(bytes);
  }
  TETHYS_ASSIGN_OR_RETURN(frame_, Frame::Decode(header, header_bytes));
  if (PayloadBytes(payload_) != static_cast<int64_t>(frame_.payload_bytes)) {
    return absl::InvalidArgumentError(absl::StrCat(FrameText(frame_), ": announces ", frame_.payload_bytes,
                                                   " bytes and carries ", PayloadBytes(payload_)));
  }
  return absl::OkStatus();
}

grpc::ByteBuffer MakeMessage(const grpc::Slice& header, const grpc::Slice& payload) {
  const grpc::Slice slices[] = {header, payload};
  return grpc::ByteBuffer(slices, payload.size() == 0 ? 1 : 2);
}

}  // namespace tethys
