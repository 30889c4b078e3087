#include "runtime/telemetry/gradient_noise.h"

#include <cmath>

#include "runtime/base/state_check.h"

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

void GradientNoise::Save(proto::NoiseState& state) const {
  for (const auto& [number, step] : pending_) {
    proto::NoiseState::Step& saved = *state.add_pending();
    saved.set_step(number);
    saved.set_epoch(step.epoch);
    saved.set_records(step.records);
    saved.set_samples(step.samples);
    saved.set_own_squares(step.own_squares);
    saved.set_inverses(step.inverses);
    saved.set_sum_square(step.sum_square);
  }
  for (const auto& [number, epoch] : epochs_) {
    proto::NoiseState::Epoch& saved = *state.add_epoch();
    saved.set_epoch(number);
    saved.set_steps(epoch.steps);
    saved.set_variance(epoch.variance);
    saved.set_gradient_square(epoch.gradient_square);
  }
}

absl::Status GradientNoise::Restore(const proto::NoiseState& state) {
  StateCheck check;
  check.That(state.pending_size() <= static_cast<int>(kMostPending), state.pending_size(),
             " steps are incomplete");
  for (const proto::NoiseState::Step& saved : state.pending()) {
    check.Count("step", saved.step());
    check.Count("epoch", saved.epoch());
    check.That(saved.records() > 0 && saved.samples() > 0, "step ", saved.step(), " has no records");
    check.Within("records", saved.records(), 1, 1 << 20);
    check.Count("samples", saved.samples());
    const bool added = pending_
                           .emplace(saved.step(), Step{.epoch = saved.epoch(),
                                                       .records = saved.records(),
                                                       .samples = saved.samples(),
                                                       .own_squares = saved.own_squares(),
                                                       .inverses = saved.inverses(),
                                                       .sum_square = saved.sum_square()})
                           .second;
    check.That(added, "step ", saved.step(), " comes twice");
  }
  for (const proto::NoiseState::Epoch& saved : state.epoch()) {
    check.Count("epoch", saved.epoch());
    check.That(saved.steps() > 0, "epoch ", saved.epoch(), " has no steps");
    const bool added = epochs_
                           .emplace(saved.epoch(), Epoch{.steps = saved.steps(),
                                                         .variance = saved.variance(),
                                                         .gradient_square = saved.gradient_square()})
                           .second;
    check.That(added, "epoch ", saved.epoch(), " comes twice");
  }
  return check.status();
}

}  // namespace tethys
