#include "ps/store_actions.h"

#include <algorithm>

namespace tethys {

Frame AnswerFrame(const ParameterReply& reply, uint32_t generation) {
  Frame frame;
  frame.kind = FrameKind::kParameters;
  frame.staleness = static_cast<uint32_t>(std::min<int64_t>(reply.staleness, UINT32_MAX));
  frame.sum_square = reply.sum_square;
  frame.generation = generation;
  frame.rank = static_cast<uint32_t>(reply.worker);
  frame.step = reply.step;
  frame.sequence = reply.sequence;
  frame.range_begin = static_cast<uint64_t>(reply.arena.begin);
  frame.range_count = static_cast<uint64_t>(reply.arena.count);
  frame.base_version = static_cast<uint64_t>(reply.version);
  frame.payload_bytes = reply.with_values ? frame.range_count * sizeof(float) : 0;
  return frame;
}

Frame AnswerFrame(const NormReply& reply, uint32_t generation) {
  Frame frame;
  frame.kind = reply.kind;
  frame.dtype = FrameDType::kFloat64;
  frame.generation = generation;
  frame.rank = static_cast<uint32_t>(reply.worker);
  frame.step = reply.step;
  frame.sequence = reply.sequence;
  frame.range_count = static_cast<uint64_t>(reply.count);
  frame.payload_bytes = reply.values.size() * sizeof(double);
  return frame;
}

}  // namespace tethys
