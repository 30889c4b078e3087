// Cuts the bytes of a non-blocking descriptor, or bytes that a caller appends, into lines. Thread-compatible;
// never blocks.
#ifndef TETHYS_DEPLOY_PROCESS_LINE_READER_H_
#define TETHYS_DEPLOY_PROCESS_LINE_READER_H_

#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "deploy/process/remote_shell.h"

namespace tethys {

class LineReader {
 public:
  // The beginning of a longer line is dropped. No Tethys process writes such a line.
  static constexpr size_t kMaxLineBytes = 1 << 20;

  // From now on, Next reads from `fd`, which the caller owns, until end of file. Bytes up to and including
  // the first `mark` are skipped.
  void Attach(int fd, const std::string& mark = "") {
    fd_ = fd;
    mark_ = MarkSkipper(mark);
  }
  // The descriptor to poll; -1 if no descriptor is attached, or if the attached one has reached end of file.
  int fd() const { return fd_; }

  // Adds bytes that were not read from the descriptor.
  void Append(absl::string_view bytes);

  // The next complete line, without its newline. A last line without a newline is dropped: its writer died
  // while writing it. Returns nullopt if no complete line is available. Also returns nullopt if kMaxPieces
  // reads have not completed a line, so that an endless line does not delay the caller.
  std::optional<std::string> Next();

 private:
  static constexpr int kMaxPieces = 256;

  bool Fill();

  int fd_ = -1;
  MarkSkipper mark_;
  std::string buffer_;
};

}  // namespace tethys

#endif  // TETHYS_DEPLOY_PROCESS_LINE_READER_H_
