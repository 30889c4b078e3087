#include "tests/fuzz/fuzz.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace tethys::fuzz {

void Require(bool condition, absl::string_view what) {
  if (condition) return;
  std::fprintf(stderr, "fuzz: this does not hold: %.*s\n", static_cast<int>(what.size()), what.data());
  std::abort();
}

void RequireRefusal(const absl::Status& status, absl::string_view where) {
  Require(!status.ok(), absl::StrCat("an error at ", where));
  Require(absl::StrContains(status.message(), where),
          absl::StrCat("'", status.message(), "' says where: ", where));
}

absl::string_view TakeSection(absl::string_view& input) {
  constexpr absl::string_view kEnd = "\n---\n";
  const size_t end = input.find(kEnd);
  const absl::string_view section = input.substr(0, end);
  input = end == absl::string_view::npos ? "" : input.substr(end + kEnd.size());
  return section;
}

InputFile::InputFile(absl::string_view contents)
    : fd_(memfd_create("input", MFD_CLOEXEC)), path_(absl::StrCat("/proc/self/fd/", fd_)) {
  const auto written = write(fd_, contents.data(), contents.size());
  Require(written == static_cast<ssize_t>(contents.size()), "memory for the input");
}

InputFile::~InputFile() { close(fd_); }

uint64_t ByteReader::Number() {
  const absl::string_view first = Bytes(1);
  const uint64_t small = first.empty() ? 0 : static_cast<unsigned char>(first[0]);
  if (small < 0xf0) return small;
  uint64_t number = 0;
  const absl::string_view bytes = Bytes(sizeof(number));
  std::memcpy(&number, bytes.data(), bytes.size());
  return number;
}

absl::string_view ByteReader::Bytes(uint64_t count) {
  const absl::string_view taken = bytes_.substr(0, std::min<uint64_t>(count, bytes_.size()));
  bytes_.remove_prefix(taken.size());
  return taken;
}

}  // namespace tethys::fuzz
