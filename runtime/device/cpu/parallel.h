// Divides loops among the threads of oneDNN's OpenMP runtime, so that one team of threads runs both our loops
// and oneDNN's: a team of our own would wait for processors that oneDNN's idle team still occupies.
#ifndef TETHYS_RUNTIME_DEVICE_CPU_PARALLEL_H_
#define TETHYS_RUNTIME_DEVICE_CPU_PARALLEL_H_

#include <algorithm>
#include <cstdint>

#include "runtime/device/cpu/flush_denormals.h"

// Functions of the OpenMP runtime that oneDNN is built on; compilers call GOMP_parallel for `#pragma omp
// parallel`. Including <omp.h> would bind us to one compiler's runtime.
extern "C" {
void GOMP_parallel(void (*function)(void* data), void* data, unsigned threads, unsigned flags);
int omp_get_thread_num();
int omp_get_num_threads();
// The number of threads with which the next calls of oneDNN on this thread compute.
void omp_set_num_threads(int threads);
}

namespace tethys::cpu {

// The least number of elements for which a further thread saves time: starting a team takes some
// microseconds.
constexpr int64_t kLeastElements = 1 << 14;

// The number of elements in each part of [0, count) except the last part: at least `least`, and so many that
// there are at most `threads` parts.
inline int64_t PartSize(int threads, int64_t count, int64_t least) {
  return std::max<int64_t>({least, (count + threads - 1) / threads, 1});
}

// Cuts [0, count) into parts of PartSize elements, and calls work(begin, end) for each part on the threads of
// the OpenMP runtime. A single part runs on the calling thread. The parts do not depend on the number of
// threads that the runtime provides. Denormals are flushed. `work` must not throw.
template <typename Work>
void ForEachPart(int threads, int64_t count, int64_t least, const Work& work) {
  struct Call {
    const Work& work;
    int64_t count, size;

    void Run(int64_t first, int64_t step) const {
      const FlushDenormals flush;
      for (int64_t begin = first * size; begin < count; begin += step * size) {
        work(begin, std::min(count, begin + size));
      }
    }
  };
  const int64_t size = PartSize(threads, count, least);
  Call call = {work, count, size};
  if (size >= count) return call.Run(0, 1);
  const auto run = [](void* data) {
    static_cast<const Call*>(data)->Run(omp_get_thread_num(), omp_get_num_threads());
  };
  GOMP_parallel(run, &call, static_cast<unsigned>((count + size - 1) / size), 0);
}

}  // namespace tethys::cpu

#endif  // TETHYS_RUNTIME_DEVICE_CPU_PARALLEL_H_
