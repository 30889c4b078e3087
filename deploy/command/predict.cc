#include <algorithm>
#include <cstdio>

#include "deploy/command/verbs.h"
#include "deploy/model_files/predictions.h"
#include "deploy/model_files/shown_predictions.h"
#include "deploy/run/checkpoint_use.h"
#include "deploy/run/saved_model.h"
#include "deploy/text.h"
#include "runtime/data/picture.h"
#include "runtime/data/unlabelled_samples.h"
#include "runtime/job/job_file.h"
#include "runtime/nn/memory_forecast.h"

namespace tethys {
namespace {

struct Request {
  SavedModel saved;
  InputScaling scaling;
  ChosenDevice device;
  proto::Device settings = {};  // The device settings of the job; without a job, the defaults.
  std::shared_ptr<const Dataset> dataset = nullptr;
  // The file of each sample, if each sample has its own file; otherwise empty.
  std::vector<std::string> files = {};
  bool labelled = false;
  std::vector<std::string> class_names = {};  // One name per class; may be empty.
};

// True if the checkpoint lies in a run whose job resizes its samples (data.resize).
bool JobResizes(const std::string& checkpoint) {
  const absl::StatusOr<proto::Job> job = ReadRunJob(checkpoint + "/../../job.textproto");
  return job.ok() && job->data().has_resize();
}

// Tells the user that samples of another size than `wanted`, [height, width, ...], are resized.
void TellResizing(const std::string& images, const Shape& wanted) {
  std::fprintf(stderr,
               "%s: each picture that is not %lld x %lld is resized to this size, as in training "
               "(data.resize)\n",
               images.c_str(), static_cast<long long>(wanted[0]), static_cast<long long>(wanted[1]));
}

// Sets the samples: images of a file, or a split of a job's data.
absl::Status ChooseSamples(const Flags& flags, Request& request) {
  if (flags.Has("images")) {
    if (flags.Has("split") || flags.Has("set") || !flags.arguments().empty()) {
      return absl::InvalidArgumentError(
          "--images replaces the data of a job: leave out JOB, --split and --set");
    }
    request.settings.set_threads_per_rank(1);
    const Shape& wanted = request.saved.model.sample_shape();
    const bool as_in_training = !flags.Has("resize") && IsPicture(wanted) && JobResizes(request.saved.path);
    absl::StatusOr<UnlabelledSamples> samples =
        OpenUnlabelled(flags.Get("images"), {.shape = wanted,
                                             .labels = request.saved.model.loss().labels(),
                                             .resize = flags.Has("resize") || as_in_training});
    if (!samples.ok()) return Annotate(samples.status(), "--images");
    if (as_in_training) TellResizing(flags.Get("images"), wanted);
    if (samples->left_out > 0) {
      std::fprintf(stderr, "%s: left out %s, because only .png, .jpg and .jpeg are read\n",
                   flags.Get("images").c_str(), PluralText(samples->left_out, "file").c_str());
    }
    request.dataset = std::move(samples->dataset);
    request.files = std::move(samples->files);
    TETHYS_ASSIGN_OR_RETURN(request.class_names, ClassNamesIn(request.saved.description(), nullptr));
    return absl::OkStatus();
  }
  if (flags.Has("resize")) {
    return absl::InvalidArgumentError(
        "--resize is for the pictures of --images; for a job, add --set=data.resize.height=H "
        "--set=data.resize.width=W");
  }
  TETHYS_ASSIGN_OR_RETURN(const std::string job_file, JobFileOf(flags, request.saved.path));
  TETHYS_ASSIGN_OR_RETURN(const proto::Job job, JobOf(flags, request.saved.path));
  if (job.data().classes() > request.saved.model.classes()) {
    return absl::InvalidArgumentError(absl::StrCat(job_file, ": data.classes is ", job.data().classes(),
                                                   ", but the model of ", request.saved.path, " has ",
                                                   request.saved.model.classes(), " classes"));
  }
  TETHYS_ASSIGN_OR_RETURN(const Datasets datasets, LoadDatasetsUncached(job));
  TETHYS_ASSIGN_OR_RETURN(request.dataset, ChooseSplit(datasets, flags.Get("split", "test")));
  TETHYS_RETURN_IF_ERROR(request.saved.model.CheckLabels(request.dataset->label_format()));
  TETHYS_ASSIGN_OR_RETURN(request.class_names, ClassNamesIn(request.saved.description(), &job));
  request.settings = job.device();
  request.labelled = true;
  return absl::OkStatus();
}

// Advises the user what to do if the samples have the shape `own`, but the model takes the shape `wanted`.
std::string ShapeRemedy(const Flags& flags, const Shape& own, const Shape& wanted) {
  const bool by_size = IsPicture(own) && IsPicture(wanted) && own.size() == wanted.size() &&
                       std::equal(own.begin() + 2, own.end(), wanted.begin() + 2);
  if (!by_size) return "convert the data";
  if (flags.Has("images")) return "add --resize to bring every picture to that size";
  return absl::StrCat("add --set=data.resize.height=", wanted[0], " --set=data.resize.width=", wanted[1],
                      " to bring every picture to that size");
}

absl::StatusOr<Request> PrepareRequest(const Flags& flags) {
  TETHYS_ASSIGN_OR_RETURN(const ChosenDevice device, ChooseDevice(flags));
  TETHYS_ASSIGN_OR_RETURN(SavedModel saved, OpenSavedModel(flags.Get("checkpoint")));
  TETHYS_ASSIGN_OR_RETURN(const InputScaling scaling, ScalingOf(saved));
  Request request{.saved = std::move(saved), .scaling = scaling, .device = device};
  TETHYS_RETURN_IF_ERROR(ChooseSamples(flags, request));
  const Shape& wanted = request.saved.model.sample_shape();
  if (request.dataset->sample_shape() != wanted) {
    return absl::InvalidArgumentError(
        absl::StrCat("the samples have shape ", ShapeText(request.dataset->sample_shape()),
                     ", but the model of ", request.saved.path, " takes ", ShapeText(wanted), ": ",
                     ShapeRemedy(flags, request.dataset->sample_shape(), wanted)));
  }
  if (request.dataset->spec().type != request.scaling.type) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the samples are ", ValueTypeText(request.dataset->spec().type), ", but the model of ",
        request.saved.path, " was trained on ", ValueTypeText(request.scaling.type), ": convert the data"));
  }
  return request;
}

