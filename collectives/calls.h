// Checks and descriptions of collective calls that all communicators have in common.
#ifndef TETHYS_COLLECTIVES_CALLS_H_
#define TETHYS_COLLECTIVES_CALLS_H_

#include <cstdint>

#include "absl/types/span.h"
#include "runtime/base/random.h"
#include "runtime/base/status.h"
#include "runtime/tensor/variable.h"

namespace tethys {

// InvalidArgument: there is not one part for each rank, or a part lies outside of the `bytes` of the data.
inline absl::Status CheckParts(absl::Span<const Range> parts, int world, int64_t bytes) {
  if (static_cast<int>(parts.size()) != world) {
    return absl::InvalidArgumentError(
        absl::StrCat(parts.size(), " parts were given, but the world has ", world, " ranks"));
  }
  for (int rank = 0; rank < world; ++rank) {
    const Range& part = parts[rank];
    if (part.begin >= 0 && part.count >= 0 && part.begin <= bytes && part.count <= bytes - part.begin)
      continue;
    return absl::InvalidArgumentError(absl::StrCat("the part of rank ", rank, ", ", part.count,
                                                   " bytes from byte ", part.begin, " on, is not within the ",
                                                   bytes, " bytes of data"));
  }
  return absl::OkStatus();
}

// A hash of `parts`. Ranks compare their hashes to detect calls with different parts.
inline uint32_t HashOf(absl::Span<const Range> parts) {
  return static_cast<uint32_t>(Fnv1a(parts.data(), parts.size() * sizeof(Range)));
}

// InvalidArgument: `peer` is this rank, or no rank of the world.
inline absl::Status CheckPeer(int peer, int rank, int world) {
  if (peer >= 0 && peer < world && peer != rank) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("rank ", rank, " cannot exchange a message with rank ", peer, " in a world of ", world));
}

}  // namespace tethys

#endif  // TETHYS_COLLECTIVES_CALLS_H_
