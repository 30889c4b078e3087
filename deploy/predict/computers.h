// The computers and links that a job uses, looked up in a calibration: how many ranks share a computer, how
// fast each computes, what the links between two hosts offer. Pure; any thread.
#ifndef TETHYS_DEPLOY_PREDICT_COMPUTERS_H_
#define TETHYS_DEPLOY_PREDICT_COMPUTERS_H_

#include <string>
#include <vector>

#include "deploy/predict/exchange_model.h"
#include "deploy/predict/machines.h"
#include "deploy/sweep/batch_curve.h"
#include "proto/calibration.pb.h"
#include "runtime/base/status.h"

namespace tethys {

// The throughput of k ranks that compute at once, divided by the throughput of one rank. It is interpolated
// between measured numbers of ranks and constant beyond them. Without a measurement it is k, but at most the
// number of cores.
double CapacityOf(const proto::ComputerCalibration& computer, int k);

// The computer that lists the host or, if no computer lists it, a computer of the host's kind. nullptr: the
// calibration has neither.
const proto::ComputerCalibration* FindComputer(const proto::Calibration& calibration, const std::string& host,
                                               const std::string& kind);

// The quantile `level` of the step time of the slowest of n ranks, relative to the median step time of a
// single rank. `ratio`: the quantiles (5 %, 10 %, ...) of the step time of a single rank, relative to its
// median. The step times of different ranks are taken as independent.
double StragglerQuantile(const google::protobuf::RepeatedField<double>& ratio, double n, double level);

struct JobComputer {
  std::string name;  // The name of the computer's first host.
  const proto::ComputerCalibration* calibration = nullptr;
  BatchCurve curve;
  int workers = 0;
  int servers = 0;
  // The time of a step of one rank on this computer, divided by the same time on the fastest computer of the
  // calibration; at least 1.
  double slowness = 1;
  int processes() const { return workers + servers; }
};

class JobComputers {
 public:
  // NotFound: the calibration knows neither a host of the job nor its kind. Both arguments must outlive the
  // result.
  static absl::StatusOr<JobComputers> Create(const JobMachines& machines,
                                             const proto::Calibration& calibration);

  const std::vector<JobComputer>& computers() const { return computers_; }
  // The computer of a host that runs a worker or a server.
  int computer_of(int host) const { return of_host_[host]; }
  const std::vector<int>& used_hosts() const { return used_hosts_; }

  // The slowest of the links between `host` and the other hosts in `peers`; its rate is 0 if `peers` contains
  // no other host. NotFound: no link of these hosts was measured.
  absl::StatusOr<LinkOffer> LinkOf(int host, const std::vector<int>& peers) const;
  // The slowest link of each used host, in the order of used_hosts(). Links to peers whose own links are
  // slower are left out, because such a peer limits only the flows to itself. Fails as LinkOf does.
  absl::StatusOr<std::vector<LinkOffer>> OwnLinks() const;

 private:
  JobComputers(const JobMachines& machines, const proto::Calibration& calibration)
      : machines_(&machines), calibration_(&calibration) {}
  const proto::LinkCalibration* FindLink(const std::string& from, const std::string& to) const;
  // For each of `peers`, the slower direction of its link with `host`.
  absl::StatusOr<std::vector<LinkOffer>> LinksOf(int host, const std::vector<int>& peers) const;

  const JobMachines* machines_;
  const proto::Calibration* calibration_;
  std::vector<JobComputer> computers_;
  std::vector<int> of_host_;  // The computer of each host; -1: the host runs nothing of the job.
  std::vector<char> linked_;  // True for each host with a measured link in the calibration.
  std::vector<int> used_hosts_;
};

}  // namespace tethys

#endif  // TETHYS_DEPLOY_PREDICT_COMPUTERS_H_
