// Creates the primitives of a device, which are its operations for one fixed shape each. Part of the contract
// in device.h. Every function returns InvalidArgument for a shape or parameter that has no meaning.
#ifndef TETHYS_RUNTIME_DEVICE_PRIMITIVE_FACTORY_H_
#define TETHYS_RUNTIME_DEVICE_PRIMITIVE_FACTORY_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/device/elementwise_primitives.h"
#include "runtime/device/image_primitives.h"
#include "runtime/device/loss_primitives.h"
#include "runtime/device/normalisation_primitive.h"
#include "runtime/device/primitives.h"
#include "runtime/tensor/batch.h"

namespace tethys {

// The table of primitives of layers and losses: ROW(Shape) for each shape that a primitive is made for. A
// shape names the class of its primitive (Shape::Primitive) and has a CheckShape, which the devices call. A
// new primitive needs a shape, a class and a row in a header of this folder and, in each back end, a file
// that defines Create for the shape. A back end without that file does not link.
#define TETHYS_PRIMITIVES(ROW)       \
  ROW(DenseShape)                    \
  TETHYS_IMAGE_PRIMITIVES(ROW)       \
  ROW(BatchNormalisationShape)       \
  TETHYS_ELEMENTWISE_PRIMITIVES(ROW) \
  TETHYS_LOSS_PRIMITIVES(ROW)

// A new primitive for a shape, or the error that says why the device has no such primitive.
template <typename Shape>
using Created = absl::StatusOr<std::unique_ptr<typename Shape::Primitive>>;

class PrimitiveFactory {
 public:
  virtual ~PrimitiveFactory() = default;

#define TETHYS_DECLARE_CREATE(Shape) virtual Created<Shape> Create(const Shape& shape) = 0;
  TETHYS_PRIMITIVES(TETHYS_DECLARE_CREATE)
#undef TETHYS_DECLARE_CREATE

  virtual absl::StatusOr<std::unique_ptr<InputConversionPrimitive>> CreateInputConversion(
      int64_t count, const InputScaling& scaling) = 0;
  // `regions` must not overlap.
  virtual absl::StatusOr<std::unique_ptr<UpdatePrimitive>> CreateUpdate(
      const UpdateRule& rule, std::vector<UpdateRegion> regions) = 0;
  // `limit` must be above 0.
  virtual absl::StatusOr<std::unique_ptr<ClipPrimitive>> CreateClip(double limit,
                                                                    std::vector<UpdateRegion> regions) = 0;
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_DEVICE_PRIMITIVE_FACTORY_H_
