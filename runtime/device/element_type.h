// The types that the elements of arrays on a device can have.
#ifndef TETHYS_RUNTIME_DEVICE_ELEMENT_TYPE_H_
#define TETHYS_RUNTIME_DEVICE_ELEMENT_TYPE_H_

#include <cstdint>

namespace tethys {

enum class ElementType { kFloat32, kBfloat16 };

constexpr int64_t BytesOf(ElementType type) { return type == ElementType::kBfloat16 ? 2 : 4; }

}  // namespace tethys

#endif  // TETHYS_RUNTIME_DEVICE_ELEMENT_TYPE_H_
