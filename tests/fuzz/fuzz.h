// Common parts of fuzz targets. A target passes arbitrary bytes to code of Tethys that reads input, and
// checks the result by Require. tests/fuzz.sh runs each target under libFuzzer; all other builds replay the
// target's corpus (fuzz_replay_test.cc). Targets keep no state between inputs, and use one thread.
#ifndef TETHYS_TESTS_FUZZ_FUZZ_H_
#define TETHYS_TESTS_FUZZ_FUZZ_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace tethys::fuzz {

// If `condition` is false, prints `what` and aborts: a finding.
void Require(bool condition, absl::string_view what);

// Requires that `status` is an error whose message contains `where`.
void RequireRefusal(const absl::Status& status, absl::string_view where);

// Removes the first section from `input` and returns it. A section ends at a line "---". After the last
// section, `input` is empty.
absl::string_view TakeSection(absl::string_view& input);

// An anonymous file with the given contents. Other code can read the file by path() while this object lives.
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

// Reads numbers and strings from bytes; past their end, reads zeros and empty strings.
class ByteReader {
 public:
  explicit ByteReader(absl::string_view bytes) : bytes_(bytes) {}
  bool empty() const { return bytes_.empty(); }
  // Reads a number: a byte below 0xf0 is the number itself; any other byte is followed by the number in eight
  // bytes, little-endian. So small numbers are likely, and all numbers are possible.
  uint64_t Number();
  // The next bytes, at most `count`.
  absl::string_view Bytes(uint64_t count);

 private:
  absl::string_view bytes_;
};

}  // namespace tethys::fuzz

#endif  // TETHYS_TESTS_FUZZ_FUZZ_H_
