// Text on its way to a terminal, a pipe or a file, written by a thread of its own, in order. Whoever hands it
// over never waits: a terminal may be stopped (Ctrl-S), and a pipe's reader may read nothing for hours. Used
// by the launcher's display. Thread-safe.
#ifndef TETHYS_DEPLOY_PROCESS_OUTPUT_QUEUE_H_
#define TETHYS_DEPLOY_PROCESS_OUTPUT_QUEUE_H_

#include <deque>
#include <string>
#include <thread>

#include "runtime/base/mutex.h"

namespace tethys {

class OutputQueue {
 public:
  // More than this is behind: what only matters at the moment need not be written now.
  static constexpr size_t kBehindBytes = 4 << 10;
  // What is written while so much waits is dropped. A line in its place says how many bytes.
  static constexpr size_t kMaxBytes = 4 << 20;

  // `fd` is the caller's, and outlives this.
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
  mutable Mutex mu_;
  CondVar changed_;
  std::deque<std::string> texts_ ABSL_GUARDED_BY(mu_);
  size_t bytes_ ABSL_GUARDED_BY(mu_) = 0;    // Of texts_, and of what is being written.
  size_t dropped_ ABSL_GUARDED_BY(mu_) = 0;  // Bytes since the last text.
  bool closing_ ABSL_GUARDED_BY(mu_) = false;
  std::thread writer_;
};

}  // namespace tethys

#endif  // TETHYS_DEPLOY_PROCESS_OUTPUT_QUEUE_H_
