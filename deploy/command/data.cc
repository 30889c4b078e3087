#include <google/protobuf/text_format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "deploy/command/verbs.h"
#include "deploy/data_files/data_listing.h"
#include "deploy/data_files/sample_writer.h"
#include "deploy/flags/data_secrets.h"
#include "deploy/text.h"
#include "deploy/whole_file.h"
#include "runtime/base/file.h"
#include "runtime/data/class_names.h"
#include "runtime/job/job_file.h"

namespace tethys {
namespace {

constexpr int64_t kMostImages = 1'000'000;
constexpr int64_t kMostFiles = 10'000;

// Creates `folder`, into which the data is to be converted. InvalidArgument: `folder` exists and is not
// empty.
absl::Status PrepareFolder(const std::string& folder) {
  std::error_code error;
  if (std::filesystem::exists(folder, error) && !std::filesystem::is_empty(folder, error)) {
    return absl::InvalidArgumentError(absl::StrCat("--out: ", folder, " is not empty: name a new folder"));
  }
  return Annotate(CreateDirectories(folder), "--out");
}

// Returns the fields of `data` that are valid for the same samples in any format: all fields but the paths,
// the sizes and the way of reading.
proto::Data WithoutSource(const proto::Data& data) {
  proto::Data kept;
  if (data.has_classes()) kept.set_classes(data.classes());
  if (data.validation_samples() > 0) kept.set_validation_samples(data.validation_samples());
  if (data.limit_samples() > 0) kept.set_limit_samples(data.limit_samples());
  if (data.has_augment()) *kept.mutable_augment() = data.augment();
  if (data.compute_standardisation()) {
    kept.set_compute_standardisation(true);
    if (data.per_channel()) kept.set_per_channel(true);
    return kept;
  }
  const bool standardised = data.mean_size() > 1 || data.deviation_size() > 1 ||
                            (data.mean_size() == 1 && data.mean(0) != 0) ||
                            (data.deviation_size() == 1 && data.deviation(0) != 1);
  if (!standardised) return kept;  // Mean 0 and deviation 1 are the defaults, so they are left out.
  *kept.mutable_mean() = data.mean();
  *kept.mutable_deviation() = data.deviation();
  return kept;
}

// The text of a job file with nothing but `data` and, if `targets`, a loss for targets.
std::string DataText(const proto::Data& data, bool targets) {
  proto::Job job;
  *job.mutable_data() = data;
  if (targets) job.mutable_model()->mutable_loss()->mutable_mean_squared_error();
  std::string text;
  google::protobuf::TextFormat::PrintToString(job, &text);
  return text;
}

absl::Status WritePart(const WriterFormat& format, const PartToWrite& part, const Dataset& dataset) {
  TETHYS_ASSIGN_OR_RETURN(const std::unique_ptr<SampleWriter> writer, format.create(part));
  std::vector<uint8_t> values(part.spec.bytes());
  std::vector<int32_t> labels(part.spec.labels.elements());
  for (int64_t i = 0; i < dataset.size(); ++i) {
    TETHYS_RETURN_IF_ERROR(dataset.Read(i, values.data(), labels.data()));
    TETHYS_RETURN_IF_ERROR(writer->Add(values.data(), labels.data()));
  }
  return writer->Commit();
}

// A line "note  ..." for each note on the data.
absl::StatusOr<std::string> NotesText(const proto::Job& job) {
  TETHYS_ASSIGN_OR_RETURN(const DatasetSizes sizes, ReadDatasetSizes(job));
  constexpr int kIndent = 8, kWidth = 100;
  std::string text;
  for (const std::string& note : sizes.notes) text += WrapBeside("note", note, kIndent, kWidth);
  return text;
}

absl::Status Show(const proto::Job& job, const Flags& flags) {
  TETHYS_ASSIGN_OR_RETURN(const int64_t count, flags.GetInteger("count", 20, 1, kMostImages));
  TETHYS_ASSIGN_OR_RETURN(const Datasets datasets, LoadDatasetsUncached(job));
  TETHYS_ASSIGN_OR_RETURN(const std::string notes, NotesText(job));
  if (flags.Has("check")) TETHYS_RETURN_IF_ERROR(CheckSamples(datasets));
  TETHYS_ASSIGN_OR_RETURN(const std::string listing, DataListing(job, datasets));
  std::fputs(absl::StrCat(listing, notes.empty() ? "" : "\n", notes).c_str(), stdout);
  if (flags.Has("check")) std::fputs("\nEvery sample can be read.\n", stdout);
  if (!flags.Has("images")) return absl::OkStatus();
  TETHYS_ASSIGN_OR_RETURN(const int64_t written, WriteFirstImages(datasets, count, flags.Get("images")));
  std::printf("\n%s in %s\n", PluralText(written, "picture").c_str(), flags.Get("images").c_str());
  return absl::OkStatus();
}

absl::Status Convert(proto::Job job, const Flags& flags) {
  for (const char* flag : {"to", "out"}) {
    if (!flags.Has(flag))
      return absl::InvalidArgumentError(absl::StrCat("--", flag, " is missing; see tethys data --help"));
  }
  TETHYS_ASSIGN_OR_RETURN(const WriterFormat* format, FindWriterFormat(flags.Get("to")));
  if ((flags.Has("files") || flags.Has("raw")) && !format->several_files) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--files and --raw are for --to=tfrecord, not for --to=", format->name, ": leave them out"));
  }
  TETHYS_ASSIGN_OR_RETURN(const int64_t files, flags.GetInteger("files", 1, 1, kMostFiles));
  TETHYS_ASSIGN_OR_RETURN(const std::string notes, NotesText(job));
  proto::Data written = WithoutSource(job.data());
  job.mutable_data()->set_validation_samples(0);  // The training files contain the validation split.
  job.mutable_data()->set_limit_samples(0);
  TETHYS_ASSIGN_OR_RETURN(const Datasets datasets, LoadDatasetsUncached(job));

