// Supposed machines: `--what_if=hosts=32,link=10gbit` changes the machines of a host file and their
// calibration, so that a job can be predicted for more, other or faster machines. No run can check such a
// prediction; MarkSupposed notes this in the prediction and widens its intervals. Called by `tethys plan` and
// `tethys advise`. Pure; any thread.
//
// - hosts=N: the first N hosts; if the host file has fewer, further hosts are like the host of median speed
// - kind=NAME: further hosts are like the hosts of this kind, or like the host of this name
// - slots=N: the most workers and servers of each host
// - cores=N: the cores of each host; ranks share these cores as the measured ranks shared the measured cores
// - speed=FACTOR: the speed of computing, as a multiple of the measured speed
// - link=RATE: what a connection carries between any two hosts: 940mbit, 10gbit, 2.5gbit/s
// - delay=TIME: the time from one host to another: 50us, 1.5ms
// - price=AMOUNT: the price of each host for an hour
#ifndef TETHYS_DEPLOY_PREDICT_WHAT_IF_H_
#define TETHYS_DEPLOY_PREDICT_WHAT_IF_H_

#include <string>
#include <vector>

#include "absl/types/optional.h"
#include "proto/calibration.pb.h"
#include "proto/prediction.pb.h"
#include "runtime/base/status.h"
#include "runtime/cluster/host_file.h"

namespace tethys {

// Supposed properties. A property that is nullopt or empty keeps its real value.
struct WhatIf {
  absl::optional<int> hosts;
  std::string kind;
  absl::optional<int> slots;
  absl::optional<int> cores;
  absl::optional<double> speed;
  absl::optional<double> link;   // The rate of a link, in bytes per second.
  absl::optional<double> delay;  // The delay from one host to another, in seconds.
  absl::optional<double> price;  // The price of a host for an hour.
};

// Parses the values of --what_if, each "NAME=VALUE,NAME=VALUE,...". InvalidArgument names a word that is
// unknown, given twice, without its unit or out of bounds, and says what to write instead.
absl::StatusOr<WhatIf> ParseWhatIf(const std::vector<std::string>& values);

struct Supposition {
  std::vector<HostEntry> hosts;  // Empty: this machine alone, without a host file.
  int slots_here = 0;            // The slots of this machine alone; 0: no supposition.
  double price_here = 0;         // The price of this machine alone for an hour; 0: not known.
  proto::Calibration calibration;
  double half_width = 0;  // Every interval widens by this, in natural logarithms; a convention.
  std::string text;       // "32 hosts (the additional hosts like slave4), links of 10 Gbit/s".
};

// Applies `what_if` to the machines and the calibration. `hosts`: the hosts of the host file; empty without a
// host file, and then hosts=N supposes machines like this machine. Requires that the calibration knows every
// host or its kind. Errors:
//   InvalidArgument     A setting has no effect on these hosts: link= or delay= with one host, kind= with a
//                       name that no host has, or cores= with GPUs. Or several hosts are supposed, no link
//                       was measured, and link= or delay= is missing.
//   FailedPrecondition  cores= is given, and the calibration lacks the number of cores of a computer.
//   NotFound            The calibration lacks a host.
absl::StatusOr<Supposition> Suppose(const WhatIf& what_if, const std::vector<HostEntry>& hosts,
                                    const proto::Calibration& calibration);

// Widens the intervals. Sets prediction.validity and prediction.remark to say that the machines are supposed.
void MarkSupposed(const Supposition& supposition, proto::Prediction& prediction);

// ---- changes of a calibration

// Multiplies the rates of all links, or the speed of computing on all computers, by `factor` (above 0).
void ScaleLinks(double factor, proto::Calibration& calibration);
void ScaleSpeed(double factor, proto::Calibration& calibration);

// A link's rate as people write it, in bits: "940 Mbit/s", "10 Gbit/s".
std::string LinkRateText(double bytes_per_second);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_PREDICT_WHAT_IF_H_
