// Gradients as they come off the wire, moved into memory with one look at every value: the sum and the search
// for NaN and infinity share a pass. Pure, thread-safe.
#ifndef TETHYS_PS_PAYLOAD_H_
#define TETHYS_PS_PAYLOAD_H_

#include <cstdint>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "runtime/tensor/frame.h"

namespace tethys {

// Payload bytes as the transport holds them: pieces in order, of any length and alignment.
using PayloadPieces = absl::Span<const absl::string_view>;

int64_t PayloadBytes(PayloadPieces pieces);

// DataLoss when the pieces are not those that `frame` was sent with.
absl::Status CheckPayload(const Frame& frame, PayloadPieces pieces);

// out[i] = payload[i], or out[i] += payload[i], for `count` float32 values, PayloadBytes(pieces) / 4 of them.
// False when a value of `out` is then not finite.
bool CopyPayload(PayloadPieces pieces, int64_t count, float* out);
bool AddPayload(PayloadPieces pieces, int64_t count, float* out);

// out[i] += values[i]; false when a sum is not finite.
bool AddValues(const float* values, int64_t count, float* out);

}  // namespace tethys

#endif  // TETHYS_PS_PAYLOAD_H_
