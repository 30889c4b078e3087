// The parts of an archive that are read (PKWARE, APPNOTE.TXT, sections 4.3 and 4.5; little-endian), from its
// end:
//
//   end record:      "PK\5\6", u16 disk, u16 first disk, u16 members here, u16 members, u32 directory bytes,
//                    u32 directory begin, u16 comment bytes, the comment
//   locator:         "PK\6\7", u32 disk, u64 begin of the large end record, u32 disks; before the end record
//   large end record: "PK\6\6", u64 size, u16, u16, u32 disk, u32 first disk, u64 members here, u64 members,
//                    u64 directory bytes, u64 directory begin
//   directory entry: "PK\1\2", u16, u16, u16 flags, u16 method, u16, u16, u32 CRC-32, u32 packed bytes,
//                    u32 bytes, u16 name bytes, u16 extra bytes, u16 comment bytes, u16 disk, u16, u32,
//                    u32 local header; name, extra fields (u16 kind, u16 bytes), comment
//   local header:    "PK\3\4", u16, u16, u16, u16, u16, u32, u32, u32, u16 name bytes, u16 extra bytes, name,
//                    extra fields; then the packed bytes
//
// If all bits of a 32-bit number are ones, its true value is in the extra field of kind 1, or in the large
// end record.
#include "runtime/data/zip_archive.h"

#include <zlib.h>

#include <algorithm>
#include <cstring>

#include "absl/strings/escaping.h"
#include "absl/strings/string_view.h"
#include "runtime/data/idx.h"

namespace tethys {
namespace {

constexpr int64_t kEndRecord = 22, kLocator = 20, kLargeEndRecord = 56, kEntry = 46, kLocalHeader = 30;
constexpr int64_t kMaxComment = 65535;
constexpr int64_t kMaxDirectory = int64_t{1} << 26;
constexpr uint32_t kInExtra = 0xffffffff;
constexpr int kStored = 0, kDeflated = 8;
constexpr int kEncrypted = 1;  // The bit of a directory entry's flags that marks an encrypted member.
// One byte of a deflate stream expands to at most this many bytes (zlib's technical notes).
constexpr int64_t kMaxExpansion = 1032;
constexpr int64_t kFirstStep = int64_t{1} << 20;
constexpr int64_t kPackedBlock = int64_t{1} << 18;

template <typename Number>
Number At(const uint8_t* bytes) {
  Number number;
  std::memcpy(&number, bytes, sizeof(number));
  return number;
}
bool Begins(const uint8_t* bytes, absl::string_view mark) {
  return std::memcmp(bytes, mark.data(), mark.size()) == 0;
}

absl::Status Damaged(const std::string& name, absl::string_view why) {
  return absl::DataLossError(
      absl::StrCat(name, ": ", why, ": the archive is truncated or damaged; fetch it again"));
}

absl::StatusOr<std::vector<uint8_t>> ReadBytes(const ByteSource& file, int64_t begin, int64_t size) {
  std::vector<uint8_t> bytes(size);
  TETHYS_RETURN_IF_ERROR(file.ReadAt(begin, absl::MakeSpan(bytes)));
  return bytes;
}

// ------------------------------------------------------------------------------------------ the directory

struct Directory {
  uint64_t members = 0, bytes = 0, begin = 0;
};

// The position of the end record in `tail`, or -1. Only a comment may follow the end record. `tail` is the
// end of the file.
int64_t FindEndRecord(const std::vector<uint8_t>& tail) {
  for (auto at = static_cast<int64_t>(tail.size()) - kEndRecord; at >= 0; --at) {
    if (!Begins(tail.data() + at, "PK\5\6")) continue;
    if (at + kEndRecord + At<uint16_t>(tail.data() + at + 20) == static_cast<int64_t>(tail.size())) return at;
  }
  return -1;
}

// Replaces `directory` by the directory that the large end record describes.
absl::Status ReadLargeEndRecord(const ByteSource& file, const uint8_t* locator, Directory& directory) {
  const auto begin = At<uint64_t>(locator + 8);
  const int64_t room = file.size() - kEndRecord - kLocator - kLargeEndRecord;
  if (room < 0 || begin > static_cast<uint64_t>(room)) {
    return Damaged(file.name(), "its end record lies beyond the end of the file");
  }
  TETHYS_ASSIGN_OR_RETURN(const std::vector<uint8_t> record,
                          ReadBytes(file, static_cast<int64_t>(begin), kLargeEndRecord));
  if (!Begins(record.data(), "PK\6\6")) return Damaged(file.name(), "it has no end record with 64-bit sizes");
  directory = {.members = At<uint64_t>(record.data() + 32),
               .bytes = At<uint64_t>(record.data() + 40),
               .begin = At<uint64_t>(record.data() + 48)};
  return absl::OkStatus();
}

absl::StatusOr<Directory> FindDirectory(const ByteSource& file) {
  const int64_t size = std::min(file.size(), kLocator + kEndRecord + kMaxComment);
  TETHYS_ASSIGN_OR_RETURN(const std::vector<uint8_t> tail, ReadBytes(file, file.size() - size, size));
  const int64_t at = FindEndRecord(tail);
  if (at < 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        file.name(), ": no zip archive, or a truncated one: write it with numpy.savez, or fetch it again"));
  }
  const uint8_t* const record = tail.data() + at;
  Directory directory = {.members = At<uint16_t>(record + 10),
                         .bytes = At<uint32_t>(record + 12),
                         .begin = At<uint32_t>(record + 16)};
  if (At<uint16_t>(record + 4) != At<uint16_t>(record + 6)) {
    return absl::InvalidArgumentError(absl::StrCat(
        file.name(),
        ": this is one part of an archive that was split into several files: join the parts first"));
  }
  if (at >= kLocator && Begins(record - kLocator, "PK\6\7")) {
    TETHYS_RETURN_IF_ERROR(ReadLargeEndRecord(file, record - kLocator, directory));
  }
  if (directory.bytes > static_cast<uint64_t>(file.size()) ||
      directory.begin > static_cast<uint64_t>(file.size()) - directory.bytes) {
    return Damaged(file.name(), "its directory lies beyond the end of the file");
  }
  if (directory.bytes > static_cast<uint64_t>(kMaxDirectory)) {
    return absl::InvalidArgumentError(absl::StrCat(file.name(), ": its directory has ", directory.bytes,
                                                   " bytes; at most ", kMaxDirectory, " are allowed"));
  }
  return directory;
}

