// A file's bytes as memory, which a reader copies without a call of the system. A mapped page that the file
// no longer holds, because it was cut, or that the disk cannot read, raises SIGBUS, which would end the
// process. The first mapping therefore installs a handler of SIGBUS: in the range of a mapping it puts a page
// of zeros in place of the lost page, and the read goes on; elsewhere it calls the handler that was installed
// before. So whoever reads must verify a checksum of the bytes that it has copied, or have verified them
// before and see afterwards that no page is lost.
#ifndef TETHYS_RUNTIME_BASE_MAPPED_FILE_H_
#define TETHYS_RUNTIME_BASE_MAPPED_FILE_H_

#include <cstdint>

#include "absl/strings/string_view.h"
#include "runtime/base/status.h"

namespace tethys {

// Immutable and thread-safe. Move-only.
class MappedFile {
 public:
  // Maps the first `size` bytes of the open file `fd`, which may be closed then. Requires size > 0.
  // ResourceExhausted: a process maps kMostMappings at a time. Other errors: the file cannot be mapped.
  static absl::StatusOr<MappedFile> Map(int fd, int64_t size);
  static constexpr int kMostMappings = 64;

  MappedFile() = default;
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&&) = delete;

  bool valid() const { return data_ != nullptr; }
  absl::string_view bytes() const { return {data_, static_cast<size_t>(size_)}; }
  // Whether a page has been lost since the file was mapped. What was copied before a false was not lost.
  bool lost() const;

 private:
  const char* data_ = nullptr;
  int64_t size_ = 0;
  int slot_ = -1;  // In the table of the handler.
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_BASE_MAPPED_FILE_H_
