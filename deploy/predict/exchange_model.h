// The time of one exchange of gradients: how much it uses links, processors and servers, and how the times of
// these resources add up. A phase whose resources overlap imperfectly takes T = (sum of T_r^p)^(1/p): no
// overlap at p = 1, perfect overlap as p grows. The relative change of T for a relative change of T_r is
// (T_r / T)^p; these shares sum to 1 and are the explanation that a prediction gives.
//
// Messages that follow one another are a chain: each message waits until the message before it has been sent,
// received and added. Within a chain nothing overlaps, so an exchange takes at least the sum of its chain.
// Pure; any thread.
#ifndef TETHYS_DEPLOY_PREDICT_EXCHANGE_MODEL_H_
#define TETHYS_DEPLOY_PREDICT_EXCHANGE_MODEL_H_

#include <cstdint>
#include <string>
#include <vector>

#include "proto/calibration.pb.h"

namespace tethys {

// Values of ExchangeCost.transport. kLocal has only overheads: the time by which a step of a training run
// exceeds the same step in `tethys meter`, which calibrations use to time steps (deploy/sweep/meter.h).
inline constexpr char kRing[] = "ring";
inline constexpr char kSharedMemory[] = "shared_memory";
inline constexpr char kServers[] = "servers";
inline constexpr char kLocal[] = "local";

// The bytes and messages that all processes of one computer send and receive together.
struct ComputerWork {
  std::string name = {};
  double bytes = 0;
  double messages = 0;
  // The throughput of all these processes at once, divided by the throughput of one process alone.
  double capacity = 1;
  double slowness = 1;  // The CPU time on this computer, divided by the CPU time on the fastest computer.
  // For a computer with a quota of CPU time: `unthrottled` is its slowness while it has quota left, and
  // `spared` is the number of seconds in a step in which quota accumulates because none of these processes
  // computes. Without a quota, `unthrottled` equals `slowness`, and `spared` has no effect.
  double unthrottled = 1;
  double spared = 0;
};

struct ExchangeNeeds {
  std::string transport = {};
  double link = 0;  // Seconds for which the busiest direction of a link is in use, if flows share it equally.
  // True if several flows share the link. The slowest flow then takes longer (ExchangeCost.fairness).
  bool shared = false;
  double delay = 0;  // Seconds that do not depend on the rate; added to `link`.
  double chain = 0;  // Seconds that messages of one chain spend on links, without the time of processors.
  double chain_work = 0;  // The share of the processors' work that lies in the chain.
  std::string link_name = {};
  std::vector<ComputerWork> work = {};
  double loop_bytes = 0;  // The bytes through the event loop of the busiest server.
};

// The needs of exchanging a `share` of the gradients. The delay is paid once, so it is not scaled.
ExchangeNeeds Scaled(ExchangeNeeds needs, double share);

struct ResourceTime {
  std::string resource;  // "link of slave2", "CPU of exchange on slave1", "server loop", "copies of the GPU".
  double seconds = 0;
};

// The norm of the times for exponent p. Requires p >= 1 and times of 0 or more. The result lies between the
// largest time and the sum.
double Norm(const std::vector<ResourceTime>& times, double p);

struct ExchangeTime {
  double seconds = 0;                // The norm of the resources' times, or the chain if that is longer.
  std::vector<ResourceTime> shares;  // The parts of `seconds` by resource; their sum is `seconds`.
  std::vector<ResourceTime> alone;   // In the same order: the time if only this resource were used.
};
// The time of an exchange. The cost's step_overhead is not included, because it is paid once per step.
ExchangeTime TimeOf(const ExchangeNeeds& needs, const proto::ExchangeCost& cost);

// The CPU time of the exchange on the busiest computer, divided by the capacity of the computer.
double ExchangeWork(const ExchangeNeeds& needs, const proto::ExchangeCost& cost);

// The cost of the transport in the calibration; UsualCost if the calibration has none.
proto::ExchangeCost CostOf(const proto::Calibration& calibration, const std::string& transport);
// A cost of the usual order of magnitude, not a measured one. A fit starts from it. A prediction that uses it
// states that the exchange was not calibrated.
proto::ExchangeCost UsualCost(const std::string& transport);

// ---- links

// The delay and rate of all links from (or to) a host of a job, in one direction.
struct LinkOffer {
  double delay = 0;  // The delay in one direction, in seconds.
  double rate = 0;   // The rate in one direction while both directions are used, in bytes per second.
  double burst = 0;
  // For a ring whose links differ: the longest delay, and the mean rate of a hop. 0: all links have `delay`
  // and `rate`.
  double longest_delay = 0;
  double hop_rate = 0;
};

// The needs of an all-reduce of `bytes` among n ranks, each behind its own link; short vectors are exchanged
// directly.
ExchangeNeeds RingNeeds(int64_t bytes, int n, const LinkOffer& link);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_PREDICT_EXCHANGE_MODEL_H_
