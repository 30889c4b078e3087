#include "deploy/first_job/first_job.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "deploy/text.h"
#include "runtime/job/commented_text.h"

namespace tethys {
namespace {

constexpr int kWidth = 100;  // The most columns of a comment.
// LeNet-5 needs this many pixels along each side, and is made for at most kMostForLenet.
constexpr int64_t kLeastForLenet = 10, kMostForLenet = 32;
// Larger pictures are resized to this side, so that a first run takes minutes and not hours.
constexpr int64_t kMostSide = 64;
constexpr int64_t kMostBatch = 64;  // Samples.
constexpr int64_t kLeastSteps = 8;  // The least steps of an epoch, if there are enough samples.
constexpr int64_t kUpdates = 1000;  // About the updates that a small network needs.
constexpr int64_t kLeastEpochs = 5, kMostEpochs = 100, kMostEpochsOfResnet = 20;
constexpr double kLearningRate = 0.001;
constexpr int64_t kHiddenUnits = 128;

// True if the samples are [height, width] or [height, width, channels] and large enough for convolutions.
bool ArePictures(const Shape& shape) {
  return (shape.size() == 2 || shape.size() == 3) && std::min(shape[0], shape[1]) >= kLeastForLenet;
}

std::string SizeText(const Shape& shape) { return absl::StrCat(shape[0], " x ", shape[1]); }

class Guesser {
 public:
  Guesser(const SourceGuess& source, const SampleFacts& facts) : facts_(facts), shape_(facts.shape) {
    *first_.job.mutable_data() = source.data;
    first_.reasons = source.reasons;
  }

  FirstJob Guess() {
    GuessSize();
    GuessClasses();
    GuessValidation();
    GuessStandardisation();
    GuessModel();
    GuessTraining();
    return std::move(first_);
  }

 private:
  proto::Data& data() { return *first_.job.mutable_data(); }
  std::string& reason(const std::string& field) { return first_.reasons[field]; }

  void GuessSize() {
    if (!facts_.files && !(ArePictures(shape_) && std::max(shape_[0], shape_[1]) > kMostSide)) return;
    const Shape first = shape_;
    for (const int axis : {0, 1}) shape_[axis] = std::min(shape_[axis], kMostSide);
    data().mutable_resize()->set_height(static_cast<int32_t>(shape_[0]));
    data().mutable_resize()->set_width(static_cast<int32_t>(shape_[1]));
    std::string& why = reason("data.resize");
    why = !facts_.one_size
              ? absl::StrCat("Pictures have several sizes; the first one has ", SizeText(first), " pixels.")
              : absl::StrCat("Pictures have ", SizeText(first), " pixels.");
    if (shape_[0] < first[0] || shape_[1] < first[1]) {
      absl::StrAppend(&why, " A larger size, such as 224 x 224, is more accurate and takes longer.");
    }
  }

  void GuessClasses() {
    if (!data().has_classes()) data().set_classes(facts_.largest_label + 1);
    reason("data.classes") = absl::StrCat(
        data().has_image_folder()
            ? "The number of folders."
            : absl::StrCat("Labels are ", facts_.smallest_label, " to ", facts_.largest_label, "."),
        facts_.different_labels < data().classes()
            ? absl::StrCat(" Only ", facts_.different_labels, " of these classes were seen.")
            : "");
  }

  void GuessValidation() {
    if (facts_.test > 0) return;
    if (facts_.sorted) {
      reason("data") =
          "No samples are kept for validation, because they would be the last ones, and the samples are "
          "sorted by "
          "class: shuffle them, then set validation_samples.";
      return;
    }
    data().set_validation_samples(std::max<int64_t>(1, facts_.train / 10));
    reason("data.validation_samples") =
        absl::StrCat("A tenth of the ", CountText(facts_.train), " samples, because there is no test.");
  }

