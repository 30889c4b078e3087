// The bytes of a data file from its start to its end. A gzipped file, which is recognised by its content, is
// unpacked.
#ifndef TETHYS_RUNTIME_DATA_BYTE_STREAM_H_
#define TETHYS_RUNTIME_DATA_BYTE_STREAM_H_

#include <zlib.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/data/byte_source.h"

namespace tethys {

// Thread-compatible. Reads block.
class ByteStream {
 public:
  // Errors: those of reading the file's first bytes; ResourceExhausted: no memory.
  static absl::StatusOr<std::unique_ptr<ByteStream>> Open(std::shared_ptr<const ByteSource> file);
  ~ByteStream();
  ByteStream(const ByteStream&) = delete;
  ByteStream& operator=(const ByteStream&) = delete;

  // Returns the number of bytes read: fewer than `size` only at the end. The checksum of a gzip stream is
  // verified when the end of the stream is read. DataLoss: the stream is damaged. Other errors are those of
  // the file.
  absl::StatusOr<int64_t> Read(uint8_t* out, int64_t size);

  bool gzipped() const { return gzipped_; }
  // True if the file ended in the middle of a gzip stream.
  bool cut() const { return cut_; }
  // The size of the file itself, not of its unpacked content.
  int64_t file_bytes() const { return file_->size(); }

 private:
  explicit ByteStream(std::shared_ptr<const ByteSource> file) : file_(std::move(file)) {}

  // Appends more bytes of the file to the bytes that are left in buffer_.
  absl::Status Fill();
  bool AtGzipMagic() const;
  // Continues with the next gzip stream of the file, or ends this stream if there is none. Like gzip, ignores
  // bytes after the stream that are no gzip stream.
  absl::Status EndStream();

  const std::shared_ptr<const ByteSource> file_;
  int64_t place_ = 0;  // The number of bytes of the file that were read.
  bool gzipped_ = false;
  bool cut_ = false;
  bool ended_ = false;
  std::vector<uint8_t> buffer_;
  z_stream stream_ = {};  // The state of zlib, whose input lies in buffer_.
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_DATA_BYTE_STREAM_H_