// Replaces each of `numbers` that is 2^32 - 1 by its true value. The extra field of kind 1 contains these
// true values in the order of `numbers`.
absl::Status TakeLargeNumbers(absl::Span<const uint8_t> extra, std::initializer_list<uint64_t*> numbers,
                              const std::string& name) {
  while (extra.size() >= 4) {
    const auto kind = At<uint16_t>(extra.data()), bytes = At<uint16_t>(extra.data() + 2);
    extra.remove_prefix(4);
    if (bytes > extra.size()) break;
    absl::Span<const uint8_t> field = extra.first(bytes);
    extra.remove_prefix(bytes);
    if (kind != 1) continue;
    for (uint64_t* const number : numbers) {
      if (*number != kInExtra) continue;
      if (field.size() < sizeof(uint64_t)) return Damaged(name, "an entry lacks its 64-bit sizes");
      *number = At<uint64_t>(field.data());
      field.remove_prefix(sizeof(uint64_t));
    }
    return absl::OkStatus();
  }
  return absl::OkStatus();
}

// Parses the first directory entry in `rest`, and removes the entry from `rest`.
absl::StatusOr<ZipMember> TakeEntry(absl::Span<const uint8_t>& rest, const ByteSource& file) {
  const uint8_t* const entry = rest.data();
  if (static_cast<int64_t>(rest.size()) < kEntry || !Begins(entry, "PK\1\2")) {
    return Damaged(file.name(), "its directory has fewer entries than announced");
  }
  const int64_t name_bytes = At<uint16_t>(entry + 28), extra_bytes = At<uint16_t>(entry + 30);
  const int64_t all = kEntry + name_bytes + extra_bytes + At<uint16_t>(entry + 32);
  if (all > static_cast<int64_t>(rest.size())) return Damaged(file.name(), "its directory is cut");
  uint64_t packed = At<uint32_t>(entry + 20), bytes = At<uint32_t>(entry + 24);
  uint64_t header = At<uint32_t>(entry + 42);
  TETHYS_RETURN_IF_ERROR(TakeLargeNumbers(rest.subspan(kEntry + name_bytes, extra_bytes),
                                          {&bytes, &packed, &header}, file.name()));
  const auto size = static_cast<uint64_t>(file.size());
  if (header > size || packed > size - header || bytes / kMaxExpansion > packed) {
    return Damaged(file.name(), "an entry of its directory announces more than the file can hold");
  }
  ZipMember member = {.name = std::string(reinterpret_cast<const char*>(entry + kEntry), name_bytes),
                      .encrypted = (At<uint16_t>(entry + 8) & kEncrypted) != 0,
                      .method = At<uint16_t>(entry + 10),
                      .crc = At<uint32_t>(entry + 16),
                      .packed_bytes = static_cast<int64_t>(packed),
                      .bytes = static_cast<int64_t>(bytes),
                      .header = static_cast<int64_t>(header)};
  rest.remove_prefix(all);
  return member;
}

