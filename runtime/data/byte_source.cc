#include "runtime/data/byte_source.h"

#include <fcntl.h>
#include <glob.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <utility>

#include "runtime/base/empty_file.h"
#include "runtime/base/file.h"
#include "runtime/remote/remote_files.h"
#include "runtime/remote/url.h"

namespace tethys {
namespace {

// The size and the time of modification alone do not show every change: programs that copy or unpack files
// set the time of modification (cp -p, rsync -a, tar), and formats of fixed length keep the size. But no
// program can set back the time of the last change (ctime), and a file that replaces another file has another
// inode number. The number of the device is left out, because it differs among the hosts that mount a network
// disk, and after each mount.
std::string VersionOf(const struct stat& info) {
  return absl::StrCat(info.st_size, " ", info.st_mtim.tv_sec, ".", info.st_mtim.tv_nsec, " ",
                      info.st_ctim.tv_sec, ".", info.st_ctim.tv_nsec, " ", info.st_ino);
}

absl::Status CheckReadable(const struct stat& info, const std::string& path) {
  if (!S_ISREG(info.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": not a regular file: give the path of a file"));
  }
  if (info.st_size > 0) return absl::OkStatus();
  return EmptyFileError(path, "fetch it again");
}

class LocalFile final : public ByteSource {
 public:
  LocalFile(std::string path, FileDescriptor fd, const struct stat& info)
      : path_(std::move(path)), fd_(std::move(fd)), size_(info.st_size), version_(VersionOf(info)) {}

  const std::string& name() const override { return path_; }
  int64_t size() const override { return size_; }
  std::string version() const override { return version_; }

  absl::Status ReadAt(int64_t offset, absl::Span<uint8_t> out) const override {
    size_t done = 0;
    while (done < out.size()) {
      const ssize_t got =
          pread(fd_.get(), out.data() + done, out.size() - done, offset + static_cast<int64_t>(done));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return ErrnoStatus(errno, absl::StrCat("cannot read ", path_));
      if (got == 0) {
        return absl::DataLossError(absl::StrCat(path_, " ends at byte ", offset + static_cast<int64_t>(done),
                                                ", but had ", size_,
                                                " bytes when it was opened: the file was changed"));
      }
      done += static_cast<size_t>(got);
    }
    return absl::OkStatus();
  }

 private:
  const std::string path_;
  const FileDescriptor fd_;
  const int64_t size_;
  const std::string version_;
};

class FileElsewhere final : public ByteSource {
 public:
  explicit FileElsewhere(std::shared_ptr<const RemoteFile> file) : file_(std::move(file)) {}

  const std::string& name() const override { return file_->name(); }
  int64_t size() const override { return file_->size(); }
  std::string version() const override { return file_->version(); }
  absl::Status ReadAt(int64_t offset, absl::Span<uint8_t> out) const override {
    return file_->ReadAt(offset, out);
  }

 private:
  const std::shared_ptr<const RemoteFile> file_;
};

// The beginning of errors about a data file. Because it begins with the name of the field `data`, WithPlace
// (job_file.h) adds the place where the job sets this field.
constexpr char kDataFile[] = "data file (paths are relative to the working directory of the command)";

// Adds the paths of a local pattern.
absl::Status ExpandLocal(const std::string& pattern, std::vector<std::string>& paths) {
  glob_t found = {};
  // A missing folder contains no match; any other error ends the search.
  const auto ends = [](const char*, int error) { return error == ENOENT || error == ENOTDIR ? 0 : 1; };
  const int result = glob(pattern.c_str(), GLOB_NOMAGIC, ends, &found);
  for (size_t i = 0; result == 0 && i < found.gl_pathc; ++i) paths.emplace_back(found.gl_pathv[i]);
  globfree(&found);
  if (result == GLOB_NOMATCH) {
    return Annotate(absl::NotFoundError(absl::StrCat("no file matches ", pattern)), kDataFile);
  }
  if (result == 0) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat(
      "cannot look for ", pattern, result == GLOB_NOSPACE ? ": no memory" : ": a folder cannot be read"));
}

}  // namespace

absl::StatusOr<std::shared_ptr<const ByteSource>> OpenLocalFile(const std::string& path) {
  // Non-blocking, so that a pipe without a writer is refused and open does not wait for a writer.
  FileDescriptor fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd.valid()) {
    return Annotate(ErrnoStatus(errno, absl::StrCat("cannot open ", path)), kDataFile);
  }
  struct stat info;
  if (fstat(fd.get(), &info) != 0) return ErrnoStatus(errno, absl::StrCat("cannot stat ", path));
  TETHYS_RETURN_IF_ERROR(CheckReadable(info, path));
  return std::make_shared<LocalFile>(path, std::move(fd), info);
}

bool IsUrlPath(const std::string& path) { return IsUrl(path); }

std::string AbsolutePath(const std::string& path) {
  return IsUrl(path) ? path : std::filesystem::absolute(path).string();
}

absl::StatusOr<std::shared_ptr<const ByteSource>> OpenFile(const std::string& path) {
  if (!IsUrl(path)) return OpenLocalFile(path);
  TETHYS_ASSIGN_OR_RETURN(RemoteFiles* const files, ProcessRemoteFiles());
  TETHYS_ASSIGN_OR_RETURN(std::shared_ptr<const RemoteFile> file, files->Open(path));
  return std::make_shared<FileElsewhere>(std::move(file));
}

absl::StatusOr<LocalFileState> StateOfLocalFile(const std::string& path) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0) {
    return Annotate(ErrnoStatus(errno, absl::StrCat("cannot stat ", path)), kDataFile);
  }
  TETHYS_RETURN_IF_ERROR(CheckReadable(info, path));
  return LocalFileState{.size = info.st_size, .version = VersionOf(info)};
}

absl::StatusOr<std::string> FileVersion(const std::string& path) {
  if (IsUrl(path)) {
    TETHYS_ASSIGN_OR_RETURN(const auto file, OpenFile(path));
    if (!file->version().empty()) return file->version();
    return absl::FailedPreconditionError(
        absl::StrCat(file->name(),
                     ": the server of this file does not report when the file changes (ETag, Last-Modified), "
                     "so a cached copy might be out of date: write data { cache: NONE }"));
  }
  struct stat info;
  if (stat(path.c_str(), &info) != 0) return ErrnoStatus(errno, absl::StrCat("data file ", path));
  return VersionOf(info);
}

absl::StatusOr<std::vector<std::string>> ExpandPaths(const std::vector<std::string>& patterns) {
  std::vector<std::string> paths;
  for (const std::string& pattern : patterns) {
    if (!IsUrl(pattern)) {
      TETHYS_RETURN_IF_ERROR(ExpandLocal(pattern, paths));
      continue;
    }
    TETHYS_ASSIGN_OR_RETURN(RemoteFiles* const files, ProcessRemoteFiles());
    TETHYS_ASSIGN_OR_RETURN(const std::vector<std::string> urls, files->Expand(pattern));
    paths.insert(paths.end(), urls.begin(), urls.end());
  }
  return paths;
}

}  // namespace tethys
