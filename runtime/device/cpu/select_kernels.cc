#include "runtime/device/cpu/kernels.h"

namespace tethys::cpu {

extern const Kernels kBaselineKernels;

#ifdef __x86_64__

extern const Kernels kAvx2Kernels;
extern const Kernels kAvx512Kernels;

const Kernels& SelectKernels() {
  if (__builtin_cpu_supports("avx512f")) return kAvx512Kernels;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return kAvx2Kernels;
  return kBaselineKernels;
}

#else

const Kernels& SelectKernels() { return kBaselineKernels; }

#endif

}  // namespace tethys::cpu
