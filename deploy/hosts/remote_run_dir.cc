#include "deploy/hosts/remote_run_dir.h"

#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_format.h"
#include "deploy/process/remote_shell.h"
#include "deploy/process/scratch_directory.h"
#include "deploy/process/signal_source.h"
#include "deploy/process/ssh.h"
#include "google/protobuf/io/tokenizer.h"
#include "google/protobuf/text_format.h"
#include "proto/remote_run.pb.h"
#include "runtime/base/file.h"
#include "runtime/base/process.h"

namespace tethys {
namespace {

// Leaves out logs and progress, which are written on this machine anyway, and names that begin with a dot,
// which belong to one machine (among them the packed directory).
constexpr char kPack[] =
    "tar --exclude=./log --exclude=./progress.jsonl --exclude=./prediction.json --exclude='./.*' -cf - -C ";
constexpr char kPackedName[] = "/.transfer.tar";
constexpr char kUnpackedName[] = "/.transfer";
constexpr char kRecordName[] = "/.remote_run.textproto";
constexpr int64_t kMaxRecord = 1 << 16;
constexpr char kHoldsResults[] = "tethys-holds-results";

std::string Where(const std::string& host, const std::string& path) { return absl::StrCat(host, ":", path); }

// Resolves the symbolic links in the part of `path` that exists, so that a directory has the same name before
// and after it is created.
std::string AbsolutePath(const std::string& path) {
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::absolute(path, error);
  const std::filesystem::path resolved = std::filesystem::weakly_canonical(absolute, error);
  if (error) return path;
  return resolved.has_filename() ? resolved.string() : resolved.parent_path().string();
}

RemoteResult Run(const RemoteCommand& command) {
  const InterruptsHeld held;  // Interrupts are held until `scratch` has been removed.
  const absl::StatusOr<ScratchDirectory> scratch = ScratchDirectory::Create();
  if (!scratch.ok()) return {.status = scratch.status()};
  return RunEverywhere({command}, kTransferStall, scratch->path())[0];
}

// Shell code that exits with an error if the directory `there` holds any file but job.textproto.
std::string RefuseResults(const std::string& there) {
  return absl::StrCat("for file in ", there,
                      "/*; do test ! -e \"$file\" || test \"${file##*/}\" = job.textproto || { echo ",
                      kHoldsResults, "; exit 1; }; done; ");
}

// The status of a command that begins with the shell commands of RefuseResults. If these commands found
// results, the status says what the user can do.
absl::Status StatusThere(const Place& place, const std::string& run_dir, const RemoteResult& result) {
  if (!absl::StrContains(result.output, kHoldsResults)) return result.status;
  const std::string there = Where(place.host, ChiefRunDir(place, run_dir));
  return absl::FailedPreconditionError(absl::StrCat(
      there, " holds results of an earlier run that were never fetched to its run directory ", run_dir,
      ": copy them (scp -r) and remove them there, or name another directory by --run_dir"));
}

absl::Status WriteRecord(const Place& place, const std::string& run_dir) {
  proto::RemoteRun record;
  record.set_host(place.host);
  record.set_user(place.user);
  record.set_port(place.ssh_port);
  record.set_path(ChiefRunDir(place, run_dir));
  std::string text;
  TETHYS_CHECK(google::protobuf::TextFormat::PrintToString(record, &text));
  return WriteFileAtomically(run_dir + kRecordName, text);
}

// A parser that reports errors to this object does not write them to standard error.
class Silence final : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int /*line*/, int /*column*/, const std::string& /*message*/) override {}
};

bool ParseRecord(const std::string& text, proto::RemoteRun& record) {
  Silence silence;
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&silence);
  return parser.ParseFromString(text, &record) && !record.host().empty() &&
         absl::StartsWith(record.path(), "/");
}

// Returns a record without a host if the file does not exist.
absl::StatusOr<proto::RemoteRun> ReadRecord(const std::string& run_dir) {
  const std::string path = run_dir + kRecordName;
  proto::RemoteRun record;
  if (!FileExists(path)) return record;
  TETHYS_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kMaxRecord));
  if (!ParseRecord(text, record)) {
    return absl::DataLossError(
        absl::StrCat(path,
                     " does not say on which machine the results of an earlier attempt are: correct this "
                     "file (host: \"HOST\" path: \"/PATH\"), or remove this file to go on without these "
                     "results"));
  }
  return record;
}

// Sends the directory under another name and renames it when it is complete, so that an incomplete directory
// is never fetched.
absl::Status Send(const Place& place, const std::string& run_dir, const std::string& packed) {
  const std::string there = ShellQuote(ChiefRunDir(place, run_dir));
  const std::string aside = there + ".new";
  TETHYS_RETURN_IF_ERROR(Run({.ssh = {"sh", "-c"},
                              .command = absl::StrCat(kPack, ShellQuote(run_dir), " ."),
                              .output_path = packed,
                              .moves_data = true})
                             .status);
  const RemoteResult sent = Run({.ssh = place.ssh,
                                 .command = absl::StrCat(RefuseResults(there), "rm -rf ", there, " ", aside,
                                                         " && mkdir -p ", aside, " && tar -xf - -C ", aside),
                                 .input_path = packed,
                                 .moves_data = true});
  TETHYS_RETURN_IF_ERROR(StatusThere(place, run_dir, sent));
  TETHYS_RETURN_IF_ERROR(WriteRecord(place, run_dir));
  return Run({.ssh = place.ssh, .command = absl::StrCat("mv ", aside, " ", there)}).status;
}

