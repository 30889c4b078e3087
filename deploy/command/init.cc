#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>

#include "absl/strings/match.h"
#include "deploy/command/verbs.h"
#include "deploy/first_job/first_job.h"
#include "deploy/first_job/found_data.h"
#include "deploy/first_job/sample_facts.h"
#include "deploy/first_job/source_guess.h"
#include "deploy/process/remote_shell.h"
#include "deploy/run/job_run.h"
#include "deploy/text.h"
#include "runtime/base/file.h"
#include "runtime/data/byte_source.h"
#include "runtime/data/dataset.h"
#include "runtime/job/job_file.h"

namespace tethys {
namespace {

constexpr int kTextWidth = 100;

absl::Status Exists(const std::string& path) {
  return absl::InvalidArgumentError(absl::StrCat(
      path, " exists already, and tethys init overwrites nothing: name another file by --out=FILE"));
}

// Writes a file that must not exist yet.
absl::Status WriteNewFile(const std::string& path, const std::string& text) {
  const FileDescriptor file(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  if (!file.valid() && errno == EEXIST) return Exists(path);
  if (!file.valid()) return Annotate(ErrnoStatus(errno, absl::StrCat("cannot create ", path)), "--out");
  absl::Status written = WriteFully(file.get(), text.data(), static_cast<int64_t>(text.size()), path);
  if (!written.ok()) unlink(path.c_str());
  return written;
}

// The path of the folder as the job names it. Paths of a job begin at the working directory of the command.
// So a relative path stays as it is only if the job file lies in the working directory, too.
std::string FolderOfJob(const std::string& folder, const std::string& out) {
  const bool here = std::filesystem::path(out).parent_path().lexically_normal().string().find_first_not_of(
                        "./") == std::string::npos;
  const std::string path = here ? folder : AbsolutePath(folder);
  const std::string normal = std::filesystem::path(path).lexically_normal().string();
  return normal.size() > 1 && absl::EndsWith(normal, "/") ? normal.substr(0, normal.size() - 1) : normal;
}

struct WrittenFirstJob {
  proto::JobPlan plan = {};
  std::string network = {};  // The reason for the network.
  std::vector<std::string> left_out = {}, notes = {};
};

absl::StatusOr<WrittenFirstJob> WriteFirstJob(const std::string& folder, const std::string& out) {
  if (IsUrlPath(folder)) {
    return absl::InvalidArgumentError(
        absl::StrCat(folder,
                     " is a URL: tethys init looks at folders of this machine; docs/data.md shows how a job "
                     "names URLs"));
  }
  if (FileExists(out)) return Exists(out);
  TETHYS_ASSIGN_OR_RETURN(const FoundData found, LookAtFolder(FolderOfJob(folder, out)));
  TETHYS_ASSIGN_OR_RETURN(const SourceGuess source, GuessSource(found));
  TETHYS_ASSIGN_OR_RETURN(const SampleFacts facts, LookAtSamples(source.data));
  const FirstJob first = GuessJob(source, facts);
  const std::string text = FirstJobText(
      first,
      absl::StrCat("A first job for the data in ", found.folder,
                   ", written by tethys init. Every value is a guess, and the comment above it gives the "
                   "reason. proto/job.proto describes all fields."));
  // The job is written only if training would begin with it.
  WrittenFirstJob written = {.network = first.reasons.at("model"), .left_out = source.left_out};
  TETHYS_ASSIGN_OR_RETURN(const proto::Job job, ParseJob(text, out, {}));
  TETHYS_RETURN_IF_ERROR(TrySamples(job.data()));
  TETHYS_ASSIGN_OR_RETURN(written.plan, PrepareJob(job));
  TETHYS_ASSIGN_OR_RETURN(const DatasetSizes sizes, ReadDatasetSizes(job));
  written.notes = sizes.notes;
  // What is said of the data as a whole, such as that they are sorted.
  const auto about_data = first.reasons.find("data");
  if (about_data != first.reasons.end()) written.notes.push_back(about_data->second);
  TETHYS_RETURN_IF_ERROR(WriteNewFile(out, text));
  return written;
}

int Init(const Flags& flags) {
  const std::string folder = flags.arguments().empty() ? "." : flags.arguments()[0];
  const std::string out = flags.Get("out", "job.textproto");
  const absl::StatusOr<WrittenFirstJob> written = WriteFirstJob(folder, out);
  if (!written.ok()) return Fail("init", written.status(), kExitBadRequest);
  std::string text = absl::StrCat("wrote ", out, "\n");
  const auto add = [&](absl::string_view lead, absl::string_view line) {
    text += WrapBeside(absl::StrCat("  ", lead), line, 12, kTextWidth);
  };
  const proto::JobPlan& plan = written->plan;
  std::vector<std::string> parts = {absl::StrCat(CountText(plan.train_samples()), " training")};
  if (plan.validation_samples() > 0)
    parts.push_back(absl::StrCat(CountText(plan.validation_samples()), " validation"));
  if (plan.test_samples() > 0) parts.push_back(absl::StrCat(CountText(plan.test_samples()), " test"));
  const Shape shape(plan.sample_shape().begin(), plan.sample_shape().end());
  add("data", absl::StrCat(NamesText(parts), " samples of ", ShapeText(shape), " in ",
                           CountText(plan.job().data().classes()), " classes"));
  add("network", written->network);
  if (!written->left_out.empty()) add("left out", NamesText(written->left_out));
  for (const std::string& note : written->notes) add("note", note);
  std::printf("%s\nNext: tethys train %s\n", text.c_str(), ShellWord(out).c_str());
  return kExitSuccess;
}

}  // namespace

Command InitCommand() {
  return {
      {.verb = "init",
       .summary = "Looks at a folder of data, and writes a job that trains on it.",
       .description = "Looks at the files of FOLDER (default: the working directory), guesses what they "
                      "are, and writes a job file that `tethys train` takes as it is. A comment gives the "
                      "reason of each guess. Known are IDX files, CIFAR files in binary, TFRecord files, "
                      "NumPy arrays and archives, tables (.csv), and folders of pictures for each class, "
                      "CLASS/ or train/CLASS/ and test/CLASS/. The words train, test and val, and image and "
                      "label, in the names of files tell what they hold.\n\nA folder that can be read in "
                      "several ways, or whose labels are missing, is refused with a list of what was found. "
                      "tethys init overwrites nothing.\n\nExit status: 0, or 2 if no job was written.",
       .argument = "FOLDER",
       .argument_optional = true,
       .flags = {{.name = "out", .value = "FILE", .help = "The job file to write; default job.textproto."}},
       .examples = {"tethys init pets --out=pets.textproto",
                    "tethys init /usr/share/datasets/fashion-mnist"}},
      Init};
}

}  // namespace tethys
