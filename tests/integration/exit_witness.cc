// A library to be preloaded (LD_PRELOAD). It prints on standard error when exit handlers and static
// destructors run: at that moment threads of other libraries may still use the objects that the handlers and
// destructors destroy.
#include <unistd.h>

namespace {

struct ExitWitness {
  ~ExitWitness() {
    constexpr char kText[] = "exit handlers have run\n";
    [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, kText, sizeof(kText) - 1);
  }
} witness;

}  // namespace