// Moves every entry of `from` into `to`, replacing entries of the same name.
absl::Status MoveEntries(const std::string& from, const std::string& to) {
  std::error_code error;
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(from, error)) {
    names.push_back("/" + entry.path().filename().string());
  }
  if (error) return ErrnoStatus(error.value(), absl::StrCat("cannot read ", from));
  for (const std::string& name : names) {
    TETHYS_RETURN_IF_ERROR(RemoveRecursively(to + name));
    if (std::rename((from + name).c_str(), (to + name).c_str()) != 0) {
      return ErrnoStatus(errno, absl::StrCat("cannot rename ", from, name, " to ", to, name));
    }
  }
  return absl::OkStatus();
}

// Fetches the directory `path` into `run_dir`. During the transfer, the files are in the temporary file
// `packed` and the temporary directory `unpacked`, so that an interrupted transfer changes nothing else in
// `run_dir`.
absl::Status Bring(const std::vector<std::string>& ssh, const std::string& path, const std::string& run_dir,
                   const std::string& packed, const std::string& unpacked) {
  const std::string there = ShellQuote(path);
  const std::string pack =
      absl::StrCat("if test -d ", there, "; then ", kPack, there, " .; else tar -cf - -T /dev/null; fi");
  TETHYS_RETURN_IF_ERROR(
      Run({.ssh = ssh, .command = pack, .output_path = packed, .moves_data = true}).status);
  TETHYS_RETURN_IF_ERROR(RemoveRecursively(unpacked));
  TETHYS_RETURN_IF_ERROR(CreateDirectories(unpacked));
  TETHYS_RETURN_IF_ERROR(
      Run({.ssh = {"tar", "-xf", "-", "-C", unpacked}, .input_path = packed, .moves_data = true}).status);
  return MoveEntries(unpacked, run_dir);
}

absl::Status Fetch(const std::vector<std::string>& ssh, const std::string& path, const std::string& run_dir) {
  const std::string packed = run_dir + kPackedName;
  const std::string unpacked = run_dir + kUnpackedName;
  const absl::Status status = Bring(ssh, path, run_dir, packed, unpacked);
  unlink(packed.c_str());
  RemoveRecursively(unpacked).IgnoreError();
  TETHYS_RETURN_IF_ERROR(status);
  // The transfer is complete. If the directory cannot be removed on the chief's machine, the record stays,
  // and the directory is fetched again when the run is resumed.
  if (Run({.ssh = ssh, .command = "rm -rf " + ShellQuote(path)}).status.ok()) {
    unlink((run_dir + kRecordName).c_str());
  }
  return absl::OkStatus();
}

}  // namespace

std::string ChiefRunDir(const Place& place, const std::string& run_dir) {
  if (place.ssh.empty()) return run_dir;
  // One path for each run directory of each machine and user, so that an interrupted attempt is found again.
  const std::string path = AbsolutePath(run_dir);
  const size_t key = std::hash<std::string>()(absl::StrCat(HostName(), ":", getuid(), ":", path));
  return absl::StrCat(place.folder, "/runs/", path.substr(path.rfind('/') + 1),
                      absl::StrFormat("-%016x", key));
}

absl::Status CheckNothingLeft(const Place& place, const std::string& run_dir) {
  if (place.ssh.empty()) return absl::OkStatus();
  const std::string there = ShellQuote(ChiefRunDir(place, run_dir));
  const RemoteResult looked = Run({.ssh = place.ssh, .command = RefuseResults(there) + "true"});
  return StatusThere(place, run_dir, looked);
}

absl::Status SendRunDir(const Place& place, const std::string& run_dir) {
  if (place.ssh.empty()) return absl::OkStatus();
  const std::string packed = run_dir + kPackedName;
  const absl::Status status = Send(place, run_dir, packed);
  unlink(packed.c_str());
  return Annotate(status, absl::StrCat("cannot send the job to the chief's host ", place.host));
}

absl::Status FetchRunDir(const Place& place, const std::string& run_dir,
                         const std::function<void(const std::string&)>& note) {
  if (place.ssh.empty()) return absl::OkStatus();
  const std::string path = ChiefRunDir(place, run_dir);
  const std::string where = Where(place.host, path);
  absl::Status status = Fetch(place.ssh, path, run_dir);
  if (const int interrupt = absl::IsCancelled(status) ? TakeInterrupt() : 0; interrupt != 0) {
    note(absl::StrCat("interrupted, but the run has ended: still fetching its results from ", where,
                      "; interrupt once more to leave them there"));
    status = Fetch(place.ssh, path, run_dir);
    raise(interrupt);  // The signal stays pending, so that a sequence of runs ends with this run.
  }
  return Annotate(status, absl::StrCat("cannot fetch the results from ", where));
}

absl::Status FetchLeftRunDir(const std::string& ssh_config, const std::string& run_dir,
                             const std::function<void(const std::string&)>& note) {
  TETHYS_ASSIGN_OR_RETURN(const proto::RemoteRun record, ReadRecord(run_dir));
  if (record.host().empty()) return absl::OkStatus();
  const std::string where = Where(record.host(), record.path());
  const SshTarget target = {.host = record.host(), .user = record.user(), .port = record.port()};
  note("fetching the results that an earlier attempt left in " + where);
  const absl::Status fetched = Fetch(SshCall(ssh_config, target), record.path(), run_dir);
  if (fetched.ok()) return fetched;
  return absl::Status(fetched.code(),
                      absl::StrCat("cannot fetch the results that an earlier attempt left in ", where, ": ",
                                   fetched.message(), " (try: ", SshTrial(ssh_config, target),
                                   "); to go on without these results, remove ", run_dir, kRecordName));
}

std::string UnfetchedAt(const std::string& run_dir) {
  const absl::StatusOr<proto::RemoteRun> record = ReadRecord(run_dir);
  return record.ok() && !record->host().empty() ? Where(record->host(), record->path()) : "";
}

}  // namespace tethys
