// Zip archives as NumPy writes them (.npz): members that are stored or deflated, also larger than 4 GiB.
// Blocks on reads of the file.
#ifndef TETHYS_RUNTIME_DATA_ZIP_ARCHIVE_H_
#define TETHYS_RUNTIME_DATA_ZIP_ARCHIVE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/data/byte_source.h"

namespace tethys {

// A member as the central directory describes it. ZipArchive::Open refuses members that are encrypted, or
// that are neither stored nor deflated.
struct ZipMember {
  std::string name;
  bool encrypted = false;
  int method = 0;  // 0: stored, 8: deflated.
  bool deflated() const { return method == 8; }
  uint32_t crc = 0;
  int64_t packed_bytes = 0;
  int64_t bytes = 0;
  int64_t header = 0;  // The position of the member's local header.
};

// Immutable; thread-safe.
class ZipArchive {
 public:
  // Reads the central directory. InvalidArgument: no zip archive, an archive of several files, or a directory
  // of more than 64 MiB. DataLoss: the archive is truncated or damaged.
  static absl::StatusOr<ZipArchive> Open(std::shared_ptr<const ByteSource> file);

  const std::string& name() const { return file_->name(); }
  const std::vector<ZipMember>& members() const { return members_; }

  // The contents of a member of this archive, named ARCHIVE#MEMBER. A stored member is a window of the file;
  // a deflated member is inflated into memory, and its checksum is verified. Memory grows with the inflated
  // bytes, never beyond the size in the directory. InvalidArgument: the member is encrypted, or neither
  // stored nor deflated. DataLoss: the member is damaged.
  absl::StatusOr<std::shared_ptr<const ByteSource>> Open(const ZipMember& member) const;
  // As Open, but inflates only the first `most` bytes of a deflated member, without checking the checksum;
  // reading further bytes is an internal error. Size and name are those of the whole member.
  absl::StatusOr<std::shared_ptr<const ByteSource>> OpenHead(const ZipMember& member, int64_t most) const;

 private:
  ZipArchive(std::shared_ptr<const ByteSource> file, std::vector<ZipMember> members)
      : file_(std::move(file)), members_(std::move(members)) {}
  // The position of the packed bytes, which follow the local header.
  absl::StatusOr<int64_t> FindContent(const ZipMember& member, const std::string& full_name) const;

  std::shared_ptr<const ByteSource> file_;
  std::vector<ZipMember> members_;
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_DATA_ZIP_ARCHIVE_H_
