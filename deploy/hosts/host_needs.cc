#include "deploy/hosts/host_needs.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "deploy/process/remote_shell.h"
#include "deploy/process/ssh.h"
#include "runtime/base/file.h"
#include "runtime/data/byte_source.h"
#include "runtime/data/chief_files.h"
#include "runtime/data/dataset.h"

namespace tethys {
namespace {

// A long deadline, because NVIDIA's libraries may be loaded over a network at first use.
constexpr Nanoseconds kDeadline = 120 * kSecond;
constexpr char kMark[] = "tethys-lacks ";
constexpr char kEnd[] = "tethys-lacks-no-more";
constexpr char kRemedy[] =
    "Copy missing files to the same path on that host (a relative path begins in the home directory there), "
    "or write chief://PATH in the job: workers then get the files from this machine, which must be the "
    "chief (role=chief in the host file)";

absl::StatusOr<int64_t> FileSize(const std::string& path) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0) return ErrnoStatus(errno, absl::StrCat("data file ", path));
  return info.st_size;
}

bool OnGpu(const proto::Job& job, const Places& places, size_t worker) {
  const proto::Device::Kind kind =
      places.worker_devices.empty() ? job.device().kind() : places.worker_devices[worker];
  return kind == proto::Device::CUDA;
}

RemoteCommand Question(const HostNeeds& needs, const Place& place) {
  RemoteCommand command{.ssh = place.ssh};
  std::vector<std::string> words = NeedsArguments(needs);
  words.insert(words.begin(), {place.program, "ready"});
  if (place.ssh.empty()) {
    command.ssh = std::move(words);
  } else {
    command.command = absl::StrJoin(words, " ", [](std::string* out, const std::string& word) {
      absl::StrAppend(out, ShellQuote(word));
    });
  }
  return command;
}

// Lists the files and GPUs that a machine lacks according to its `tethys ready`, one line each.
std::vector<std::string> Lacks(const RemoteResult& result) {
  if (!result.status.ok()) return {std::string(result.status.message())};
  std::vector<std::string> lacks;
  for (absl::string_view line : absl::StrSplit(result.output, '\n')) {
    if (line == kEnd) return lacks;
    if (absl::ConsumePrefix(&line, kMark)) lacks.emplace_back(line);
  }
  return {"tethys ready does not answer on this host"};
}

// A missing file or GPU as text, and the machines that lack it.
struct Lack {
  std::string what;
  std::vector<std::string> hosts;
};

void AddLack(const std::string& what, const std::string& host, std::vector<Lack>& lacks) {
  const auto known =
      std::find_if(lacks.begin(), lacks.end(), [&](const Lack& lack) { return lack.what == what; });
  if (known == lacks.end()) {
    lacks.push_back({what, {host}});
  } else {
    known->hosts.push_back(host);
  }
}

bool IsMissingFile(const Lack& lack) {
  return absl::StartsWith(lack.what, "data file ") && absl::EndsWith(lack.what, "No such file or directory");
}

}  // namespace

absl::StatusOr<std::map<std::string, HostNeeds>> NeedsOf(const proto::Job& job, const Places& places,
                                                         const std::vector<std::string>& cuda_library_path) {
  HostNeeds of_reader, of_worker;
  TETHYS_ASSIGN_OR_RETURN(const std::vector<std::string> paths, DataFiles(job.data()));
  for (const std::string& path : paths) {
    if (IsUrlPath(path)) continue;  // A URL is opened by every process itself.
    TETHYS_ASSIGN_OR_RETURN(of_reader.files[path], FileSize(path));
  }
  TETHYS_ASSIGN_OR_RETURN(const std::vector<std::string> paths_of_workers, DataFilesOfWorkers(job.data()));
  for (const std::string& path : paths_of_workers) {
    if (!IsUrlPath(path)) of_worker.files[path] = of_reader.files[path];
  }
  std::map<std::string, HostNeeds> needs;
  // The chief reads the data, too.
  if (!places.chief.ssh.empty()) needs[places.chief.host] = of_reader;
  for (size_t i = 0; i < places.workers.size(); ++i) {
    HostNeeds& of_host = needs[places.workers[i].host];
    if (!places.workers[i].ssh.empty()) of_host.files.insert(of_worker.files.begin(), of_worker.files.end());
    if (!OnGpu(job, places, i)) continue;
    ++of_host.gpus;
    of_host.bf16 = job.device().precision() == proto::Device::BF16;
    of_host.tf32 = job.device().tf32();
    of_host.cuda_library_path = cuda_library_path;
  }
  return needs;
}

