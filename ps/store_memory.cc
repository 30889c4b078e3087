#include "ps/store_memory.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/control_group.h"

namespace tethys {

absl::Status AllocateForStore(int server, int64_t elements, absl::Span<Arena* const> arenas,
                              absl::string_view contents) {
  const int64_t installed = WithinGroup(InstalledMemory());
  const auto count = static_cast<int64_t>(arenas.size());
  constexpr int64_t kFloatsPerMebibyte = (1 << 20) / sizeof(float);
  // Linux may grant more memory than the machine has, and then kills the process that uses the memory.
  bool fits = elements <= installed / static_cast<int64_t>(sizeof(float)) / count;
  for (Arena* arena : arenas) {
    if (!fits) break;
    absl::StatusOr<Arena> allocated = Arena::Allocate(elements);
    fits = allocated.ok();
    if (fits) *arena = *std::move(allocated);
  }
  if (fits) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "server ", server, " needs ", count, " times ", elements / kFloatsPerMebibyte, " MiB of memory (",
      contents, "), and this host has ", installed >> 20,
      " MiB in all: share the parameters among more servers (strategy.parameter_server.servers) on "
      "more hosts, or take a smaller model"));
}

}  // namespace tethys
