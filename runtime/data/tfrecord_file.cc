#include "runtime/data/tfrecord_file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/functional/function_ref.h"
#include "runtime/base/crc32c.h"
#include "runtime/data/host_cache.h"
#include "runtime/data/known_format.h"
#include "runtime/data/unpacked_file.h"

namespace tethys {
namespace {

constexpr int64_t kHead = 12, kTail = 4;           // The bytes before and after a payload.
constexpr int64_t kMaxPayload = int64_t{1} << 30;  // The most bytes of a payload. Protobuf allows 2 GiB.
constexpr uint64_t kMagic = 0x31786564'6e497954u;  // The bytes "TyIndex1".
constexpr uint32_t kVersion = 1;
constexpr size_t kKeyLength = 32;
constexpr int64_t kBlock = 1 << 16;  // Bytes read or written at a time.

absl::string_view Text(const uint8_t* bytes, int64_t size) {
  return {reinterpret_cast<const char*>(bytes), static_cast<size_t>(size)};
}

template <typename Number>
Number NumberAt(const uint8_t* bytes) {
  Number number;
  std::memcpy(&number, bytes, sizeof(number));
  return number;
}

template <typename Number>
void Put(Number number, std::string& out) {
  out.append(reinterpret_cast<const char*>(&number), sizeof(number));
}

// Reads short pieces of a file in ascending order; one system call reads many of them.
class ForwardReader {
 public:
  explicit ForwardReader(const ByteSource& file) : file_(file) {}

  // The bytes at `offset`, valid until the next call. These bytes must lie in the file.
  absl::StatusOr<const uint8_t*> At(int64_t offset, int64_t size) {
    if (offset < begin_ || offset + size > begin_ + static_cast<int64_t>(block_.size())) {
      begin_ = offset;
      block_.resize(std::min<int64_t>(kBlock, file_.size() - offset));
      TETHYS_RETURN_IF_ERROR(file_.ReadAt(offset, absl::MakeSpan(block_)));
    }
    return block_.data() + (offset - begin_);
  }