// ------------------------------------------------------------------------------------------ members

// Bytes [begin, begin + size) of a file.
class Window final : public ByteSource {
 public:
  Window(std::string name, std::shared_ptr<const ByteSource> file, int64_t begin, int64_t size)
      : name_(std::move(name)), file_(std::move(file)), begin_(begin), size_(size) {}
  const std::string& name() const override { return name_; }
  int64_t size() const override { return size_; }
  absl::Status ReadAt(int64_t offset, absl::Span<uint8_t> out) const override {
    return file_->ReadAt(begin_ + offset, out);
  }

 private:
  const std::string name_;
  const std::shared_ptr<const ByteSource> file_;
  const int64_t begin_, size_;
};

// The inflated bytes of a member. All of them are in memory, or only the first of them (OpenHead).
class Inflated final : public ByteSource {
 public:
  Inflated(std::string name, int64_t size, ByteBuffer held)
      : name_(std::move(name)), size_(size), held_(std::move(held)) {}
  const std::string& name() const override { return name_; }
  int64_t size() const override { return size_; }
  absl::Status ReadAt(int64_t offset, absl::Span<uint8_t> out) const override {
    if (offset + static_cast<int64_t>(out.size()) > held_.size()) {
      return absl::InternalError(absl::StrCat(name_, ": byte ", offset, " was not inflated"));
    }
    std::copy_n(held_.data() + offset, out.size(), out.data());
    return absl::OkStatus();
  }

 private:
  const std::string name_;
  const int64_t size_;
  const ByteBuffer held_;
};

class Inflater {
 public:
  Inflater(const ByteSource& file, int64_t begin, int64_t packed_bytes, const std::string& name)
      : file_(file), next_(begin), end_(begin + packed_bytes), name_(name) {
    ready_ = inflateInit2(&stream_, -MAX_WBITS) == Z_OK;  // A stream without zlib's own header.
  }
  ~Inflater() {
    if (ready_) inflateEnd(&stream_);
  }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  // Inflates up to `size` bytes. Returns the number of bytes, which is smaller only at the end of the stream.
  absl::StatusOr<int64_t> Read(uint8_t* out, int64_t size) {
    if (!ready_) return absl::ResourceExhaustedError(absl::StrCat(name_, ": no memory to inflate it"));
    int64_t done = 0;
    while (done < size && !ended_) {
      if (stream_.avail_in == 0) TETHYS_RETURN_IF_ERROR(Refill());
      const auto room = static_cast<uInt>(std::min<int64_t>(size - done, int64_t{1} << 30));
      stream_.next_out = out + done;
      stream_.avail_out = room;
      const int result = inflate(&stream_, Z_NO_FLUSH);
      done += room - stream_.avail_out;
      ended_ = result == Z_STREAM_END;
      if (result != Z_OK && !ended_) return Damaged(name_, "its deflated bytes cannot be read");
    }
    return done;
  }
  bool used_all() const { return ended_ && next_ == end_ && stream_.avail_in == 0; }

 private:
  absl::Status Refill() {
    packed_.resize(std::min(kPackedBlock, end_ - next_));
    if (packed_.empty()) return Damaged(name_, "its deflated bytes end too early");
    TETHYS_RETURN_IF_ERROR(file_.ReadAt(next_, absl::MakeSpan(packed_)));
    next_ += static_cast<int64_t>(packed_.size());
    stream_.next_in = packed_.data();
    stream_.avail_in = static_cast<uInt>(packed_.size());
    return absl::OkStatus();
  }

  const ByteSource& file_;
  int64_t next_;
  const int64_t end_;
  const std::string& name_;
  std::vector<uint8_t> packed_;
  z_stream stream_ = {};
  bool ready_ = false, ended_ = false;
};

// The memory is doubled as needed, so a member with a false size takes at most twice the memory of its
// contents.
absl::StatusOr<ByteBuffer> Inflate(Inflater& inflater, int64_t size, const std::string& name) {
  ByteBuffer out;
  int64_t done = 0;
  for (int64_t step = kFirstStep; done < size; step *= 2) {
    const int64_t want = std::min(step, size - done);
    TETHYS_RETURN_IF_ERROR(Annotate(out.Resize(done + want), name));
    TETHYS_ASSIGN_OR_RETURN(const int64_t got, inflater.Read(out.data() + done, want));
    done += got;
    if (got < want) {
      return Damaged(name, absl::StrCat("it holds ", done, " bytes, but its directory announces more"));
    }
  }
  return out;
}

