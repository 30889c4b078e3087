#include "deploy/run/scale_request.h"

#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "runtime/base/file.h"

namespace tethys {
namespace {

constexpr int64_t kMostBytes = 1 << 16;

std::string MarkOf(const std::string& run_dir) { return absl::StrCat(run_dir, "/scalable.txt"); }
std::string RequestOf(const std::string& run_dir) { return absl::StrCat(run_dir, "/scale.txt"); }

}  // namespace

ScaleInbox::ScaleInbox(std::string run_dir, const std::string& host_file) : run_dir_(std::move(run_dir)) {
  RemoveRecursively(RequestOf(run_dir_)).IgnoreError();
  WriteFileAtomically(MarkOf(run_dir_), host_file).IgnoreError();
}

ScaleInbox::~ScaleInbox() { RemoveScaleFiles(run_dir_); }

bool ScaleInbox::HasRequest() const { return HasScaleRequest(run_dir_); }

absl::optional<std::vector<std::string>> ScaleInbox::Take() {
  const absl::StatusOr<std::string> text = ReadFile(RequestOf(run_dir_), kMostBytes);
  RemoveRecursively(RequestOf(run_dir_)).IgnoreError();
  if (!text.ok()) return absl::nullopt;
  return absl::StrSplit(*text, '\n', absl::SkipEmpty());
}

absl::StatusOr<std::string> HostFileOfScalable(const std::string& run_dir) {
  absl::StatusOr<std::string> host_file = ReadFile(MarkOf(run_dir), kMostBytes);
  if (host_file.ok()) return host_file;
  return absl::FailedPreconditionError(absl::StrCat(
      run_dir,
      " cannot change its numbers of processes while it runs: it belongs to a comparison, a study or a "
      "scheduler, "
      "or it has just begun; stop it, and go on with tethys train --resume --set=workers=N --run_dir=",
      run_dir));
}

absl::Status LeaveScaleRequest(const std::string& run_dir, const std::vector<std::string>& changes) {
  // The request gets its name by a link, which fails if the name exists, and never shows half a request.
  const std::string draft = absl::StrCat(RequestOf(run_dir), ".", getpid());
  TETHYS_RETURN_IF_ERROR(WriteFileAtomically(draft, absl::StrJoin(changes, "\n")));
  const int linked = link(draft.c_str(), RequestOf(run_dir).c_str());
  const int error = linked == 0 ? 0 : errno;
  RemoveRecursively(draft).IgnoreError();
  if (error == 0) return absl::OkStatus();
  if (error != EEXIST) return ErrnoStatus(error, absl::StrCat("cannot write ", RequestOf(run_dir)));
  return absl::FailedPreconditionError(
      "another change of the numbers of processes of this run has not been made yet: wait until it is made");
}

bool HasScaleRequest(const std::string& run_dir) { return FileExists(RequestOf(run_dir)); }

void RemoveScaleFiles(const std::string& run_dir) {
  RemoveRecursively(MarkOf(run_dir)).IgnoreError();
  RemoveRecursively(RequestOf(run_dir)).IgnoreError();
}

}  // namespace tethys