PredictionShape ShapeOf(const Request& request) {
  return {.samples = request.dataset->size(),
          .output = request.saved.model.output_shape(),
          .classifies = !request.saved.model.loss().labels().targets,
          .labelled = request.labelled,
          .files = request.files,
          .class_names = request.class_names};
}

// The file of --out; null without --out: predictions are then only printed.
absl::StatusOr<std::unique_ptr<PredictionFile>> OpenFile(const Flags& flags, const PredictionShape& shape) {
  if (flags.Has("out")) {
    absl::StatusOr<std::unique_ptr<PredictionFile>> file = PredictionFile::Create(flags.Get("out"), shape);
    if (!file.ok()) return Annotate(file.status(), "--out");
    return file;
  }
  if (shape.output.size() <= 1) return nullptr;
  return absl::InvalidArgumentError(absl::StrCat("the outputs of a sample have shape ",
                                                 ShapeText(shape.output),
                                                 " and cannot be printed: write them by --out=FILE.npy"));
}

// Predicts all samples. Adds the predictions to `shown` and, if `file` is not null, writes them to `file`.
absl::Status WritePredictions(const Request& request, PredictionFile* file, ShownPredictions& shown) {
  const Model& model = request.saved.model;
  const int64_t rows = std::min(EvaluationRows(model, 1), request.dataset->size());
  TETHYS_ASSIGN_OR_RETURN(
      const std::unique_ptr<Replica> replica,
      LoadReplica(*request.saved.reader, model, request.device, request.settings, rows, request.scaling));
  const int64_t each = model.outputs();
  std::vector<int32_t> labels(model.loss().labels().elements());
  const auto add = [&](int64_t first, absl::Span<const float> outputs) -> absl::Status {
    for (int64_t i = 0; i < static_cast<int64_t>(outputs.size()) / each; ++i) {
      TETHYS_RETURN_IF_ERROR(request.dataset->ReadLabels(first + i, labels.data()));
      const absl::Span<const float> own = outputs.subspan(i * each, each);
      if (file != nullptr) TETHYS_RETURN_IF_ERROR(file->Add(labels[0], own));
      if (model.output_shape().size() <= 1) shown.Add(labels[0], own);
    }
    return absl::OkStatus();
  };
  TETHYS_RETURN_IF_ERROR(
      replica->Predict(request.dataset, {0, request.dataset->size()}, add, request.saved.statistics));
  return file == nullptr ? absl::OkStatus() : file->Commit();
}

