#include "runtime/data/packed_pictures.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "runtime/base/crc32c.h"
#include "runtime/data/byte_source.h"
#include "runtime/data/host_cache.h"
#include "runtime/data/picture_files.h"

namespace tethys {
namespace {

using PathOf = absl::FunctionRef<std::string(int64_t)>;

constexpr int64_t kBlockBytes = 1 << 20;  // Bytes written at a time.

class Deadline {
 public:
  explicit Deadline(Nanoseconds patience) : end_(clock_.Now() + patience) {}
  Nanoseconds left() const { return std::max<Nanoseconds>(0, end_ - clock_.Now()); }
  bool passed() const { return left() == 0; }

 private:
  const MonotonicClock clock_;
  const Nanoseconds end_;
};

// The pictures that a pack contains.
struct Content {
  std::vector<int64_t> ends = {0};  // A 0, then the end of each picture in the file, in bytes.
  std::string key;

  size_t count() const { return ends.size() - 1; }
  int64_t sums_bytes() const { return static_cast<int64_t>(count() * sizeof(uint32_t)); }
  int64_t file_bytes() const { return ends.back() + sums_bytes() + static_cast<int64_t>(sizeof(uint32_t)); }
};

uint32_t SumOf(absl::Span<const uint8_t> bytes) {
  return Crc32c({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}
uint32_t SumOf(const std::vector<uint32_t>& sums) {
  return Crc32c({reinterpret_cast<const char*>(sums.data()), sums.size() * sizeof(uint32_t)});
}

// Reads the checksums that follow the pictures. Returns false if the checksums are damaged, or if the size of
// the pack is not content.file_bytes().
bool ReadSums(int fd, const Content& content, std::vector<uint32_t>& sums) {
  struct stat info;
  sums.resize(content.count() + 1);
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode) || info.st_size != content.file_bytes() ||
      !ReadFullyAt(fd, sums.data(), content.file_bytes() - content.ends.back(), content.ends.back(), "")
           .ok()) {
    return false;
  }
  const uint32_t own = sums.back();
  sums.pop_back();
  return SumOf(sums) == own;
}

// Writes the pictures one after another. If a picture's file causes the error, sets `damage` to this error.
// An error of the cache does not set `damage`.
absl::Status Pack(const Content& content, PathOf path_of, const Deadline& deadline, const std::string& path,
                  absl::FunctionRef<void()> progressed, absl::Status& damage) {
  const FileDescriptor out(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!out.valid()) return ErrnoStatus(errno, absl::StrCat("cannot create ", path));
  TETHYS_RETURN_IF_ERROR(ReserveInCache(out.get(), content.file_bytes(), path));
  std::vector<uint32_t> sums;
  std::vector<uint8_t> block;
  block.reserve(2 * kBlockBytes);
  for (size_t i = 0; i + 1 < content.ends.size(); ++i) {
    if (deadline.passed()) return absl::DeadlineExceededError("packing takes too long");
    const std::string name = path_of(static_cast<int64_t>(i));
    const auto bytes = ReadPictureFile(name);
    damage = bytes.status();
    if (damage.ok() && static_cast<int64_t>(bytes->size()) != content.ends[i + 1] - content.ends[i]) {
      damage = absl::DataLossError(absl::StrCat(name, " changed while it was read: start the job again"));
    }
    TETHYS_RETURN_IF_ERROR(damage);
    sums.push_back(SumOf(*bytes));
    block.insert(block.end(), bytes->begin(), bytes->end());
    if (static_cast<int64_t>(block.size()) < kBlockBytes && i + 2 < content.ends.size()) continue;
    TETHYS_RETURN_IF_ERROR(WriteFully(out.get(), block.data(), static_cast<int64_t>(block.size()), path));
    block.clear();
    progressed();
  }
  sums.push_back(SumOf(sums));
  return WriteFully(out.get(), sums.data(), static_cast<int64_t>(sums.size() * sizeof(uint32_t)), path);
}

struct OpenedPack {
  FileDescriptor file;
  std::string path;
  std::vector<uint32_t> sums;
};
absl::StatusOr<OpenedPack> OpenPack(const Content& content, const std::string& cache_dir, PathOf path_of,
                                    const Deadline& deadline, absl::Status& damage) {
  TETHYS_ASSIGN_OR_RETURN(const HostCache cache, HostCache::Open(cache_dir, deadline.left()));
  OpenedPack pack;
  const auto accept = [&](const std::string& path) {
    pack.file = FileDescriptor(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    return pack.file.valid() && ReadSums(pack.file.get(), content, pack.sums);
  };
  const auto make = [&](const std::string& path, absl::FunctionRef<void()> progressed) {
    return Pack(content, path_of, deadline, path, progressed, damage);
  };
  TETHYS_ASSIGN_OR_RETURN(pack.path, cache.Entry(absl::StrCat("pictures-", content.key), accept, make));
  if (accept(pack.path)) return pack;
  return absl::UnavailableError(
      absl::StrCat(pack.path, " was removed or truncated right after it had been written"));
}

}  // namespace

absl::StatusOr<std::shared_ptr<const PackedPictures>> PackedPictures::Open(const std::string& cache_dir,
                                                                           int64_t count, PathOf path_of,
                                                                           Nanoseconds patience) {
  if (count < kLeastPictures) return nullptr;
  const Deadline deadline(patience);
  Content content;
  content.ends.reserve(count + 1);
  CacheKey key;
  key.Add("pictures in one file, with checksums").Add(count);
  for (int64_t i = 0; i < count; ++i) {
    const std::string path = path_of(i);
    TETHYS_ASSIGN_OR_RETURN(const LocalFileState state, StateOfLocalFile(path));
    content.ends.push_back(content.ends.back() + state.size);
    const bool large = content.ends.back() > std::min(kMostBytes, count * kMostAverage);
    if (large || deadline.passed()) return nullptr;
    key.Add(AbsolutePath(path)).Add(state.version);
  }
  content.key = key.text();
  absl::Status damage;
  absl::StatusOr<OpenedPack> pack = OpenPack(content, cache_dir, path_of, deadline, damage);
  TETHYS_RETURN_IF_ERROR(damage);
  if (!pack.ok()) return nullptr;
  return std::shared_ptr<const PackedPictures>(new PackedPictures(
      std::move(pack->file), std::move(pack->path), std::move(content.ends), std::move(pack->sums)));
}

absl::StatusOr<absl::Span<const uint8_t>> PackedPictures::Read(int64_t index) const {
  thread_local std::vector<uint8_t> bytes;
  const int64_t begin = ends_[index], size = ends_[index + 1] - begin;
  if (static_cast<int64_t>(bytes.size()) < size) bytes.resize(size);
  const absl::Status status = ReadFullyAt(file_.get(), bytes.data(), size, begin, path_);
  if (absl::IsDataLoss(status)) return Damaged(index, "the file was truncated");
  TETHYS_RETURN_IF_ERROR(status);
  const absl::Span<const uint8_t> picture = absl::MakeConstSpan(bytes).first(size);
  if (SumOf(picture) != sums_[index]) return Damaged(index, "its checksum is wrong");
  return picture;
}

absl::Status PackedPictures::Damaged(int64_t index, absl::string_view why) const {
  const bool removed = IsOpenFile(file_.get(), path_) && unlink(path_.c_str()) == 0;
  return absl::DataLossError(absl::StrCat(path_, ": picture ", index, " is damaged: ", why, ": ",
                                          removed ? "start the job again, which packs the pictures anew"
                                                  : "delete the file, and start the job again"));
}

}  // namespace tethys
