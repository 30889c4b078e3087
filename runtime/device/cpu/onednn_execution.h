// Executions of oneDNN primitives whose arguments are prepared once. The functions throw dnnl::error.
#ifndef TETHYS_RUNTIME_DEVICE_CPU_ONEDNN_EXECUTION_H_
#define TETHYS_RUNTIME_DEVICE_CPU_ONEDNN_EXECUTION_H_

#include <cstdint>
#include <cstring>
#include <oneapi/dnnl/dnnl.hpp>
#include <utility>
#include <vector>

namespace tethys::cpu {

// A oneDNN primitive with its prepared arguments.
class Execution {
 public:
  Execution() = default;
  Execution(dnnl::primitive primitive, std::vector<std::pair<int, dnnl::memory>> arguments)
      : primitive_(std::move(primitive)), memories_(std::move(arguments)) {
    for (const auto& [index, operand] : memories_) arguments_.push_back({index, operand.get()});
  }
  // Calls the C interface, because the C++ interface builds a map of the arguments on every call.
  void Run(const dnnl::stream& stream) const {
    dnnl::error::wrap_c_api(dnnl_primitive_execute(primitive_.get(), stream.get(),
                                                   static_cast<int>(arguments_.size()), arguments_.data()),
                            "an execution failed");
  }

 private:
  dnnl::primitive primitive_;
  std::vector<std::pair<int, dnnl::memory>> memories_;
  std::vector<dnnl_exec_arg_t> arguments_;
};

// A oneDNN view of the caller's memory. Each Forward or Backward sets the view to the address of an argument.
class View {
 public:
  View() = default;
  View(const dnnl::memory::desc& layout, const dnnl::engine& engine) : memory_(layout, engine, nullptr) {}
  void Set(const void* data) const { memory_.set_data_handle(const_cast<void*>(data)); }
  const dnnl::memory& get() const { return memory_; }

 private:
  dnnl::memory memory_;
};

// The packed operands and scratch memory of one pass of a layer. They lie side by side in shared memory,
// which the pass uses only while it runs.
class PassMemory {
 public:
  // Adds memory of this layout. If the layout packs an operand of `elements` floats into a larger memory, for
  // example channels into multiples of eight, the rest is zero when the pass begins: primitives rely on these
  // zeros.
  dnnl::memory Add(const dnnl::memory::desc& layout, const dnnl::engine& engine, int64_t elements = 0) {
    constexpr int64_t kAlignment = 64;
    const auto bytes = static_cast<int64_t>(layout.get_size());
    const bool padded = elements > 0 && bytes > elements * static_cast<int64_t>(sizeof(float));
    parts_.push_back({dnnl::memory(layout, engine, nullptr), bytes_, padded ? bytes : 0});
    bytes_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
    return parts_.back().memory;
  }

  int64_t bytes() const { return bytes_; }

  // Places the memory of the pass at `base`, and zeros the parts that must be zero. Must be called before
  // each run of the pass.
  void Bind(char* base) {
    for (const Part& part : parts_) {
      if (base != base_) part.memory.set_data_handle(base + part.begin);
      std::memset(base + part.begin, 0, part.zeroed);
    }
    base_ = base;
  }

 private:
  struct Part {
    dnnl::memory memory;
    int64_t begin;
    int64_t zeroed;  // The number of bytes, from `begin` on, that Bind zeros.
  };
  std::vector<Part> parts_;
  int64_t bytes_ = 0;
  char* base_ = nullptr;
};

}  // namespace tethys::cpu

#endif  // TETHYS_RUNTIME_DEVICE_CPU_ONEDNN_EXECUTION_H_
