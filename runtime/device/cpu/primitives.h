// Creates the primitives of the CPU device. Called by cpu_device.cc only, which has checked the arguments.
#ifndef TETHYS_RUNTIME_DEVICE_CPU_PRIMITIVES_H_
#define TETHYS_RUNTIME_DEVICE_CPU_PRIMITIVES_H_

#include <memory>
#include <vector>

#include "runtime/device/cpu/kernels.h"
#include "runtime/device/cpu/scratch.h"
#include "runtime/device/device.h"

namespace tethys::cpu {

// Activations on a CPU are float32.
inline const float* Floats(const void* activations) { return static_cast<const float*>(activations); }
inline float* Floats(void* activations) { return static_cast<float*>(activations); }

// The state that the primitives of a device share; it must outlive them.
struct Context {
  int threads = 1;
  const Kernels& kernels;
  const std::shared_ptr<Scratch> scratch = std::make_shared<Scratch>();
};

#define TETHYS_DECLARE_CREATE(Shape) Created<Shape> Create(const Shape& shape, const Context& context);
TETHYS_PRIMITIVES(TETHYS_DECLARE_CREATE)
#undef TETHYS_DECLARE_CREATE

std::unique_ptr<InputConversionPrimitive> CreateInputConversion(int64_t count, const InputScaling& scaling,
                                                                const Kernels& kernels);
std::unique_ptr<UpdatePrimitive> CreateUpdate(const UpdateRule& rule, std::vector<UpdateRegion> regions,
                                              int threads, const Kernels& kernels);
std::unique_ptr<ClipPrimitive> CreateClip(double limit, std::vector<UpdateRegion> regions,
                                          const Kernels& kernels);

}  // namespace tethys::cpu

#endif  // TETHYS_RUNTIME_DEVICE_CPU_PRIMITIVES_H_
