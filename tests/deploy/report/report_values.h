// Values of reports, for tests of what is said about them.
#ifndef TETHYS_TESTS_DEPLOY_REPORT_REPORT_VALUES_H_
#define TETHYS_TESTS_DEPLOY_REPORT_REPORT_VALUES_H_

#include "proto/report.pb.h"

namespace tethys {

inline proto::ReportValue Value(int count, double mean, double deviation = 0) {
  proto::ReportValue value;
  value.set_count(count);
  value.set_mean(mean);
  value.set_deviation(deviation);
  return value;
}

}  // namespace tethys

#endif  // TETHYS_TESTS_DEPLOY_REPORT_REPORT_VALUES_H_
