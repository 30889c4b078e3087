// A queue of text for a terminal, a pipe or a file, written in order by a thread of its own. Write never
// blocks, although a terminal may be stopped (Ctrl-S) and a pipe's reader may read nothing for hours. Used by
// the launcher's display. Thread-safe.
#ifndef TETHYS_DEPLOY_PROCESS_OUTPUT_QUEUE_H_
#define TETHYS_DEPLOY_PROCESS_OUTPUT_QUEUE_H_

#include <deque>
#include <string>

#include "runtime/base/mutex.h"
#include "runtime/base/thread.h"

namespace tethys {

class OutputQueue {
 public:
  // If more bytes than this are queued, behind() is true, and callers should not write text that is soon
  // outdated.
  static constexpr size_t kBehindBytes = 4 << 10;
  // Text written while this many bytes are queued is dropped. A line with the number of dropped bytes
  // replaces it.
  static constexpr size_t kMaxBytes = 4 << 20;

  // The caller owns `fd` and must keep it open during the OutputQueue's lifetime. If no thread can be
  // started, Write writes to `fd` itself, and may block.
  explicit OutputQueue(int fd);
  // Waits until everything is written.
  ~OutputQueue();
  OutputQueue(const OutputQueue&) = delete;
  OutputQueue& operator=(const OutputQueue&) = delete;

  void Write(std::string text);
  bool behind() const;

 private:
  void WriteAll();

  const int fd_;
  bool threaded_ = false;  // True if writer_ runs. Constant after construction.
  mutable Mutex mu_;
  CondVar changed_;
  std::deque<std::string> texts_ ABSL_GUARDED_BY(mu_);
  size_t bytes_ ABSL_GUARDED_BY(mu_) = 0;    // Bytes in texts_ and in the text that is being written.
  size_t dropped_ ABSL_GUARDED_BY(mu_) = 0;  // Bytes dropped since the last queued text.
  bool closing_ ABSL_GUARDED_BY(mu_) = false;
  Thread writer_;
};

}  // namespace tethys

#endif  // TETHYS_DEPLOY_PROCESS_OUTPUT_QUEUE_H_
