#include "runtime/data/csv_lines.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/strip.h"
#include "runtime/base/empty_file.h"
#include "runtime/base/text_encoding.h"

namespace tethys {
namespace {

constexpr int64_t kBlock = int64_t{1} << 18;

// Collects the positions at which lines begin, given the ends of lines in ascending order.
class Finder {
 public:
  Finder(const std::string& name, int64_t first) : name_(name), begin_(first), end_(first) {}

  // Adds a line that ends before `end`; the next line begins at `next`.
  absl::Status Add(int64_t end, bool carriage_return, int64_t next) {
    ++lines_;
    const int64_t bytes = end - begin_ - (carriage_return ? 1 : 0);
    if (bytes == 0) {
      if (empty_ == 0) empty_ = lines_;
    } else if (empty_ > 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(name_, ", line ", empty_, " is empty: remove it, or write a sample there"));
    } else if (bytes > CsvLines::kMostLineBytes) {
      return absl::InvalidArgumentError(absl::StrCat(name_, ", line ", lines_, " has ", bytes,
                                                     " bytes; a line may have at most ",
                                                     CsvLines::kMostLineBytes, " bytes"));
    } else {
      begins_.push_back(begin_);
      end_ = next;
    }
    begin_ = next;
    return absl::OkStatus();
  }
  int64_t begin() const { return begin_; }
  int64_t end() const { return end_; }
  std::vector<int64_t> Take() {
    begins_.shrink_to_fit();
    return std::move(begins_);
  }

 private:
  const std::string& name_;
  std::vector<int64_t> begins_;
  int64_t begin_, end_;
  int64_t lines_ = 0;
  int64_t empty_ = 0;  // The number of the first empty line, from 1.
};

absl::StatusOr<int64_t> FirstByte(const ByteSource& file) {
  constexpr int64_t kLongestMark = 4;
  std::vector<uint8_t> bytes(std::min(file.size(), kLongestMark));
  TETHYS_RETURN_IF_ERROR(file.ReadAt(0, absl::MakeSpan(bytes)));
  const absl::string_view start(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  TETHYS_ASSIGN_OR_RETURN(const absl::string_view plain, WithoutByteOrderMark(start, file.name()));
  return static_cast<int64_t>(start.size() - plain.size());
}

}  // namespace

absl::StatusOr<CsvLines> CsvLines::Find(std::shared_ptr<const ByteSource> file) {
  TETHYS_ASSIGN_OR_RETURN(int64_t place, FirstByte(*file));
  Finder finder(file->name(), place);
  std::vector<uint8_t> block;
  bool carriage_return = false;  // True if the byte before `place` is a carriage return.
  while (place < file->size()) {
    block.resize(std::min(kBlock, file->size() - place));
    TETHYS_RETURN_IF_ERROR(file->ReadAt(place, absl::MakeSpan(block)));
    const uint8_t* const first = block.data();
    const uint8_t* const last = first + block.size();
    for (const uint8_t* at = first; at < last;) {
      const auto* const end = static_cast<const uint8_t*>(std::memchr(at, '\n', last - at));
      if (end == nullptr) break;
      const int64_t offset = place + (end - first);
      const bool returned = end > first ? end[-1] == '\r' : carriage_return;
      TETHYS_RETURN_IF_ERROR(finder.Add(offset, returned && offset > finder.begin(), offset + 1));
      at = end + 1;
    }
    carriage_return = last[-1] == '\r';
    place += static_cast<int64_t>(block.size());
  }
  if (finder.begin() < place) TETHYS_RETURN_IF_ERROR(finder.Add(place, carriage_return, place));
  const int64_t end = finder.end();
  CsvLines lines(std::move(file), finder.Take(), end);
  if (lines.size() > 0) return lines;
  return AsEmptyFile(absl::InvalidArgumentError(
      absl::StrCat(lines.file_->name(), ": the file has only empty lines: write one sample per line")));
}

absl::Status CsvLines::LeaveOutBlankEnd(char delimiter) {
  while (size() > 0) {
    TETHYS_ASSIGN_OR_RETURN(const absl::string_view line, Read(size() - 1));
    const char blanks[] = {delimiter, ' ', '\t', '\r', '"', '\0'};
    if (line.find_first_not_of(blanks) != absl::string_view::npos) break;
    end_ = begins_.back();
    begins_.pop_back();
  }
  return absl::OkStatus();
}

absl::StatusOr<absl::string_view> CsvLines::Read(int64_t index) const {
  thread_local std::string buffer;
  const int64_t end = index + 1 < size() ? begins_[index + 1] : end_;
  buffer.resize(end - begins_[index]);
  TETHYS_RETURN_IF_ERROR(
      file_->ReadAt(begins_[index], {reinterpret_cast<uint8_t*>(buffer.data()), buffer.size()}));
  absl::string_view line = buffer;
  absl::ConsumeSuffix(&line, "\n");
  absl::ConsumeSuffix(&line, "\r");
  return line;
}

}  // namespace tethys
