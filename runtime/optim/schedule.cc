#include "runtime/optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace tethys {
namespace {

// Returns the length that the message gives, in samples or in epochs, as a number of samples; `otherwise` if
// the message gives no length.
template <class Message>
int64_t SamplesOf(const Message& message, int64_t epoch, int64_t otherwise) {
  if (message.has_epochs()) return std::llround(message.epochs() * static_cast<double>(epoch));
  return message.samples() > 0 ? message.samples() : otherwise;
}

double Progress(int64_t samples_used, int64_t length) {
  return std::clamp(static_cast<double>(samples_used) / static_cast<double>(length), 0.0, 1.0);
}

}  // namespace

LearningRateSchedule::LearningRateSchedule(const proto::Optimizer& config, Lengths lengths, int workers)
    : schedule_(config.schedule()),
      start_(config.learning_rate()),
      scale_(config.scale_with_workers() ? workers : 1) {
  if (schedule_.has_linear_decay()) {
    decay_samples_ = SamplesOf(schedule_.linear_decay(), lengths.epoch, lengths.job);
  } else if (schedule_.has_cosine_decay()) {
    decay_samples_ = SamplesOf(schedule_.cosine_decay(), lengths.epoch, lengths.job);
  } else if (schedule_.has_polynomial_decay()) {
    decay_samples_ = SamplesOf(schedule_.polynomial_decay(), lengths.epoch, lengths.job);
  }
  const proto::StepDecay& step_decay = schedule_.step_decay();
  steps_.assign(step_decay.samples().begin(), step_decay.samples().end());
  for (const double epochs : step_decay.epochs()) {
    steps_.push_back(std::llround(epochs * static_cast<double>(lengths.epoch)));
  }
  if (schedule_.has_warm_up()) warm_up_samples_ = SamplesOf(schedule_.warm_up(), lengths.epoch, 0);
}

double LearningRateSchedule::At(int64_t samples_used) const {
  return scale_ * WarmUpFactor(samples_used) * DecayedRate(samples_used);
}

double LearningRateSchedule::WarmUpFactor(int64_t samples_used) const {
  if (warm_up_samples_ <= 0) return 1;
  const double start = schedule_.warm_up().start_factor();
  return start + (1 - start) * Progress(samples_used, warm_up_samples_);
}

double LearningRateSchedule::DecayedRate(int64_t samples_used) const {
  if (schedule_.has_step_decay()) {
    const auto reached = std::count_if(steps_.begin(), steps_.end(),
                                       [samples_used](int64_t step) { return step <= samples_used; });
    return start_ * std::pow(schedule_.step_decay().factor(), static_cast<double>(reached));
  }
  if (decay_samples_ <= 0) return start_;
  const double progress = Progress(samples_used, decay_samples_);
  if (schedule_.has_cosine_decay()) {
    const double end = schedule_.cosine_decay().end_learning_rate();
    return end + (start_ - end) * (1 + std::cos(std::numbers::pi * progress)) / 2;
  }
  if (schedule_.has_polynomial_decay()) {
    const proto::PolynomialDecay& decay = schedule_.polynomial_decay();
    const double end = decay.end_learning_rate();
    return end + (start_ - end) * std::pow(1 - progress, decay.power());
  }
  return start_ + (schedule_.linear_decay().end_learning_rate() - start_) * progress;
}

}  // namespace tethys
