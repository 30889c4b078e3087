#include "runtime/base/mapped_file.h"

#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <utility>

namespace tethys {
namespace {

// An entry of the table of mappings. The signal handler reads the table and can take no lock, so the entries
// consist of atomics: a slot is taken while its begin is not 0, and its range is valid while its end is not
// 0.
struct Slot {
  std::atomic<uintptr_t> begin{0}, end{0};
  std::atomic<bool> lost{false};
};
std::array<Slot, MappedFile::kMostMappings> slots;
struct sigaction earlier;
uintptr_t page_bytes = 4096;

// The slot of the mapping that contains the address; null if no mapping contains it.
Slot* SlotOf(uintptr_t address) {
  for (Slot& slot : slots) {
    if (address < slot.end.load() && address >= slot.begin.load()) return &slot;
  }
  return nullptr;
}

void OnLostPage(int signal, siginfo_t* info, void* context) {
  const int error = errno;
  const auto address = reinterpret_cast<uintptr_t>(info->si_addr);
  Slot* const slot = info->si_code > 0 ? SlotOf(address) : nullptr;
  if (slot != nullptr) {
    slot->lost = true;
    void* const page = reinterpret_cast<void*>(address / page_bytes * page_bytes);
    const void* const zeros =
        mmap(page, page_bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    errno = error;
    if (zeros != MAP_FAILED) return;
  }
  if ((earlier.sa_flags & SA_SIGINFO) != 0) return earlier.sa_sigaction(signal, info, context);
  if (earlier.sa_handler != SIG_DFL && earlier.sa_handler != SIG_IGN) return earlier.sa_handler(signal);
  // Restores the default action. If an instruction caused the signal, the instruction is repeated when the
  // handler returns, fails again, and the signal ends the process. If a process sent the signal, no
  // instruction is repeated, so the signal is raised here.
  std::signal(SIGBUS, SIG_DFL);
  if (info->si_code <= 0) std::raise(SIGBUS);
}

bool InstallHandler() {
  page_bytes = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  struct sigaction action = {};
  action.sa_sigaction = OnLostPage;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  return sigaction(SIGBUS, &action, &earlier) == 0;
}

// Takes a slot and returns its number; -1 if all slots are taken.
int TakeSlot(uintptr_t begin) {
  for (int i = 0; i < MappedFile::kMostMappings; ++i) {
    uintptr_t none = 0;
    if (slots[i].begin.compare_exchange_strong(none, begin)) return i;
  }
  return -1;
}

}  // namespace

absl::StatusOr<MappedFile> MappedFile::Map(int fd, int64_t size) {
  static const bool installed = InstallHandler();
  if (!installed) return absl::UnavailableError("cannot install a handler of SIGBUS");
  // Kernels before 6.7 refuse MAP_SHARED for a writable descriptor of memory that is sealed against writing.
  void* const data = mmap(nullptr, static_cast<size_t>(size), PROT_READ, MAP_PRIVATE, fd, 0);
  if (data == MAP_FAILED) return ErrnoStatus(errno, "cannot map a file");
  const auto begin = reinterpret_cast<uintptr_t>(data);
  const int slot = TakeSlot(begin);
  if (slot < 0) {
    munmap(data, static_cast<size_t>(size));
    return absl::ResourceExhaustedError(absl::StrCat("more than ", kMostMappings, " mapped files"));
  }
  slots[slot].lost = false;
  slots[slot].end = begin + static_cast<uintptr_t>(size);
  MappedFile file;
  file.data_ = static_cast<const char*>(data);
  file.size_ = size;
  file.slot_ = slot;
  return file;
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(other.size_), slot_(other.slot_) {}

void MappedFile::Populate() const {
#if defined(MADV_POPULATE_READ)
  if (data_ != nullptr) madvise(const_cast<char*>(data_), static_cast<size_t>(size_), MADV_POPULATE_READ);
#endif
}

bool MappedFile::lost() const {
  return data_ != nullptr && slots[slot_].lost.load(std::memory_order_relaxed);
}

MappedFile::~MappedFile() {
  if (data_ == nullptr) return;
  slots[slot_].end = 0;
  munmap(const_cast<char*>(data_), static_cast<size_t>(size_));
  slots[slot_].begin = 0;
}

}  // namespace tethys
