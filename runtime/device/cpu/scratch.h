// Memory that primitives need only while they run. All primitives of a device share it, because a device runs
// one primitive at a time.
#ifndef TETHYS_RUNTIME_DEVICE_CPU_SCRATCH_H_
#define TETHYS_RUNTIME_DEVICE_CPU_SCRATCH_H_

#include <cstdint>

#include "absl/status/status.h"
#include "runtime/base/status.h"
#include "runtime/tensor/arena.h"

namespace tethys::cpu {

class Scratch {
 public:
  // Makes the memory at least this large, for a new primitive. Its contents are lost, and its address may
  // change. ResourceExhausted: too little memory; the memory stays unchanged.
  absl::Status Reserve(int64_t bytes) {
    const auto elements =
        (bytes + static_cast<int64_t>(sizeof(float)) - 1) / static_cast<int64_t>(sizeof(float));
    if (elements <= memory_.size()) return absl::OkStatus();
    TETHYS_ASSIGN_OR_RETURN(memory_, Arena::Allocate(elements));
    return absl::OkStatus();
  }

  // data() is aligned like an Arena, and valid until the next Reserve.
  int64_t bytes() const { return memory_.size() * static_cast<int64_t>(sizeof(float)); }
  char* data() { return reinterpret_cast<char*>(memory_.data()); }

 private:
  Arena memory_;
};

}  // namespace tethys::cpu

#endif  // TETHYS_RUNTIME_DEVICE_CPU_SCRATCH_H_
