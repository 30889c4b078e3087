// What fuzz targets have in common. A target takes any bytes, gives them to the product's own readers, and
// says by Require what must hold of the answer. tests/fuzz.sh runs each under libFuzzer; everywhere else its
// corpus is replayed (fuzz_replay_test.cc). Targets keep nothing from one input to the next; one thread.
#ifndef TETHYS_TESTS_FUZZ_FUZZ_H_
#define TETHYS_TESTS_FUZZ_FUZZ_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace tethys::fuzz {

// Prints `what` and aborts unless `condition` holds: a finding.
void Require(bool condition, absl::string_view what);

// `status` is an error that says `where` something is wrong.
void RequireRefusal(const absl::Status& status, absl::string_view where);

// The input up to the next line that is "---", taken off its front. What is left is empty behind the last
// one.
absl::string_view TakeSection(absl::string_view& input);

// `input` as a file that is open for reading as long as this lives, though no folder has it.
class InputFile {
 public:
  explicit InputFile(absl::string_view contents);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  int fd_;
  std::string path_;
};

// Numbers and strings from bytes; zeros and nothing behind their end.
class ByteReader {
 public:
  explicit ByteReader(absl::string_view bytes) : bytes_(bytes) {}
  bool empty() const { return bytes_.empty(); }
  // A byte below 0xf0 is itself; any other is followed by eight bytes of any number, little-endian. So
  // numbers that mean something are likely, and all are possible.
  uint64_t Number();
  // As many as are there, at most `count`.
  absl::string_view Bytes(uint64_t count);

 private:
  absl::string_view bytes_;
};

}  // namespace tethys::fuzz

#endif  // TETHYS_TESTS_FUZZ_FUZZ_H_
