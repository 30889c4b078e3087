// Hides the API differences between versions 2 and 3 of oneDNN: version 2 creates a primitive from a separate
// description of the operation, version 3 directly from the operation's arguments. Debian 12 has version 2,
// Debian 13 version 3.
//
// The Describe functions throw dnnl::error. `operation` are the arguments that oneDNN takes for this kind of
// primitive, in oneDNN's order: algorithm, layouts of the operands, strides and so on.
#ifndef TETHYS_RUNTIME_DEVICE_CPU_ONEDNN_H_
#define TETHYS_RUNTIME_DEVICE_CPU_ONEDNN_H_

#include <oneapi/dnnl/dnnl_version.h>

#include <oneapi/dnnl/dnnl.hpp>
#include <optional>

#include "runtime/base/status.h"

namespace tethys::cpu {

// The status code for a failure of oneDNN. On CPUs, version 3 fails with a runtime error if no memory is left
// for the machine code that oneDNN generates at a product's first execution.
inline absl::StatusCode OnednnCode(dnnl_status_t status) {
  const bool no_memory = status == dnnl_out_of_memory || status == dnnl_runtime_error;
  return no_memory ? absl::StatusCode::kResourceExhausted : absl::StatusCode::kInternal;
}

template <typename Primitive, typename... Operation>
typename Primitive::primitive_desc DescribeForward(const dnnl::engine& engine,
                                                   const dnnl::primitive_attr& attributes,
                                                   const Operation&... operation) {
#if DNNL_VERSION_MAJOR >= 3
  return {engine, operation..., attributes};
#else
  return {typename Primitive::desc(operation...), attributes, engine};
#endif
}

// `forward` describes the forward operation whose gradient `Primitive` computes.
template <typename Primitive, typename Forward, typename... Operation>
typename Primitive::primitive_desc DescribeBackward(const dnnl::engine& engine,
                                                    const dnnl::primitive_attr& attributes,
                                                    const Forward& forward, const Operation&... operation) {
#if DNNL_VERSION_MAJOR >= 3
  return {engine, operation..., forward, attributes};
#else
  return {typename Primitive::desc(operation...), attributes, engine, forward};
#endif
}

// A layout of floats with blocks. The offset of an element is the sum of (index / block) * stride over the
// axes, plus the element's offset within the inner blocks. The last inner block is the innermost one.
struct BlockedLayout {
  dnnl::memory::dims axes, padded_axes, strides;
  dnnl::memory::dims inner_blocks, inner_axes;  // The size of each inner block, and the axis that it cuts.
};

// nullopt: the layout has no blocks, other elements than float32, or an offset.
inline std::optional<BlockedLayout> BlockedLayoutOf(const dnnl::memory::desc& layout) {
#if DNNL_VERSION_MAJOR >= 3
  if (layout.get_format_kind() != dnnl::memory::format_kind::blocked ||
      layout.get_data_type() != dnnl::memory::data_type::f32 || layout.get_submemory_offset() != 0) {
    return std::nullopt;
  }
  return BlockedLayout{layout.get_dims(), layout.get_padded_dims(), layout.get_strides(),
                       layout.get_inner_blks(), layout.get_inner_idxs()};
#else
  const dnnl_memory_desc_t& data = layout.data;
  if (data.format_kind != dnnl_blocked || data.data_type != dnnl_f32 || data.offset0 != 0)
    return std::nullopt;
  const dnnl_blocking_desc_t& order = data.format_desc.blocking;
  const auto dims = [](const dnnl_dim_t* values, int count) {
    return dnnl::memory::dims(values, values + count);
  };
  return BlockedLayout{dims(data.dims, data.ndims), dims(data.padded_dims, data.ndims),
                       dims(order.strides, data.ndims), dims(order.inner_blks, order.inner_nblks),
                       dims(order.inner_idxs, order.inner_nblks)};
#endif
}

}  // namespace tethys::cpu

#endif  // TETHYS_RUNTIME_DEVICE_CPU_ONEDNN_H_
