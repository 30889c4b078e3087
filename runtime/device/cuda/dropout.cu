// Dropout: kernel and primitive.
#include "runtime/base/philox.h"
#include "runtime/base/random.h"
#include "runtime/device/cuda/cuda_status.h"
#include "runtime/device/cuda/elements.h"
#include "runtime/device/cuda/grid.h"
#include "runtime/device/cuda/launch.h"
#include "runtime/device/cuda/primitives.h"
#include "runtime/device/cuda/stream.h"

namespace tethys::cuda {
namespace {

// One thread per Philox block of four elements; the first and the last thread may write fewer.
template <typename T>
__global__ void DropKernel(DropoutShape shape, PhiloxKey key, const uint64_t* first_row, const T* in,
                           T* out) {
  const int64_t count = shape.rows * shape.elements;
  const uint64_t first = *first_row * static_cast<uint64_t>(shape.elements);
  const auto before = static_cast<int64_t>(first % 4);  // Elements of the first block that precede out[0].
  const float scale = 1 / (1 - shape.rate);
  for (int64_t i = FirstIndex(); i * 4 < before + count; i += GridSize()) {
    const PhiloxBlock block = Philox4x32(key, first / 4 + i, shape.layer);
    for (int word = 0; word < 4; ++word) {
      const int64_t at = i * 4 + word - before;
      if (at < 0 || at >= count) continue;
      out[at] = Round<T>(ToUnitFloat(block.words[word]) >= shape.rate ? Widen(in[at]) * scale : 0.0f);
    }
  }
}

// `key` is RandomKey(shape.seed, RandomPurpose::kDropout).
cudaError_t Drop(cudaStream_t stream, ElementType type, const DropoutShape& shape, PhiloxKey key,
                 const uint64_t* first_row, const void* in, void* out) {
  // One thread for every four elements, and one for a block that begins before the first element.
  const unsigned blocks = BlocksFor(Divide(shape.rows * shape.elements, 4) + 1);
  return ForType(type, [&](auto element) {
    using T = decltype(element);
    return Launch(DropKernel<T>, blocks, kThreads, stream, shape, key, first_row, static_cast<const T*>(in),
                  static_cast<T*>(out));
  });
}

class Dropout final : public DropoutPrimitive {
 public:
  Dropout(ElementType type, const DropoutShape& shape)
      : type_(type), shape_(shape), key_(RandomKey(shape.seed, RandomPurpose::kDropout)) {}

  absl::Status Run(Stream& stream, const uint64_t* first_row, const void* in, void* out) override {
    TETHYS_RETURN_IF_CUDA_ERROR(Drop(Handle(stream), type_, shape_, key_, first_row, in, out));
    return absl::OkStatus();
  }

 private:
  const ElementType type_;
  const DropoutShape shape_;
  const PhiloxKey key_;
};

}  // namespace

Created<DropoutShape> Create(const DropoutShape& shape, const Libraries& libraries) {
  return std::make_unique<Dropout>(libraries.activations, shape);
}

}  // namespace tethys::cuda
