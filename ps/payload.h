// Copies or adds received gradients into memory and finds NaN and infinity in the same pass. Pure,
// thread-safe.
#ifndef TETHYS_PS_PAYLOAD_H_
#define TETHYS_PS_PAYLOAD_H_

#include <cstdint>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "runtime/tensor/frame.h"

namespace tethys {

// Payload bytes in the transport's memory: pieces in order, of any length and alignment.
using PayloadPieces = absl::Span<const absl::string_view>;

int64_t PayloadBytes(PayloadPieces pieces);

// DataLoss if the pieces do not match the checksum of `frame`. OK if the frame has no checksum.
absl::Status CheckPayload(const Frame& frame, PayloadPieces pieces);

// out[i] = payload[i] (CopyPayload) or out[i] += payload[i] (AddPayload) for `count` float32 values, where
// count = PayloadBytes(pieces) / 4. False if a resulting value of `out` is not finite.
bool CopyPayload(PayloadPieces pieces, int64_t count, float* out);
bool AddPayload(PayloadPieces pieces, int64_t count, float* out);

// out[i] += values[i]; false if a sum is not finite.
bool AddValues(const float* values, int64_t count, float* out);

// Returns SumOfSquaresInLanes (runtime/device/sum_of_squares.h) of `count` values, which must be finite.
double SumOfSquares(const float* values, int64_t count);

}  // namespace tethys

#endif  // TETHYS_PS_PAYLOAD_H_
