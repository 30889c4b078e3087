#include "runtime/chief/quality_sums.h"

#include <cmath>

#include "runtime/chief/saved_values.h"

namespace tethys {
namespace {

// Sets the intersection over union of each class that occurs, and their mean.
void FillIou(const std::vector<int64_t>& confusion, proto::Quality& quality) {
  const auto classes = static_cast<int64_t>(std::llround(std::sqrt(static_cast<double>(confusion.size()))));
  double sum = 0;
  for (int64_t i = 0; i < classes; ++i) {
    int64_t labelled = 0, predicted = 0;
    for (int64_t j = 0; j < classes; ++j) {
      labelled += confusion[i * classes + j];
      predicted += confusion[j * classes + i];
    }
    const int64_t both = confusion[i * classes + i];
    if (labelled + predicted == 0) continue;
    proto::ClassIou& iou = *quality.add_iou();
    iou.set_class_index(static_cast<int32_t>(i));
    iou.set_iou(static_cast<double>(both) / static_cast<double>(labelled + predicted - both));
    sum += iou.iou();
  }
  if (quality.iou_size() > 0) quality.set_mean_iou(sum / quality.iou_size());
}

}  // namespace

void QualitySums::Add(const proto::StepRecord& record) {
  loss += record.loss_sum();
  correct += record.correct();
  samples += record.samples();
  labels += record.labels();
}

void QualitySums::Add(const proto::EvaluationDone& part) {
  loss += part.loss_sum();
  correct += part.correct();
  samples += part.samples();
  labels += part.labels();
  correct_top5 += part.correct_top5();
  confusion.resize(part.confusion_size());
  for (int i = 0; i < part.confusion_size(); ++i) confusion[i] += part.confusion(i);
}

proto::Quality QualitySums::Quality() const {
  proto::Quality quality;
  quality.set_samples(samples);
  if (samples > 0) quality.set_loss(loss / static_cast<double>(samples));
  if (labels > 0) {
    quality.set_accuracy(static_cast<double>(correct) / static_cast<double>(labels));
    // If there are at most five classes, correct_top5 is not counted and remains 0.
    if (correct_top5 > 0) {
      quality.set_top5_accuracy(static_cast<double>(correct_top5) / static_cast<double>(labels));
    }
  }
  FillIou(confusion, quality);
  return quality;
}

void QualitySums::Save(proto::QualitySumsState& state) const {
  state.set_loss(loss);
  state.set_correct(correct);
  state.set_samples(samples);
  state.set_labels(labels);
  state.set_correct_top5(correct_top5);
  state.mutable_confusion()->Assign(confusion.begin(), confusion.end());
}

absl::Status QualitySums::Restore(const proto::QualitySumsState& state) {
  // The largest accepted sum: adding the next record to it does not overflow.
  constexpr int64_t kMost = int64_t{1} << 62;
  StateCheck check;
  for (const int64_t count : {state.correct(), state.samples(), state.labels(), state.correct_top5()}) {
    check.Within("a sum", count, -kMost, kMost);
  }
  for (const int64_t count : state.confusion()) check.Within("a sum", count, 0, kMost);
  const auto classes = std::llround(std::sqrt(static_cast<double>(state.confusion_size())));
  check.That(classes * classes == state.confusion_size(), "a confusion matrix has ", state.confusion_size(),
             " elements");
  TETHYS_RETURN_IF_ERROR(check.status());
  loss = state.loss();
  correct = state.correct();
  samples = state.samples();
  labels = state.labels();
  correct_top5 = state.correct_top5();
  confusion.assign(state.confusion().begin(), state.confusion().end());
  return absl::OkStatus();
}

}  // namespace tethys
