#include "runtime/data/chief_copies.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <map>
#include <utility>
#include <vector>

#include "runtime/base/crc32c.h"
#include "runtime/base/file.h"
#include "runtime/base/logging.h"
#include "runtime/data/chief_paths.h"
#include "runtime/data/host_cache.h"

namespace tethys {
namespace {

constexpr int kMostTries = 5;  // The most consecutive tries to read from the chief that receive no byte.

// The path at which the copy of the chief's file `path` lies in the cache's folder `entry`.
std::string PathInEntry(const std::string& entry, absl::string_view path) {
  return absl::StrCat(entry, path.substr(0, 1) == "/" ? "" : "/", path);
}

// A pattern (glob(7)) that matches exactly this path.
std::string AsPattern(const std::string& path) {
  std::string pattern;
  for (const char letter : path) {
    if (absl::string_view("*?[]\\").find(letter) != absl::string_view::npos) pattern += '\\';
    pattern += letter;
  }
  return pattern;
}

bool HasSize(const std::string& path, int64_t size) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) && info.st_size == size;
}

// Fetches one file. If a stream breaks, continues at the same byte.
absl::Status Fetch(const proto::ChiefFile& file, const std::string& path, ReadFromChief read,
                   absl::FunctionRef<void()> progressed) {
  TETHYS_RETURN_IF_ERROR(CreateDirectories(std::filesystem::path(path).parent_path().string()));
  const FileDescriptor out(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!out.valid()) return ErrnoStatus(errno, absl::StrCat("cannot create ", path));
  TETHYS_RETURN_IF_ERROR(ReserveInCache(out.get(), file.size(), path));
  int64_t done = 0;
  uint32_t crc = 0;
  const auto take = [&](absl::string_view bytes) -> absl::Status {
    const auto count = static_cast<int64_t>(bytes.size());
    if (count > file.size() - done) return absl::DataLossError("the chief sent more bytes than it announced");
    TETHYS_RETURN_IF_ERROR(WriteFullyAt(out.get(), bytes.data(), count, done, path));
    crc = Crc32c(bytes, crc);
    done += count;
    progressed();
    return absl::OkStatus();
  };
  absl::Status status;
  for (int tries = 0; tries < kMostTries; ++tries) {
    const int64_t before = done;
    status = read(file.path(), done, take);
    if (!absl::IsUnavailable(status)) break;
    if (done > before) tries = 0;
  }
  TETHYS_RETURN_IF_ERROR(Annotate(ExplainFullCache(status, path),
                                  absl::StrCat("fetching chief://", file.path(), " from the chief")));
  if (done != file.size() || crc != file.crc32c()) {
    return absl::DataLossError(absl::StrCat("chief://", file.path(), ": ", done, " of ", file.size(),
                                            " bytes came from the chief, and their checksum is ",
                                            crc == file.crc32c() ? "right" : "wrong",
                                            ": start the job again"));
  }
  if (fsync(out.get()) != 0) return ErrnoStatus(errno, absl::StrCat("cannot sync ", path));
  return absl::OkStatus();
}

class Copies {
 public:
  Copies(const HostCache& cache, const google::protobuf::RepeatedPtrField<proto::ChiefFile>& files,
         ReadFromChief read)
      : cache_(cache), files_(files), read_(read) {}

  // Fetches the files that `named` names. Returns the paths of the copies, which replace the path of `named`
  // in the job's data.
  absl::StatusOr<std::vector<std::string>> Of(const ChiefPath& named) {
    std::vector<const proto::ChiefFile*> files;
    CacheKey key;
    bool whole = false;  // True: `named` is the path of one file or of a folder, not a pattern.
    for (const proto::ChiefFile& file : files_) {
      if (!Covers(named, file.path())) continue;
      if (!StaysBelow(file.path()) || file.size() < 0) {
        return absl::InvalidArgumentError(
            absl::StrCat("the chief lists a file with an invalid path or size: chief://", file.path()));
      }
      whole |=
          file.path() == named.path || file.path().compare(0, named.path.size() + 1, named.path + "/") == 0;
      files.push_back(&file);
      key.Add(file.path()).Add(file.size()).Add(static_cast<int64_t>(file.crc32c()));
    }
    if (files.empty()) {
      return absl::InvalidArgumentError(absl::StrCat("the chief lists no file of chief://", named.path));
    }
    TETHYS_ASSIGN_OR_RETURN(const std::string entry, Entry(absl::StrCat("chief-", key.text()), files));
    if (!named.pattern) return std::vector<std::string>{PathInEntry(entry, named.path) + named.member};
    if (whole) return std::vector<std::string>{AsPattern(PathInEntry(entry, named.path)) + named.member};
    std::vector<std::string> paths;
    for (const proto::ChiefFile* file : files) paths.push_back(AsPattern(PathInEntry(entry, file->path())));
    return paths;
  }

 private:
  absl::StatusOr<std::string> Entry(const std::string& name,
                                    const std::vector<const proto::ChiefFile*>& files) {
    const auto accept = [&](const std::string& entry) {
      for (const proto::ChiefFile* file : files) {
        if (!HasSize(PathInEntry(entry, file->path()), file->size())) return false;
      }
      return true;
    };
    const auto make = [&](const std::string& entry, absl::FunctionRef<void()> progressed) -> absl::Status {
      int64_t bytes = 0;
      for (const proto::ChiefFile* file : files) {
        TETHYS_RETURN_IF_ERROR(Fetch(*file, PathInEntry(entry, file->path()), read_, progressed));
        bytes += file->size();
      }
      TETHYS_LOG(Info, "fetched ", files.size(), files.size() == 1 ? " file, " : " files, ", bytes,
                 " bytes, from the chief: ", files.front()->path(), files.size() == 1 ? "" : " and others");
      return absl::OkStatus();
    };
    return cache_.Entry(name, accept, make);
  }

  const HostCache& cache_;
  const google::protobuf::RepeatedPtrField<proto::ChiefFile>& files_;
  const ReadFromChief read_;
};

}  // namespace

absl::StatusOr<proto::Data> FetchFromChief(const proto::Data& data,
                                           const google::protobuf::RepeatedPtrField<proto::ChiefFile>& files,
                                           ReadFromChief read) {
  TETHYS_ASSIGN_OR_RETURN(const std::vector<ChiefPath> named, ChiefPathsOf(data));
  if (named.empty()) return data;
  TETHYS_ASSIGN_OR_RETURN(const HostCache cache, HostCache::Open(data.cache_dir()));
  Copies copies(cache, files, read);
  proto::Data here = data;
  absl::Status status;
  ReplacePaths(here, [&](const std::string& path, bool several) -> std::vector<std::string> {
    const absl::optional<ChiefPath> of = ChiefPathOf(path, several);
    if (!of.has_value() || !status.ok()) return {path};
    absl::StatusOr<std::vector<std::string>> paths = copies.Of(*of);
    status.Update(paths.status());
    return paths.ok() ? *std::move(paths) : std::vector<std::string>{path};
  });
  TETHYS_RETURN_IF_ERROR(status);
  return here;
}

}  // namespace tethys
