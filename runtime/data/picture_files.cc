#include "runtime/data/picture_files.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "runtime/base/file.h"
#include "runtime/data/byte_source.h"

namespace tethys {
namespace {

namespace fs = std::filesystem;

absl::Status CannotRead(const std::string& folder, const std::error_code& error) {
  return absl::NotFoundError(absl::StrCat("cannot read the folder ", folder, ": ", error.message(),
                                          " (paths are relative to the working directory of the command)"));
}

// True for hidden names, and for names of files that macOS, Windows and network disks create by themselves.
bool IsNobodys(absl::string_view name) {
  static constexpr absl::string_view kOfSystems[] = {
      "__MACOSX",    "@eaDir",      "lost+found", "$RECYCLE.BIN", "System Volume Information",
      "__pycache__", "desktop.ini", "Thumbs.db",  "ehthumbs.db"};
  return name.empty() || name[0] == '.' ||
         std::any_of(std::begin(kOfSystems), std::end(kOfSystems),
                     [&](absl::string_view system) { return absl::EqualsIgnoreCase(name, system); });
}

bool IsFolder(const fs::directory_entry& entry) {
  std::error_code error;
  return entry.is_directory(error);
}

bool IsPictureName(absl::string_view name) {
  return absl::EndsWithIgnoreCase(name, ".png") || absl::EndsWithIgnoreCase(name, ".jpg") ||
         absl::EndsWithIgnoreCase(name, ".jpeg");
}

// Reads a file that is smaller than `bytes`, with as few system calls as possible, because system calls take
// a third of the time that is spent on a small picture. Returns the size of the file; 0: the file is empty,
// not smaller than `bytes` or unreadable, or, like a pipe, cannot be read at a given position.
int64_t ReadSmallFile(const std::string& path, absl::Span<uint8_t> bytes) {
  const FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  size_t size = 0;
  while (size < bytes.size()) {
    const ssize_t got =
        pread(file.get(), bytes.data() + size, bytes.size() - size, static_cast<int64_t>(size));
    if (got == 0) return static_cast<int64_t>(size);
    if (got < 0) break;
    size += static_cast<size_t>(got);
  }
  return 0;
}

}  // namespace

absl::StatusOr<NamesInFolder> ListFolder(const std::string& folder) {
  NamesInFolder names;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    std::string name = at->path().filename().string();
    if (IsNobodys(name)) continue;
    // Pictures are recognised by their names alone. Asking the file system for the type of each file would
    // take long in large folders.
    std::vector<std::string>& kind = IsPictureName(name) ? names.pictures
                                     : IsFolder(*at)     ? names.folders
                                                         : names.others;
    kind.push_back(std::move(name));
  }
  if (error) return CannotRead(folder, error);
  for (auto* kind : {&names.pictures, &names.folders, &names.others}) std::sort(kind->begin(), kind->end());
  return names;
}

absl::StatusOr<std::vector<std::string>> FolderNamesIn(const std::string& folder) {
  TETHYS_ASSIGN_OR_RETURN(NamesInFolder names, ListFolder(folder));
  return std::move(names.folders);
}

absl::StatusOr<std::vector<std::string>> PictureNamesIn(const std::string& folder) {
  TETHYS_ASSIGN_OR_RETURN(NamesInFolder names, ListFolder(folder));
  return std::move(names.pictures);
}

absl::StatusOr<std::vector<std::string>> PicturesUnder(const std::string& folder, int64_t& others) {
  others = 0;
  std::vector<std::string> paths;
  std::error_code error;
  for (fs::recursive_directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (IsNobodys(name)) {
      at.disable_recursion_pending();
    } else if (!IsFolder(*at)) {
      if (!IsPictureName(name)) ++others;
      if (IsPictureName(name)) paths.push_back(at->path().lexically_relative(folder).string());
    }
  }
  if (error) return CannotRead(folder, error);
  std::sort(paths.begin(), paths.end());
  return paths;
}

std::string FirstNames(const std::vector<std::string>& names) {
  constexpr size_t kMostNamed = 3;
  const size_t count = std::min(kMostNamed, names.size());
  return absl::StrCat(absl::StrJoin(names.begin(), names.begin() + static_cast<int64_t>(count), ", "),
                      count < names.size() ? ", ..." : "");
}

absl::Span<const uint8_t> ReadPictureBeginning(const std::string& path, size_t bytes) {
  thread_local std::vector<uint8_t> buffer;
  buffer.resize(std::max(buffer.size(), bytes));
  const FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  const ssize_t got = pread(file.get(), buffer.data(), bytes, 0);
  return absl::MakeConstSpan(buffer).first(std::max<ssize_t>(got, 0));
}

absl::StatusOr<absl::Span<const uint8_t>> ReadPictureFile(const std::string& path) {
  constexpr int64_t kMaxBytes = int64_t{1} << 30;
  thread_local std::vector<uint8_t> bytes(1 << 16);
  if (const int64_t size = ReadSmallFile(path, absl::MakeSpan(bytes)); size > 0) {
    return absl::MakeConstSpan(bytes).first(size);
  }
  TETHYS_ASSIGN_OR_RETURN(const auto file, OpenLocalFile(path));
  if (file->size() > kMaxBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": ", file->size(), " bytes are too many for a picture; the limit is 1 GiB"));
  }
  // From now on, ReadSmallFile on this thread reads files of up to this size.
  bytes.resize(std::max<size_t>(bytes.size(), file->size() + 1));
  const absl::Span<uint8_t> whole = absl::MakeSpan(bytes).first(file->size());
  TETHYS_RETURN_IF_ERROR(file->ReadAt(0, whole));
  return whole;
}

}  // namespace tethys