  TETHYS_ASSIGN_OR_RETURN(const std::vector<std::string> names, ClassNamesOf(job.data()));
  written.mutable_class_name()->Assign(names.begin(), names.end());
  const std::string folder = flags.Get("out");
  PartToWrite part = {.folder = folder,
                      .spec = datasets.train->spec(),
                      .classes = job.data().classes(),
                      .class_names = names,
                      .files = static_cast<int>(files),
                      .raw = flags.Has("raw")};
  std::vector<std::pair<PartToWrite, const Dataset*>> parts;
  for (const auto& [name, dataset] :
       {std::pair{"train", datasets.train.get()}, {"test", datasets.test.get()}}) {
    if (dataset == nullptr) continue;
    part.name = name;
    part.samples = dataset->size();
    TETHYS_RETURN_IF_ERROR(CheckFormat(*format, part));
    parts.emplace_back(part, dataset);
  }
  TETHYS_RETURN_IF_ERROR(PrepareFolder(folder));
  for (const auto& [piece, dataset] : parts) {
    TETHYS_RETURN_IF_ERROR(WritePart(*format, piece, *dataset));
    format->describe(piece, written);
  }
  const std::string text = DataText(written, part.spec.labels.targets);
  TETHYS_RETURN_IF_ERROR(WriteFileAtomically(folder + "/data.textproto", text));
  std::printf(
      "Wrote %s for training and %s for the test to %s. A job file that reads these samples needs the lines "
      "of %s/data.textproto:\n\n%s",
      PluralText(datasets.train->size(), "sample").c_str(),
      datasets.test == nullptr ? "none" : CountText(datasets.test->size()).c_str(), folder.c_str(),
      folder.c_str(), text.c_str());
  if (!notes.empty()) std::printf("\n%s", notes.c_str());
  return absl::OkStatus();
}

absl::Status Run(const Flags& flags) {
  const std::vector<std::string>& words = flags.arguments();
  if (words.size() != 2 || (words[0] != "show" && words[0] != "convert")) {
    return absl::InvalidArgumentError(
        "write tethys data show JOB, or tethys data convert JOB --to=FORMAT --out=DIR");
  }
  const bool shows = words[0] == "show";
  for (const char* flag : {"images", "count", "check", "to", "out", "files", "raw"}) {
    const std::string name = flag;
    const bool of_show = name == "images" || name == "count" || name == "check";
    if (!flags.Has(flag) || of_show == shows) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("--", flag, " is not a flag of tethys data ", words[0], ": leave it out"));
  }
  TETHYS_ASSIGN_OR_RETURN(proto::Job job, LoadData(words[1], flags.GetAll("set")));
  return shows ? Show(job, flags) : Convert(std::move(job), flags);
}

int Data(const Flags& flags) {
  const absl::Status status = Run(flags);
  if (status.ok()) return kExitSuccess;
  const bool bad = absl::IsInvalidArgument(status) || absl::IsNotFound(status);
  return Fail("data", status, bad ? kExitBadRequest : kExitFailed);
}

}  // namespace

Command DataCommand() {
  return {
      {.verb = "data",
       .summary = "Shows what a job's data contains, or writes it in another format.",
       .description =
           "tethys data show JOB prints the shape of the samples, the number of samples in every split (the "
           "total, and the number of each class), and the first labels. tethys data convert JOB writes the "
           "training and test samples in another format, and DIR/data.textproto with the lines for a job "
           "file. JOB is a job file, or a file with nothing but data { ... }. Samples keep their order, so "
           "the validation split has the same samples as before, except if FORMAT is a folder of pictures.",
       .argument = "show|convert JOB",
       .count = ArgumentCount::kWords,
       .flags = {SetFlag(),
                 SecretsFlag(),
                 {.name = "images",
                  .value = "DIR",
                  .help = "show: writes the first samples of each split into DIR, as PNG files."},
                 {.name = "count",
                  .value = "N",
                  .help = "show: how many samples of each split --images writes; default 20."},
                 {.name = "check",
                  .help = "show: reads every sample. Lists samples that cannot be read, such as damaged "
                          "pictures; if there are any, the exit status is 1."},
                 {.name = "to",
                  .value = "FORMAT",
                  .help = absl::StrCat("convert: ", WriterFormatNames(), ".")},
                 {.name = "out",
                  .value = "DIR",
                  .help = "convert: the folder for the files, which must be "
                          "new or empty."},
                 {.name = "files",
                  .value = "N",
                  .help = "convert to tfrecord: the number of files for the training samples, and also for "
                          "the test samples; default 1."},
                 {.name = "raw",
                  .help = "convert to tfrecord: writes values without compression, so that they are read "
                          "faster. Without --raw, pictures are written as PNG, in smaller files."}},
       .examples = {"tethys data show examples/fashion_mnist_local.textproto --images=first",
                    "tethys data convert pets.textproto --to=tfrecord --files=8 --out=pets-tfrecord"}},
      Data};
}

}  // namespace tethys
