#include "runtime/data/byte_stream.h"

#include <algorithm>
#include <cstring>

namespace tethys {
namespace {

constexpr int64_t kBuffer = 1 << 16;
// The most bytes that are passed to zlib in one call, because zlib counts bytes in an unsigned int.
constexpr int64_t kLargestStep = int64_t{1} << 30;
constexpr int kGzip = 16 + MAX_WBITS;

}  // namespace

absl::StatusOr<std::unique_ptr<ByteStream>> ByteStream::Open(std::shared_ptr<const ByteSource> file) {
  std::unique_ptr<ByteStream> stream(new ByteStream(std::move(file)));
  uint8_t magic[2] = {};
  const int64_t size = std::min<int64_t>(sizeof(magic), stream->file_bytes());
  TETHYS_RETURN_IF_ERROR(stream->file_->ReadAt(0, {magic, static_cast<size_t>(size)}));
  if (magic[0] != 0x1f || magic[1] != 0x8b) return stream;
  if (inflateInit2(&stream->stream_, kGzip) != Z_OK) {
    return absl::ResourceExhaustedError(absl::StrCat(stream->file_->name(), ": no memory to read it"));
  }
  stream->gzipped_ = true;
  return stream;
}

ByteStream::~ByteStream() {
  if (gzipped_) inflateEnd(&stream_);
}

absl::Status ByteStream::Fill() {
  std::vector<uint8_t> more(std::min(kBuffer, file_->size() - place_) + stream_.avail_in);
  std::copy_n(stream_.next_in, stream_.avail_in, more.begin());
  const auto bytes = absl::MakeSpan(more).subspan(stream_.avail_in);
  if (!bytes.empty()) TETHYS_RETURN_IF_ERROR(file_->ReadAt(place_, bytes));
  place_ += static_cast<int64_t>(bytes.size());
  buffer_ = std::move(more);
  stream_.next_in = buffer_.data();
  stream_.avail_in = static_cast<uInt>(buffer_.size());
  return absl::OkStatus();
}

bool ByteStream::AtGzipMagic() const {
  return stream_.avail_in >= 2 && stream_.next_in[0] == 0x1f && stream_.next_in[1] == 0x8b;
}

absl::Status ByteStream::EndStream() {
  if (stream_.avail_in < 2) TETHYS_RETURN_IF_ERROR(Fill());
  ended_ = !AtGzipMagic() || inflateReset(&stream_) != Z_OK;
  return absl::OkStatus();
}

absl::StatusOr<int64_t> ByteStream::Read(uint8_t* out, int64_t size) {
  if (!gzipped_) {
    const int64_t count = std::min(size, file_->size() - place_);
    TETHYS_RETURN_IF_ERROR(file_->ReadAt(place_, {out, static_cast<size_t>(count)}));
    place_ += count;
    return count;
  }
  int64_t done = 0;
  while (done < size && !ended_) {
    if (stream_.avail_in == 0) TETHYS_RETURN_IF_ERROR(Fill());
    const auto step = static_cast<uInt>(std::min(size - done, kLargestStep));
    stream_.next_out = out + done;
    stream_.avail_out = step;
    const bool at_end = stream_.avail_in == 0;
    const int code = inflate(&stream_, Z_NO_FLUSH);
    done += step - stream_.avail_out;
    if (code == Z_STREAM_END) {
      TETHYS_RETURN_IF_ERROR(EndStream());
    } else if (code == Z_BUF_ERROR && at_end) {
      cut_ = ended_ = true;
    } else if (code == Z_MEM_ERROR) {
      return absl::ResourceExhaustedError(absl::StrCat(file_->name(), ": no memory to unpack it"));
    } else if (code != Z_OK && code != Z_BUF_ERROR) {
      return absl::DataLossError(absl::StrCat(file_->name(), ": the gzip stream is damaged (",
                                              stream_.msg == nullptr ? "bad data" : stream_.msg,
                                              "): fetch the file again"));
    }
  }
  return done;
}

}  // namespace tethys
