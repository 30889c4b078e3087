#include "runtime/data/unpacked_file.h"

#include <fcntl.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include "runtime/base/empty_file.h"
#include "runtime/base/file.h"
#include "runtime/data/host_cache.h"

namespace tethys {
namespace {

constexpr int64_t kBlock = 1 << 18;   // The size of the buffer for packed bytes, and for unpacked bytes.
constexpr int kGzipWindow = 15 + 16;  // For zlib: a window of 32 KiB in a gzip stream.

// The number of unpacked bytes is stored at the end of the unpacked file, so that a truncated file is
// recognised: u64 number, u64 its complement; little-endian.
constexpr int64_t kTail = 2 * sizeof(uint64_t);

absl::Status WriteTail(int fd, int64_t bytes, const std::string& path) {
  const uint64_t tail[] = {static_cast<uint64_t>(bytes), ~static_cast<uint64_t>(bytes)};
  return WriteFully(fd, tail, kTail, path);
}

bool IsWhole(const std::string& path) {
  const auto file = OpenLocalFile(path);
  uint64_t tail[2] = {};
  return file.ok() && (*file)->size() > kTail &&
         (*file)->ReadAt((*file)->size() - kTail, {reinterpret_cast<uint8_t*>(tail), kTail}).ok() &&
         tail[0] == static_cast<uint64_t>((*file)->size() - kTail) && tail[1] == ~tail[0];
}

// The unpacked file. Errors name the packed file.
class UnpackedFile final : public ByteSource {
 public:
  UnpackedFile(std::shared_ptr<const ByteSource> file, const std::string& packed_name)
      : file_(std::move(file)), name_(absl::StrCat(packed_name, " (unpacked: ", file_->name(), ")")) {}

  const std::string& name() const override { return name_; }
  int64_t size() const override { return file_->size() - kTail; }
  std::string version() const override { return file_->version(); }
  absl::Status ReadAt(int64_t offset, absl::Span<uint8_t> out) const override {
    return file_->ReadAt(offset, out);
  }
  bool RemoveCopy() const override {
    unlink(file_->name().c_str());  // If this removes a newer copy, that copy is made again.
    return true;
  }

 private:
  const std::shared_ptr<const ByteSource> file_;
  const std::string name_;
};

// Unpacks one gzip stream after the other, as gunzip does.
class Inflater {
 public:
  Inflater(const ByteSource& packed, int out, const std::string& out_name)
      : packed_(packed), out_(out), out_name_(out_name), output_(kBlock) {
    TETHYS_CHECK(inflateInit2(&stream_, kGzipWindow) == Z_OK, "no memory for zlib");
  }
  ~Inflater() { inflateEnd(&stream_); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  absl::Status Run(absl::FunctionRef<void()> progressed) {
    std::vector<uint8_t> input;
    for (int64_t at = 0; at < packed_.size(); at += kBlock) {
      input.resize(std::min(kBlock, packed_.size() - at));
      TETHYS_RETURN_IF_ERROR(packed_.ReadAt(at, absl::MakeSpan(input)));
      TETHYS_RETURN_IF_ERROR(Take(input));
      progressed();
    }
    if (within_stream_) return Damaged("it is truncated");
    if (written_ == 0) return EmptyFileError(packed_.name(), "its gzip stream holds nothing");
    return WriteTail(out_, written_, out_name_);
  }

 private:
  absl::Status Damaged(absl::string_view why) const {
    return absl::DataLossError(
        absl::StrCat(packed_.name(), ": the gzip stream is damaged (", why, "): fetch the file again"));
  }

  absl::Status Take(std::vector<uint8_t>& input) {
    stream_.next_in = input.data();
    stream_.avail_in = static_cast<uInt>(input.size());
    while (true) {
      stream_.next_out = output_.data();
      stream_.avail_out = static_cast<uInt>(output_.size());
      within_stream_ = within_stream_ || stream_.avail_in > 0;
      const int code = inflate(&stream_, Z_NO_FLUSH);
      if (code != Z_OK && code != Z_STREAM_END && code != Z_BUF_ERROR) {
        return Damaged(stream_.msg != nullptr ? stream_.msg : "bytes that are not gzip follow it");
      }
      const auto got = static_cast<int64_t>(output_.size() - stream_.avail_out);
      written_ += got;
      TETHYS_RETURN_IF_ERROR(WriteFully(out_, output_.data(), got, out_name_));
      if (code == Z_STREAM_END) {
        within_stream_ = false;
        inflateReset(&stream_);
      }
      if (stream_.avail_in == 0 && stream_.avail_out > 0) return absl::OkStatus();
    }
  }

  const ByteSource& packed_;
  const int out_;
  const std::string& out_name_;
  std::vector<uint8_t> output_;
  z_stream stream_ = {};
  bool within_stream_ = false;
  int64_t written_ = 0;  // Number of bytes written.
};

}  // namespace

absl::StatusOr<bool> LooksGzipped(const ByteSource& packed) {
  uint8_t magic[2] = {};
  if (packed.size() < static_cast<int64_t>(sizeof(magic))) return false;
  TETHYS_RETURN_IF_ERROR(packed.ReadAt(0, absl::MakeSpan(magic)));
  return magic[0] == 0x1f && magic[1] == 0x8b;
}

absl::StatusOr<std::shared_ptr<const ByteSource>> Unpacked(const ByteSource& packed,
                                                           const std::string& cache_dir) {
  if (packed.version().empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat(packed.name(),
                     ": the time of the last change of this gzipped file is not known, so an unpacked copy "
                     "might be out of date: unpack the file with gunzip"));
  }
  TETHYS_ASSIGN_OR_RETURN(const HostCache cache, HostCache::Open(cache_dir));
  const std::string key = CacheKey()
                              .Add("an unpacked file and its size")
                              .Add(AbsolutePath(packed.name()))
                              .Add(packed.version())
                              .text();
  const auto make = [&](const std::string& path, absl::FunctionRef<void()> progressed) -> absl::Status {
    const FileDescriptor out(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (!out.valid()) return ErrnoStatus(errno, absl::StrCat("cannot create ", path));
    return ExplainFullCache(Inflater(packed, out.get(), path).Run(progressed), path);
  };
  TETHYS_ASSIGN_OR_RETURN(const std::string path, cache.Entry(absl::StrCat("unpacked-", key), IsWhole, make));
  TETHYS_ASSIGN_OR_RETURN(auto file, OpenLocalFile(path));
  if (file->size() <= kTail) {
    return absl::DataLossError(
        absl::StrCat(path, " was truncated right after it had been written: start the job again"));
  }
  return std::make_shared<UnpackedFile>(std::move(file), packed.name());
}

}  // namespace tethys
