// Makes the thread treat denormals (magnitudes below 2^-126) as 0 during this object's lifetime. The momentum
// of a unit that no longer learns becomes denormal within a thousand steps, and an operation on a denormal
// takes a hundred cycles instead of one.
#ifndef TETHYS_RUNTIME_DEVICE_CPU_FLUSH_DENORMALS_H_
#define TETHYS_RUNTIME_DEVICE_CPU_FLUSH_DENORMALS_H_

#ifdef __x86_64__
#include <xmmintrin.h>
#endif

namespace tethys::cpu {

class FlushDenormals {
 public:
  FlushDenormals(const FlushDenormals&) = delete;
  FlushDenormals& operator=(const FlushDenormals&) = delete;

#ifdef __x86_64__
  FlushDenormals() : saved_(_mm_getcsr()) { _mm_setcsr(saved_ | kFlushResults | kFlushOperands); }
  ~FlushDenormals() { _mm_setcsr(saved_); }

 private:
  static constexpr unsigned int kFlushResults = 0x8000;
  static constexpr unsigned int kFlushOperands = 0x0040;
  const unsigned int saved_;
#else
  FlushDenormals() {}
  ~FlushDenormals() {}
#endif
};

}  // namespace tethys::cpu

#endif  // TETHYS_RUNTIME_DEVICE_CPU_FLUSH_DENORMALS_H_
