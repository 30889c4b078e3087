// Cuts what comes from a non-blocking descriptor, or in pieces, into lines. Thread-compatible; never blocks.
#ifndef TETHYS_DEPLOY_PROCESS_LINE_READER_H_
#define TETHYS_DEPLOY_PROCESS_LINE_READER_H_

#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace tethys {

class LineReader {
 public:
  // A longer line is dropped: nothing here writes one.
  static constexpr size_t kMaxLineBytes = 1 << 20;

  // Reads from `fd`, which is the caller's, until it ends.
  void Attach(int fd) { fd_ = fd; }
  // -1 when there is nothing to wait for.
  int fd() const { return fd_; }

  // What comes otherwise than from a descriptor.
  void Append(absl::string_view bytes);

  // The next line that is complete, without its end. A last line without an end is dropped: its writer died
  // in the middle of it.
  std::optional<std::string> Next();

 private:
  bool Fill();

  int fd_ = -1;
  std::string buffer_;
};

}  // namespace tethys

#endif  // TETHYS_DEPLOY_PROCESS_LINE_READER_H_
