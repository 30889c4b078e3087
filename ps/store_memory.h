// The memory of a parameter store.
#ifndef TETHYS_PS_STORE_MEMORY_H_
#define TETHYS_PS_STORE_MEMORY_H_

#include <cstdint>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "runtime/tensor/arena.h"

namespace tethys {

// Gives each arena `elements` floats. ResourceExhausted: this host, or the control group of this process, has
// too little memory for all arenas. The error names `server`, the sizes, the use of the memory (`contents`)
// and a remedy.
absl::Status AllocateForStore(int server, int64_t elements, absl::Span<Arena* const> arenas,
                              absl::string_view contents);

}  // namespace tethys

#endif  // TETHYS_PS_STORE_MEMORY_H_
