#include "deploy/sweep/batch_time.h"

#include <algorithm>
#include <utility>

#include "runtime/base/quantile.h"

namespace tethys {

proto::BatchTime BatchTimeOf(const std::vector<proto::StepVisit>& visits) {
  std::vector<const proto::StepVisit*> counted;
  proto::BatchTime time;
  time.set_batch(visits[0].batch());
  for (const proto::StepVisit& visit : visits) {
    if (!visit.disturbed()) counted.push_back(&visit);
  }
  time.set_visits(static_cast<int>(visits.size()));
  time.set_disturbed(static_cast<int>(visits.size() - counted.size()));
  if (counted.empty()) {
    for (const proto::StepVisit& visit : visits) counted.push_back(&visit);
  }
  const auto quartile = [&counted](double (proto::StepVisit::*pick)() const) {
    std::vector<double> values;
    for (const proto::StepVisit* visit : counted) values.push_back((visit->*pick)());
    return Quantile(std::move(values), 0.25);
  };
  time.set_step(quartile(&proto::StepVisit::step));
  time.set_forward(quartile(&proto::StepVisit::forward));
  time.set_backward(quartile(&proto::StepVisit::backward));
  time.set_update(quartile(&proto::StepVisit::update));
  time.set_plan_seconds(quartile(&proto::StepVisit::plan_seconds));
  time.set_forecast_bytes(counted[0]->forecast_bytes());
  for (int range = 0; range < counted[0]->ready_size(); ++range) {
    std::vector<double> shares;
    for (const proto::StepVisit* visit : counted) {
      if (range < visit->ready_size() && visit->step() > 0)
        shares.push_back(visit->ready(range) / visit->step());
    }
    time.add_ready(shares.empty() ? time.step() : Median(std::move(shares)) * time.step());
  }
  for (const proto::StepVisit* visit : counted) {
    time.set_measured_bytes(std::max(time.measured_bytes(), visit->measured_bytes()));
  }
  return time;
}

proto::BatchTime MeanBatchTimeOf(const std::vector<proto::StepVisit>& visits) {
  proto::BatchTime time = BatchTimeOf(visits);
  double seconds = 0, steps = 0;
  for (const proto::StepVisit& visit : visits) {
    seconds += visit.seconds();
    steps += visit.steps();
  }
  if (!(seconds > 0) || !(steps > 0) || !(time.step() > 0)) return time;
  const double factor = seconds / steps / time.step();
  time.set_step(time.step() * factor);
  time.set_forward(time.forward() * factor);
  time.set_backward(time.backward() * factor);
  time.set_update(time.update() * factor);
  for (double& ready : *time.mutable_ready()) ready *= factor;
  return time;
}

}  // namespace tethys