  void GuessStandardisation() {
    data().set_compute_standardisation(true);
    reason("data.compute_standardisation") = "Values get mean 0 and deviation 1.";
    if (shape_.size() != 1 || shape_[0] > kMostColumns) return;
    data().set_per_channel(true);
    reason("data.per_channel") = "Each column by itself.";
  }

  void GuessModel() {
    proto::Model& model = *first_.job.mutable_model();
    if (!ArePictures(shape_)) {
      if (shape_.size() > 1) model.add_layer()->mutable_flatten();
      proto::Dense& hidden = *model.add_layer()->mutable_dense();
      hidden.set_units(kHiddenUnits);
      hidden.set_activation(proto::RELU);
      model.add_layer()->mutable_dense()->set_units(data().classes());
      reason("model") = absl::StrCat("Two dense layers, because samples are ", ShapeText(shape_),
                                     ". The last layer has an output for each class.");
    } else if (std::max(shape_[0], shape_[1]) <= kMostForLenet) {
      model.mutable_lenet();
      reason("model") = "LeNet-5, a small network for pictures of at most 32 x 32 pixels.";
    } else {
      model.mutable_resnet()->set_depth(18);
      reason("model") = "A residual network, because pictures are larger than 32 x 32 pixels.";
    }
  }

  void GuessTraining() {
    proto::Job& job = first_.job;
    job.mutable_optimizer()->mutable_adam();
    job.mutable_optimizer()->set_learning_rate(kLearningRate);
    reason("optimizer") = "Adam with this learning rate suits most networks.";
    const int64_t samples = facts_.train - data().validation_samples();
    int64_t batch = kMostBatch;
    while (batch > 2 && samples / batch < kLeastSteps) batch /= 2;
    job.set_batch_size_per_worker(batch);
    reason("batch_size_per_worker") = absl::StrCat("Samples of an update, of ", CountText(samples), ".");
    const bool resnet = job.model().has_resnet();
    const int64_t steps = (samples + batch - 1) / batch;
    if (resnet && samples % batch == 1) {
      job.set_drop_remainder(true);
      reason("drop_remainder") = "The last batch would have one sample, too few for batch normalisation.";
    }
    job.set_epochs(
        std::clamp((kUpdates + steps - 1) / steps, kLeastEpochs, resnet ? kMostEpochsOfResnet : kMostEpochs));
    reason("epochs") = absl::StrCat("An epoch has ", CountText(steps), " updates.");
    job.mutable_strategy()->mutable_local();
    reason("strategy") =
        "One process. For three workers that share the work: --set=strategy=mirrored --set=workers=3.";
  }

  static constexpr int64_t kMostColumns = 1 << 16;  // The most columns with a mean of their own (Data.mean).

  const SampleFacts& facts_;
  Shape shape_;  // The shape of a sample after it was resized.
  FirstJob first_;
};

std::vector<std::string> CommentLines(const std::string& text, int width) {
  std::vector<std::string> lines = absl::StrSplit(Wrap(text, "# ", width), '\n');
  lines.pop_back();  // Wrap ends with a newline.
  return lines;
}

}  // namespace

FirstJob GuessJob(const SourceGuess& source, const SampleFacts& facts) {
  return Guesser(source, facts).Guess();
}

std::string FirstJobText(const FirstJob& first, const std::string& about) {
  std::string text = "# proto-file: proto/job.proto\n# proto-message: tethys.proto.Job\n#\n";
  for (const std::string& line : CommentLines(about, kWidth)) absl::StrAppend(&text, line, "\n");
  text += "\n";
  return text + CommentedText(first.job, [&](const std::string& field) -> FieldComment {
           const auto found = first.reasons.find(field);
           if (found == first.reasons.end()) return {};
           const auto depth = std::count(field.begin(), field.end(), '.');
           return {.above = CommentLines(found->second, kWidth - 2 * static_cast<int>(depth))};
         });
}

}  // namespace tethys
