// Makes values of reports, for tests of the sentences that report these values.
#ifndef TETHYS_TESTS_DEPLOY_REPORT_REPORT_VALUES_H_
#define TETHYS_TESTS_DEPLOY_REPORT_REPORT_VALUES_H_

#include <vector>

#include "deploy/report/run_means.h"
#include "proto/report.pb.h"

namespace tethys {

inline proto::ReportValue Value(int count, double mean, double deviation = 0) {
  proto::ReportValue value;
  value.set_count(count);
  value.set_mean(mean);
  value.set_deviation(deviation);
  return value;
}

// A value that is an accuracy.
inline proto::ReportValue Share(int count, double mean, double deviation = 0) {
  proto::ReportValue value = Value(count, mean, deviation);
  value.set_scale(proto::ReportValue::SHARE);
  return value;
}

// A value that is the mean over runs with the seeds 0, 1, ...
inline proto::ReportValue OfRuns(const std::vector<double>& values,
                                 proto::ReportValue::Scale scale = proto::ReportValue::POSITIVE) {
  proto::ReportValue value = MeanOf(values, scale);
  for (size_t i = 0; i < values.size(); ++i) {
    value.add_value(values[i]);
    value.add_seed(i);
  }
  return value;
}

}  // namespace tethys

#endif  // TETHYS_TESTS_DEPLOY_REPORT_REPORT_VALUES_H_
