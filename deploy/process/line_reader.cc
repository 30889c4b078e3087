#include "deploy/process/line_reader.h"

#include <unistd.h>

#include <cerrno>

namespace tethys {

std::optional<std::string> LineReader::Next() {
  for (int piece = 0; piece <= kMaxPieces; ++piece) {
    if (const size_t end = buffer_.find('\n'); end != std::string::npos) {
      std::string line = buffer_.substr(0, end);
      buffer_.erase(0, end + 1);
      return line;
    }
    if (!Fill()) return std::nullopt;
  }
  return std::nullopt;
}

bool LineReader::Fill() {
  if (fd_ < 0) return false;
  char piece[4096];
  ssize_t got;
  do {
    got = read(fd_, piece, sizeof(piece));
  } while (got < 0 && errno == EINTR);
  if (got <= 0) {
    if (got == 0 || errno != EAGAIN) fd_ = -1;
    return false;
  }
  Append(mark_.Skip({piece, static_cast<size_t>(got)}));
  return true;
}

void LineReader::Append(absl::string_view bytes) {
  if (buffer_.size() > kMaxLineBytes && buffer_.find('\n') == std::string::npos) buffer_.clear();
  buffer_.append(bytes.data(), bytes.size());
}

}  // namespace tethys
