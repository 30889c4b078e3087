#include "runtime/telemetry/gradient_noise.h"

#include <cmath>

namespace tethys {

void GradientNoise::Add(const proto::StepRecord& record, int workers) {
  const double squares = record.own_square() * record.sum_square();
  if (workers < 2 || record.samples() < 1 || !std::isfinite(squares) || !(squares > 0)) return;
  Step& step = pending_[record.step()];
  const auto samples = static_cast<double>(record.samples());
  step.epoch = record.epoch();
  step.samples += record.samples();
  step.own_squares += record.own_square() / samples / samples;
  step.inverses += 1 / samples;
  step.sum_square = record.sum_square();
  if (++step.records == workers) {
    Count(step);
    pending_.erase(record.step());
  } else if (pending_.size() > kMostPending) {
    pending_.erase(pending_.begin());
  }
}

void GradientNoise::Count(const Step& step) {
  const auto batch = static_cast<double>(step.samples);
  const double whole = step.sum_square / batch / batch;
  const double variance =
      (step.own_squares / step.records - whole) / (step.inverses / step.records - 1 / batch);
  Epoch& epoch = epochs_[step.epoch];
  ++epoch.steps;
  epoch.variance += variance;
  epoch.gradient_square += whole - variance / batch;
}

void GradientNoise::FillSummary(proto::RunSummary& summary) const {
  summary.clear_gradient_noise();
  for (const auto& [number, epoch] : epochs_) {
    proto::GradientNoise& noise = *summary.add_gradient_noise();
    noise.set_epoch(number);
    noise.set_steps(epoch.steps);
    noise.set_variance(epoch.variance / static_cast<double>(epoch.steps));
    noise.set_gradient_square(epoch.gradient_square / static_cast<double>(epoch.steps));
    // With few steps an estimate may be negative.
    if (noise.variance() > 0 && noise.gradient_square() > 0) {
      noise.set_samples(noise.variance() / noise.gradient_square());
    }
  }
}

}  // namespace tethys
