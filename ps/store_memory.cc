#include "ps/store_memory.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace tethys {

absl::Status AllocateForStore(int server, int64_t elements, absl::Span<Arena* const> arenas,
                              absl::string_view contents) {
  const auto count = static_cast<int64_t>(arenas.size());
  constexpr int64_t kFloatsPerMebibyte = (1 << 20) / sizeof(float);
  // Linux may grant more memory than the machine has, and then kills the process that uses the memory.
  const auto fit_in = [&](int64_t bytes) {
    return elements <= bytes / static_cast<int64_t>(sizeof(float)) / count;
  };
  bool fits = fit_in(kUncheckedBytes) || fit_in(UsableMemory());
  for (Arena* arena : arenas) {
    if (!fits) break;
    absl::StatusOr<Arena> allocated = Arena::Allocate(elements);
    fits = allocated.ok();
    if (fits) *arena = *std::move(allocated);
  }
  if (fits) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "server ", server, " needs ", count, " times ", elements / kFloatsPerMebibyte, " MiB of memory (",
      contents, "), and this host has ", UsableMemory() >> 20,
      " MiB in all: share the parameters among more servers (strategy.parameter_server.servers) on "
      "more hosts, or take a smaller model"));
}

}  // namespace tethys
