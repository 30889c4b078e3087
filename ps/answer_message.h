// The messages in which a parameter server answers workers and other servers. Used by the server's loop
// thread.
#ifndef TETHYS_PS_ANSWER_MESSAGE_H_
#define TETHYS_PS_ANSWER_MESSAGE_H_

#include <grpcpp/support/byte_buffer.h>

#include <cstdint>
#include <memory>

#include "ps/served_store.h"
#include "ps/store_actions.h"
#include "runtime/tensor/frame.h"

namespace tethys {

// `generation`: of the workers. `checksums`: the payload gets a checksum.
grpc::ByteBuffer AnswerMessage(const ParameterReply& reply, const std::shared_ptr<ServedStore>& served,
                               uint32_t generation, bool checksums);
grpc::ByteBuffer AnswerMessage(const NormReply& reply, uint32_t generation, bool checksums);
// The answer to a copy (ps/shard_copies.h).
grpc::ByteBuffer AnswerMessage(const Frame& frame);

}  // namespace tethys

#endif  // TETHYS_PS_ANSWER_MESSAGE_H_
