// The bytes of a pipe are copied into a memory file (memfd_create). The memory file takes over the pipe's
// descriptor number N, so that opening /dev/fd/N opens the memory file from its beginning. Other processes,
// such as ssh, open the memory file as /proc/PID/fd/N.
#include "deploy/flags/piped_files.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "runtime/base/file.h"

namespace tethys {
namespace {

// The descriptor N of /dev/fd/N, /proc/self/fd/N or /dev/stdin; -1 for other paths.
int DescriptorOf(absl::string_view path) {
  if (path == "/dev/stdin") return STDIN_FILENO;
  int descriptor = -1;
  if ((absl::ConsumePrefix(&path, "/dev/fd/") || absl::ConsumePrefix(&path, "/proc/self/fd/")) &&
      absl::SimpleAtoi(path, &descriptor) && descriptor >= 0) {
    return descriptor;
  }
  return -1;
}

absl::StatusOr<FileDescriptor> CopyToMemory(const std::string& path) {
  const FileDescriptor pipe(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!pipe.valid()) return ErrnoStatus(errno, absl::StrCat("cannot open ", path));
  FileDescriptor memory(memfd_create("tethys-input", MFD_CLOEXEC));
  if (!memory.valid()) return ErrnoStatus(errno, absl::StrCat("cannot keep ", path, " in memory"));
  fchmod(memory.get(), S_IRUSR | S_IWUSR);  // Only the owner may open the memory file.
  std::vector<char> piece(1 << 16);
  int64_t bytes = 0;
  while (true) {
    const ssize_t got = read(pipe.get(), piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ErrnoStatus(errno, absl::StrCat("cannot read ", path));
    if (got == 0) return memory;
    bytes += got;
    if (bytes > kMaxPipedBytes) {
      return absl::ResourceExhaustedError(
          absl::StrCat(path, " is a pipe with more than ", kMaxPipedBytes, " bytes: name a file"));
    }
    TETHYS_RETURN_IF_ERROR(WriteFully(memory.get(), piece.data(), got, path));
  }
}

// Copies the file into memory if it is a pipe. Returns the path at which this process can open the file from
// now on. With `for_other_programs`, other programs can open this path, too.
absl::StatusOr<std::string> Keep(const std::string& path, bool for_other_programs) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0 || !S_ISFIFO(info.st_mode)) return path;
  TETHYS_ASSIGN_OR_RETURN(FileDescriptor memory, CopyToMemory(path));
  int descriptor = DescriptorOf(path);
  const bool keeps_path = descriptor >= 0 && !for_other_programs;
  if (descriptor < 0) {
    descriptor = memory.Release();
  } else if (dup2(memory.get(), descriptor) < 0) {
    return ErrnoStatus(errno, absl::StrCat("cannot keep ", path, " in memory"));
  }
  return keeps_path ? path : absl::StrCat("/proc/", getpid(), "/fd/", descriptor);
}

}  // namespace

absl::Status KeepPipedFiles(const CommandSpec& spec, Flags& flags) {
  for (const FlagSpec& flag : spec.flags) {
    if (!flag.is_input || !flags.Has(flag.name)) continue;
    const bool for_other_programs = flag.name == "ssh_config" || flag.name == "bundle";
    TETHYS_ASSIGN_OR_RETURN(const std::string path, Keep(flags.Get(flag.name), for_other_programs));
    flags.Replace(flag.name, path);
  }
  for (size_t i = 0; i < flags.arguments().size(); ++i) {
    TETHYS_ASSIGN_OR_RETURN(const std::string path, Keep(flags.arguments()[i], false));
    flags.ReplaceArgument(i, path);
  }
  return absl::OkStatus();
}

}  // namespace tethys