void AddNeeds(const HostNeeds& more, HostNeeds& needs) {
  for (const auto& [path, size] : more.files) needs.files[path] = size;
  needs.gpus = std::max(needs.gpus, more.gpus);
  needs.bf16 |= more.bf16;
  needs.tf32 |= more.tf32;
  if (more.gpus > 0) needs.cuda_library_path = more.cuda_library_path;
}

std::vector<std::string> NeedsArguments(const HostNeeds& needs) {
  std::vector<std::string> words;
  for (const auto& [path, size] : needs.files) words.push_back(absl::StrCat("--file=", size, ":", path));
  if (needs.gpus == 0) return words;
  words.push_back(absl::StrCat("--gpus=", needs.gpus));
  if (needs.bf16) words.push_back("--bf16");
  if (needs.tf32) words.push_back("--tf32");
  for (const std::string& folder : needs.cuda_library_path) words.push_back("--cuda_library_path=" + folder);
  return words;
}

std::vector<std::string> LackingFiles(const HostNeeds& needs) {
  std::vector<std::string> lacks;
  for (const auto& [path, wanted] : needs.files) {
    const absl::StatusOr<int64_t> size = FileSize(path);
    if (!size.ok()) {
      lacks.emplace_back(size.status().message());
    } else if (!FileDescriptor(open(path.c_str(), O_RDONLY | O_CLOEXEC)).valid()) {
      lacks.push_back(std::string(ErrnoStatus(errno, absl::StrCat("data file ", path)).message()));
    } else if (*size != wanted) {
      lacks.push_back(absl::StrCat("data file ", path, " has ", *size, " bytes there and ", wanted,
                                   " here: all machines must have the same data"));
    }
  }
  if (const int more = static_cast<int>(lacks.size()) - kMostLackingFiles; more > 1) {
    lacks.resize(kMostLackingFiles);
    lacks.push_back(absl::StrCat("and ", more, " more data files"));
  }
  return lacks;
}

std::string LackText(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) {
    absl::StrAppend(&text, kMark, absl::StrJoin(absl::StrSplit(line, '\n'), "; "), "\n");
  }
  return absl::StrCat(text, kEnd, "\n");
}

absl::Status AskForNeeds(const std::map<std::string, HostNeeds>& needs, const std::vector<Place>& places,
                         const std::string& scratch) {
  std::vector<const Place*> asked;
  std::vector<RemoteCommand> commands;
  for (const Place& place : places) {
    const auto found = needs.find(place.host);
    if (found == needs.end() || found->second.empty()) continue;
    asked.push_back(&place);
    commands.push_back(Question(found->second, place));
  }
  if (commands.empty()) return absl::OkStatus();
  const std::vector<RemoteResult> results = RunEverywhere(commands, kDeadline, scratch);
  std::vector<Lack> lacks;
  for (size_t i = 0; i < results.size(); ++i) {
    for (const std::string& what : Lacks(results[i])) AddLack(what, asked[i]->host, lacks);
  }
  if (lacks.empty()) return absl::OkStatus();
  std::vector<std::string> lines;
  for (const Lack& lack : lacks) {
    lines.push_back(absl::StrCat(lack.hosts.size() == 1 ? "host " : "hosts ", absl::StrJoin(lack.hosts, ", "),
                                 ": ", lack.what));
  }
  if (std::any_of(lacks.begin(), lacks.end(), IsMissingFile)) lines.emplace_back(kRemedy);
  return absl::FailedPreconditionError(absl::StrJoin(lines, "\n    "));
}

}  // namespace tethys