int RunPredict(const Flags& flags) {
  const absl::StatusOr<Request> request = PrepareRequest(flags);
  if (!request.ok()) return Fail("predict", request.status(), kExitBadRequest);
  const PredictionShape shape = ShapeOf(*request);
  const absl::StatusOr<std::unique_ptr<PredictionFile>> file = OpenFile(flags, shape);
  if (!file.ok()) return Fail("predict", file.status(), kExitBadRequest);
  ShownPredictions shown(shape);
  const absl::Status written = WritePredictions(*request, file->get(), shown);
  if (!written.ok()) return Fail("predict", written, ExitStatusOf(written));
  std::fputs(shown.Text().c_str(), stdout);
  if (*file != nullptr) {
    std::printf("%s: %s by %s\n", flags.Get("out").c_str(), PluralText(shape.samples, "sample").c_str(),
                request->saved.path.c_str());
  }
  return kExitSuccess;
}

std::vector<FlagSpec> PredictFlags() {
  std::vector<FlagSpec> flags =
      CheckpointUseFlags("test (the default), validation or train, of the job's data.");
  flags.push_back(
      {.name = "images",
       .value = "PATH",
       .help =
           "The samples to predict, in place of a job's data; no job is needed then. PATH is a PNG or JPEG "
           "file, a folder of such files (its subfolders included), FILE.npy, FILE.npz#ARRAY, or an IDX "
           "file of images, plain or gzipped."});
  flags.push_back({.name = "resize",
                   .help = "Brings the pictures of --images, also in an array or IDX file, to the size that "
                           "the model takes. Without this flag, pictures of another size are refused, "
                           "except if the checkpoint is in a run whose job has data.resize: then such "
                           "pictures are resized without this flag."});
  flags.push_back(
      {.name = "out",
       .value = "FILE",
       .help = "Writes all predictions; the terminal shows only the first predictions. FILE.csv: a line per "
               "sample with its file or label, if known, the predicted class and the probability of each "
               "class, with the names of classes if the checkpoint has them; for a model with targets, the "
               "outputs. FILE.npy: a NumPy array of the outputs (logits), float32 [samples, classes] or, "
               "for maps of labels, [samples, height, width, classes]."});
  return flags;
}

}  // namespace

Command PredictCommand() {
  return {{.verb = "predict",
           .summary = "Predicts the classes of samples with a checkpoint.",
           .description = "Runs the model of a checkpoint over samples, in this process, and shows the "
                          "likeliest classes of the first samples, or writes all predictions to a file. "
                          "The samples are the data of the job of the run that contains the checkpoint, "
                          "unless JOB or --images is given; they are standardised as in training.",
           .argument = "JOB",
           .argument_optional = true,
           .flags = PredictFlags(),
           .examples = {"tethys predict --checkpoint=runs/a --images=cat.jpg",
                        "tethys predict --checkpoint=runs/a --out=predictions.csv",
                        "tethys predict --checkpoint=runs/a --images=photos --resize --out=predictions.csv",
                        "tethys predict --checkpoint=runs/a --images=new.npy --out=logits.npy"}},
          RunPredict};
}

}  // namespace tethys
