// A library to be preloaded (LD_PRELOAD). The library prints a message on standard error if exit handlers and
// static destructors run. Tethys must end without running these handlers and destructors, because threads of
// other libraries may still use the objects that would be destroyed.
#include <unistd.h>

namespace {

struct ExitWitness {
  ~ExitWitness() {
    constexpr char kText[] = "exit handlers have run\n";
    [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, kText, sizeof(kText) - 1);
  }
} witness;

}  // namespace
