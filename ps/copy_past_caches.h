// Copies floats to memory that will hardly ever be read. On x86 the copy is written past the caches, so that
// it evicts nothing from the caches, and the destination is not read before it is written. Pure; any thread.
#ifndef TETHYS_PS_COPY_PAST_CACHES_H_
#define TETHYS_PS_COPY_PAST_CACHES_H_

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include <algorithm>
#include <cstdint>

namespace tethys {

// Copies from[0, count) to to[0, count); the two must not overlap. The calling thread may read the copy at
// once. Another thread may read the copy after any synchronisation with the calling thread.
inline void CopyPastCaches(const float* from, int64_t count, float* to) {
#ifdef __SSE2__
  constexpr int64_t kFloats = sizeof(__m128) / sizeof(float);
  const auto misplaced = static_cast<int64_t>(reinterpret_cast<uintptr_t>(to) / sizeof(float)) % kFloats;
  const int64_t head = std::min(count, (kFloats - misplaced) % kFloats);
  std::copy_n(from, head, to);
  int64_t i = head;
  for (; i + kFloats <= count; i += kFloats) _mm_stream_ps(to + i, _mm_loadu_ps(from + i));
  std::copy_n(from + i, count - i, to + i);
  _mm_sfence();
#else
  std::copy_n(from, count, to);
#endif
}

}  // namespace tethys

#endif  // TETHYS_PS_COPY_PAST_CACHES_H_