 private:
  const ByteSource& file_;
  int64_t begin_ = 0;
  std::vector<uint8_t> block_;
};

// Calls `found` with the position (place) of each record; returns the first error of the file or of `found`.
absl::Status ForEachRecord(const ByteSource& bytes, absl::FunctionRef<absl::Status(int64_t place)> found) {
  ForwardReader reader(bytes);
  const int64_t end = bytes.size();
  int64_t record = 0;
  for (int64_t place = 0; place < end; ++record) {
    const auto name = [&] { return absl::StrCat(bytes.name(), ", record ", record); };
    const int64_t room = end - place - kHead - kTail;
    if (room < 0) {
      return absl::DataLossError(absl::StrCat(name(), " is cut at the end of the file: fetch the file again",
                                              record == 0 ? WhatItIs(bytes) : ""));
    }
    TETHYS_ASSIGN_OR_RETURN(const uint8_t* head, reader.At(place, kHead));
    if (MaskedCrc32c(Text(head, 8)) != NumberAt<uint32_t>(head + 8)) {
      return absl::DataLossError(absl::StrCat(
          name(),
          ": the checksum of the record's length is wrong: the file is damaged, or is not a TFRecord file",
          record == 0 ? WhatItIs(bytes) : ""));
    }
    const auto length = NumberAt<uint64_t>(head);
    if (length > static_cast<uint64_t>(room)) {
      return absl::DataLossError(absl::StrCat(name(), " has ", length, " bytes, but ", room,
                                              " are left in the file, which is truncated: fetch it again"));
    }
    if (length > static_cast<uint64_t>(kMaxPayload)) {
      return absl::InvalidArgumentError(
          absl::StrCat(name(), " has ", length, " bytes; a record may have at most ", kMaxPayload, " bytes"));
    }
    TETHYS_RETURN_IF_ERROR(found(place));
    place += kHead + static_cast<int64_t>(length) + kTail;
  }
  return absl::OkStatus();
}

absl::Status Damaged(absl::string_view what) {
  return absl::DataLossError(absl::StrCat("the index of records is damaged: ", what));
}

// Opens an index, and checks that it is complete: checks the header and the size, and reads all positions to
// check their checksum.
absl::StatusOr<RecordIndexContent> OpenWholeIndex(const std::string& path, FileDescriptor& index) {
  index = FileDescriptor(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat info;
  if (!index.valid() || fstat(index.get(), &info) != 0 || !S_ISREG(info.st_mode))
    return Damaged("it is no regular file");
  std::vector<uint8_t> block(kRecordIndexHeader);
  TETHYS_RETURN_IF_ERROR(ReadFullyAt(index.get(), block.data(), kRecordIndexHeader, 0, path));
  TETHYS_ASSIGN_OR_RETURN(const RecordIndexContent content, ParseRecordIndexHeader(block, info.st_size));
  uint32_t crc = 0;
  for (int64_t at = kRecordIndexHeader; at < info.st_size; at += kBlock) {
    block.resize(std::min(kBlock, info.st_size - at));
    TETHYS_RETURN_IF_ERROR(
        ReadFullyAt(index.get(), block.data(), static_cast<int64_t>(block.size()), at, path));
    crc = Crc32c(Text(block.data(), static_cast<int64_t>(block.size())), crc);
  }
  return crc == content.places_crc ? absl::StatusOr<RecordIndexContent>(content)
                                   : Damaged("the checksum of its positions is wrong");
}

// Writes an index of the file. `damage` is set if the file itself causes the error.
absl::Status WriteIndex(const ByteSource& bytes, const std::string& key, const std::string& path,
                        absl::FunctionRef<void()> progressed, absl::Status& damage) {
  const FileDescriptor out(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!out.valid()) return ErrnoStatus(errno, absl::StrCat("cannot create ", path));
  RecordIndexContent content = {.file_size = bytes.size(), .key = key};
  std::string block;
  const auto flush = [&] {
    const int64_t at = kRecordIndexHeader + (content.records * static_cast<int64_t>(sizeof(uint64_t))) -
                       static_cast<int64_t>(block.size());
    const absl::Status status =
        WriteFullyAt(out.get(), block.data(), static_cast<int64_t>(block.size()), at, path);
    content.places_crc = Crc32c(block, content.places_crc);
    block.clear();
    progressed();
    return status;
  };
  absl::Status written;
  const absl::Status read = ForEachRecord(bytes, [&](int64_t place) {
    Put(static_cast<uint64_t>(place), block);
    ++content.records;
    if (static_cast<int64_t>(block.size()) >= kBlock) written = flush();
    return written;
  });
  if (!read.ok() && written.ok()) damage = read;
  TETHYS_RETURN_IF_ERROR(read);
  TETHYS_RETURN_IF_ERROR(flush());
  const std::string header = RecordIndexHeader(content);
  return WriteFullyAt(out.get(), header.data(), kRecordIndexHeader, 0, path);
}

}  // namespace

std::string RecordIndexHeader(const RecordIndexContent& content) {
  TETHYS_CHECK(content.key.size() == kKeyLength);
  std::string header;
  Put(kMagic, header);
  Put(kVersion, header);
  Put(content.places_crc, header);
  Put(static_cast<uint64_t>(content.records), header);
  Put(static_cast<uint64_t>(content.file_size), header);
  header += content.key;
  Put(uint32_t{0}, header);
  Put(Crc32c(header), header);
  TETHYS_CHECK(static_cast<int64_t>(header.size()) == kRecordIndexHeader);
  return header;
}

absl::StatusOr<RecordIndexContent> ParseRecordIndexHeader(absl::Span<const uint8_t> header, int64_t size) {
  if (static_cast<int64_t>(header.size()) < kRecordIndexHeader || size < kRecordIndexHeader) {
    return Damaged("it is truncated");
  }
  const uint8_t* const at = header.data();
  if (NumberAt<uint64_t>(at) != kMagic) return Damaged("its first bytes are wrong");
  if (const auto version = NumberAt<uint32_t>(at + 8); version != kVersion) {
    return Damaged(absl::StrCat("it has version ", version, ", and this program reads version ", kVersion));
  }
  constexpr int64_t kSum = kRecordIndexHeader - sizeof(uint32_t);
  if (NumberAt<uint32_t>(at + kSum) != Crc32c(Text(at, kSum)))
    return Damaged("the checksum of its header is wrong");
  const auto records = NumberAt<uint64_t>(at + 16), file_size = NumberAt<uint64_t>(at + 24);
  if (NumberAt<uint32_t>(at + 64) != 0) return Damaged("its header is wrong");
  if (file_size > uint64_t{INT64_MAX} || records < 1 || records > file_size / (kHead + kTail) ||
      static_cast<uint64_t>(size - kRecordIndexHeader) / sizeof(uint64_t) != records ||
      (size - kRecordIndexHeader) % sizeof(uint64_t) != 0) {
    return Damaged("its size is wrong");
  }
  return RecordIndexContent{.places_crc = NumberAt<uint32_t>(at + 12),
                            .records = static_cast<int64_t>(records),
                            .file_size = static_cast<int64_t>(file_size),
                            .key = std::string(Text(at + 32, kKeyLength))};
}

absl::StatusOr<RecordFile> RecordFile::Open(std::shared_ptr<const ByteSource> bytes,
                                            const std::string& cache_dir, int64_t& room) {
  TETHYS_ASSIGN_OR_RETURN(const bool gzipped, LooksGzipped(*bytes));
  if (gzipped) {
    TETHYS_ASSIGN_OR_RETURN(bytes, Unpacked(*bytes, cache_dir));
  }
  RecordFile file(std::move(bytes));
  TETHYS_RETURN_IF_ERROR(file.FindPlaces(cache_dir, room));
  return file;
}

absl::Status RecordFile::FindPlaces(const std::string& cache_dir, int64_t& room) {
  if (bytes_->size() >= kLeastIndexed && !bytes_->version().empty()) {
    absl::Status damage;
    if (OpenIndex(cache_dir, room, damage).ok()) return absl::OkStatus();
    TETHYS_RETURN_IF_ERROR(damage);
  }
  TETHYS_RETURN_IF_ERROR(ForEachRecord(*bytes_, [this](int64_t place) {
    held_.push_back(place);
    return absl::OkStatus();
  }));
  held_.shrink_to_fit();
  records_ = static_cast<int64_t>(held_.size());
  return absl::OkStatus();
}

// `damage` is set to an error of the file, but not to an error of the cache.
absl::Status RecordFile::OpenIndex(const std::string& cache_dir, int64_t& room, absl::Status& damage) {
  TETHYS_ASSIGN_OR_RETURN(const HostCache cache, HostCache::Open(cache_dir));
  const std::string key = CacheKey()
                              .Add("records of a TFRecord file")
                              .Add(AbsolutePath(bytes_->name()))
                              .Add(bytes_->version())
                              .text();
  FileDescriptor index;
  bool accepted = false;
  const auto accept = [&](const std::string& path) {
    const auto content = OpenWholeIndex(path, index);
    accepted = content.ok() && content->key == key && content->file_size == bytes_->size();
    if (accepted) records_ = content->records;
    return accepted;
  };
  const auto make = [&](const std::string& path, absl::FunctionRef<void()> progressed) {
    return WriteIndex(*bytes_, key, path, progressed, damage);
  };
  TETHYS_ASSIGN_OR_RETURN(index_path_, cache.Entry(absl::StrCat("records-", key), accept, make));
  if (!accepted && !accept(index_path_)) return Damaged(index_path_);
  if (records_ > room) {
    index_ = std::move(index);
    return absl::OkStatus();
  }
  held_.resize(records_);
  room -= records_;
  return ReadFullyAt(index.get(), held_.data(), records_ * static_cast<int64_t>(sizeof(int64_t)),
                     kRecordIndexHeader, index_path_);
}

absl::StatusOr<absl::string_view> RecordFile::ReadPayload(int64_t record) const {
  thread_local std::vector<uint8_t> buffer;
  const bool last = record + 1 == records_;
  std::array<int64_t, 2> ends = {0, bytes_->size()};  // The begin and the end of the record.
  const size_t known = last ? 1 : 2;
  if (index_.valid()) {
    const int64_t at = kRecordIndexHeader + record * static_cast<int64_t>(sizeof(uint64_t));
    TETHYS_RETURN_IF_ERROR(ReadFullyAt(index_.get(), ends.data(),
                                       static_cast<int64_t>(known * sizeof(uint64_t)), at, index_path_));
  } else {
    std::copy_n(held_.begin() + record, known, ends.begin());
  }
  if (ends[0] < 0 || ends[1] > bytes_->size() || ends[0] > ends[1] - kHead - kTail ||
      ends[1] - ends[0] > kMaxPayload + kHead + kTail) {
    return absl::DataLossError(absl::StrCat(index_path_, ": the positions stored for record ", record,
                                            " are damaged: delete the file, and start the job again"));
  }
  const int64_t size = ends[1] - ends[0] - kHead - kTail;
  if (static_cast<int64_t>(buffer.size()) < size + kTail) buffer.resize(size + kTail);
  TETHYS_RETURN_IF_ERROR(bytes_->ReadAt(ends[0] + kHead, absl::MakeSpan(buffer).first(size + kTail)));
  const absl::string_view payload = Text(buffer.data(), size);
  if (MaskedCrc32c(payload) == NumberAt<uint32_t>(buffer.data() + size)) return payload;
  return absl::DataLossError(absl::StrCat(
      Name(record), ": the checksum is wrong: ",
      bytes_->RemoveCopy()
          ? "start the job again, which unpacks the file anew; if the checksum is wrong then, too, "
          : "",
      "fetch the file again"));
}

}  // namespace tethys
