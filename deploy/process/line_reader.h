// Cuts the bytes of a non-blocking descriptor, or bytes that a caller appends, into lines. Thread-compatible;
// never blocks.
#ifndef TETHYS_DEPLOY_PROCESS_LINE_READER_H_
#define TETHYS_DEPLOY_PROCESS_LINE_READER_H_

#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace tethys {

class LineReader {
 public:
  // A longer line is dropped: no Tethys process writes one.
  static constexpr size_t kMaxLineBytes = 1 << 20;

  // Reads from `fd`, which is the caller's, until it ends.
  void Attach(int fd) { fd_ = fd; }
  // The descriptor to poll, or -1 if there is none or it has ended.
  int fd() const { return fd_; }

  // Adds bytes that come from elsewhere than the descriptor.
  void Append(absl::string_view bytes);

  // The next complete line, without its newline. A last line without a newline is dropped: its writer died
  // while writing it.
  std::optional<std::string> Next();

 private:
  bool Fill();

  int fd_ = -1;
  std::string buffer_;
};

}  // namespace tethys

#endif  // TETHYS_DEPLOY_PROCESS_LINE_READER_H_
