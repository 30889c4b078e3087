// Maps a file into memory, so that a reader copies the file's bytes without system calls. If a mapped page is
// lost, because the file was truncated or the disk cannot read the page, an access to the page raises SIGBUS,
// which would end the process. So the first mapping installs a handler of SIGBUS. For an address within a
// mapping, the handler puts a page of zeros in place of the lost page, and the read goes on. For any other
// address, the handler calls the SIGBUS handler that was installed before. A reader must therefore either
// verify a checksum of the bytes after each copy, or verify the bytes once and call lost() after each copy.
#ifndef TETHYS_RUNTIME_BASE_MAPPED_FILE_H_
#define TETHYS_RUNTIME_BASE_MAPPED_FILE_H_

#include <cstdint>

#include "absl/strings/string_view.h"
#include "runtime/base/status.h"

namespace tethys {

// Immutable and thread-safe. Move-only.
class MappedFile {
 public:
  // Maps the first `size` bytes of the open file `fd`, which may then be closed. Requires size > 0.
  // ResourceExhausted: the process already has kMostMappings mappings. Other errors: the file cannot be
  // mapped.
  static absl::StatusOr<MappedFile> Map(int fd, int64_t size);
  static constexpr int kMostMappings = 64;

  MappedFile() = default;
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&&) = delete;

  bool valid() const { return data_ != nullptr; }
  absl::string_view bytes() const { return {data_, static_cast<size_t>(size_)}; }
  // Enters all pages of the file into the page tables. Without this call, the first reader of each page waits
  // until that page is entered. Has no effect before Linux 5.14, nor if the file cannot be read.
  void Populate() const;
  // True if a page was lost since the file was mapped. As long as lost() returns false, all earlier copies
  // are valid.
  bool lost() const;

 private:
  const char* data_ = nullptr;
  int64_t size_ = 0;
  int slot_ = -1;  // The index of this mapping's slot in the table of mappings.
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_BASE_MAPPED_FILE_H_
