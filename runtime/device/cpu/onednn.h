// Hides the API differences between versions 2 and 3 of oneDNN: version 2 creates a primitive from a separate
// description of the operation, version 3 directly from the operation's arguments. Debian 12 has version 2,
// Debian 13 version 3.
//
// Both functions throw dnnl::error. `operation` holds the arguments of the primitive's kind in oneDNN's
// order: algorithm, layouts of the operands, strides and so on.
#ifndef TETHYS_RUNTIME_DEVICE_CPU_ONEDNN_H_
#define TETHYS_RUNTIME_DEVICE_CPU_ONEDNN_H_

#include <oneapi/dnnl/dnnl_version.h>

#include <oneapi/dnnl/dnnl.hpp>

#include "runtime/base/status.h"

namespace tethys::cpu {

// The code of the error that a failure of oneDNN becomes.
inline absl::StatusCode OnednnCode(dnnl_status_t status) {
  return status == dnnl_out_of_memory ? absl::StatusCode::kResourceExhausted : absl::StatusCode::kInternal;
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

}  // namespace tethys::cpu

#endif  // TETHYS_RUNTIME_DEVICE_CPU_ONEDNN_H_