// Checks the checksum of the whole contents, and that nothing follows them.
absl::Status CheckInflated(Inflater& inflater, const ByteBuffer& content, uint32_t crc,
                           const std::string& name) {
  uint8_t more = 0;
  TETHYS_ASSIGN_OR_RETURN(const int64_t got, inflater.Read(&more, 1));
  if (got > 0 || !inflater.used_all()) {
    return Damaged(
        name, absl::StrCat("it holds more than the ", content.size(), " bytes that its directory announces"));
  }
  uLong actual = crc32(0, nullptr, 0);
  for (int64_t done = 0; done < content.size();) {
    const auto part = static_cast<uInt>(std::min<int64_t>(content.size() - done, int64_t{1} << 30));
    actual = crc32(actual, content.data() + done, part);
    done += part;
  }
  return actual == crc ? absl::OkStatus() : Damaged(name, "its checksum is wrong");
}

}  // namespace

absl::StatusOr<ZipArchive> ZipArchive::Open(std::shared_ptr<const ByteSource> file) {
  TETHYS_ASSIGN_OR_RETURN(const Directory directory, FindDirectory(*file));
  TETHYS_ASSIGN_OR_RETURN(
      const std::vector<uint8_t> bytes,
      ReadBytes(*file, static_cast<int64_t>(directory.begin), static_cast<int64_t>(directory.bytes)));
  std::vector<ZipMember> members;
  absl::Span<const uint8_t> rest = bytes;
  for (uint64_t i = 0; i < directory.members; ++i) {
    TETHYS_ASSIGN_OR_RETURN(members.emplace_back(), TakeEntry(rest, *file));
  }
  return ZipArchive(std::move(file), std::move(members));
}

absl::StatusOr<int64_t> ZipArchive::FindContent(const ZipMember& member, const std::string& full_name) const {
  const auto announced = static_cast<int64_t>(member.name.size());
  if (member.header + kLocalHeader + announced > file_->size())
    return Damaged(full_name, "it lies beyond the end of the archive");
  TETHYS_ASSIGN_OR_RETURN(const std::vector<uint8_t> header,
                          ReadBytes(*file_, member.header, kLocalHeader + announced));
  if (!Begins(header.data(), "PK\3\4") || At<uint16_t>(header.data() + 26) != announced ||
      !Begins(header.data() + kLocalHeader, member.name)) {
    return Damaged(full_name, "its header is not where the directory says");
  }
  const int64_t begin = member.header + kLocalHeader + announced + At<uint16_t>(header.data() + 28);
  if (begin > file_->size() || member.packed_bytes > file_->size() - begin) {
    return Damaged(full_name, "it lies beyond the end of the archive");
  }
  return begin;
}

absl::StatusOr<std::shared_ptr<const ByteSource>> ZipArchive::Open(const ZipMember& member) const {
  return OpenHead(member, member.bytes);
}

absl::StatusOr<std::shared_ptr<const ByteSource>> ZipArchive::OpenHead(const ZipMember& member,
                                                                       int64_t most) const {
  const std::string full_name = absl::StrCat(name(), "#", absl::CEscape(member.name));
  if (member.encrypted || (member.method != kStored && member.method != kDeflated)) {
    return absl::InvalidArgumentError(
        absl::StrCat(full_name,
                     member.encrypted ? ": the file is encrypted"
                                      : absl::StrCat(": the file is packed by method ", member.method),
                     ": write the archive with numpy.savez or numpy.savez_compressed"));
  }
  TETHYS_ASSIGN_OR_RETURN(const int64_t begin, FindContent(member, full_name));
  if (member.method == kStored) {
    if (member.bytes != member.packed_bytes)
      return Damaged(full_name, "it is stored without compression, but with two different sizes");
    return std::make_shared<Window>(full_name, file_, begin, member.bytes);
  }
  Inflater inflater(*file_, begin, member.packed_bytes, full_name);
  TETHYS_ASSIGN_OR_RETURN(ByteBuffer held, Inflate(inflater, std::min(most, member.bytes), full_name));
  if (most >= member.bytes) TETHYS_RETURN_IF_ERROR(CheckInflated(inflater, held, member.crc, full_name));
  return std::make_shared<Inflated>(full_name, member.bytes, std::move(held));
}

}  // namespace tethys
