// Common parts of fuzz targets. A target passes any bytes to the product's own readers, and states by Require
// what must hold of the result. tests/fuzz.sh runs each under libFuzzer; everywhere else its corpus is
// replayed (fuzz_replay_test.cc). Targets keep no state between inputs; one thread.
#ifndef TETHYS_TESTS_FUZZ_FUZZ_H_
#define TETHYS_TESTS_FUZZ_FUZZ_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace tethys::fuzz {

// Prints `what` and aborts unless `condition` holds: a finding.
void Require(bool condition, absl::string_view what);

// Requires that `status` is an error whose message contains `where`.
void RequireRefusal(const absl::Status& status, absl::string_view where);

// Removes the input up to the next line "---" from its front and returns it. After the last section the input
// is empty.
absl::string_view TakeSection(absl::string_view& input);

// `contents` as an anonymous file that can be read by path() while this object lives.
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

// Reads numbers and strings from bytes; past the end, zeros and empty strings.
class ByteReader {
 public:
  explicit ByteReader(absl::string_view bytes) : bytes_(bytes) {}
  bool empty() const { return bytes_.empty(); }
  // A byte below 0xf0 is itself; any other is followed by eight bytes of any number, little-endian. So
  // meaningful numbers are likely, and all are possible.
  uint64_t Number();
  // The next bytes, at most `count`.
  absl::string_view Bytes(uint64_t count);

 private:
  absl::string_view bytes_;
};

}  // namespace tethys::fuzz

#endif  // TETHYS_TESTS_FUZZ_FUZZ_H_
