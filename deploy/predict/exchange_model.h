// The time of one exchange of gradients: what it asks of links, processors and servers, and how the times of
// these resources add up. A phase whose resources overlap imperfectly takes T = (sum of T_r^p)^(1/p): no
// overlap at p = 1, perfect overlap as p grows. The relative change of T for a relative change of T_r is
// (T_r / T)^p; these shares sum to 1 and are the explanation that a prediction gives.
//
// Messages that follow one another are a chain: each waits until the one before it has been sent, received
// and added. Within a chain nothing overlaps, so an exchange takes at least the sum of its chain. Pure; any
// thread.
#ifndef TETHYS_DEPLOY_PREDICT_EXCHANGE_MODEL_H_
#define TETHYS_DEPLOY_PREDICT_EXCHANGE_MODEL_H_

#include <cstdint>
#include <string>
#include <vector>

#include "proto/calibration.pb.h"

namespace tethys {

// The values of ExchangeCost.transport. kLocal has an overhead only: the trainer's, which a meter lacks.
inline constexpr char kRing[] = "ring";
inline constexpr char kSharedMemory[] = "shared_memory";
inline constexpr char kServers[] = "servers";
inline constexpr char kLocal[] = "local";

// The bytes and messages that all processes of one computer send and receive together.
struct ComputerWork {
  std::string name = {};
  double bytes = 0;
  double messages = 0;
  double capacity = 1;  // Processes at once over one process alone.
  double slowness = 1;  // CPU time here over CPU time on the fastest computer.
  // With a quota of CPU time: slowness while some quota is left, and the seconds of a step in which it
  // gathers, since none of these processes computes. Without one: as slowness, and 0.
  double unthrottled = 1;
  double spared = 0;
};

struct ExchangeNeeds {
  std::string transport = {};
  double link = 0;        // Seconds of the busiest direction of a link, if flows share it equally.
  bool shared = false;    // Several flows share it, so that the slowest takes longer (fairness).
  double delay = 0;       // Seconds that do not depend on the rate; added to `link`.
  double chain = 0;       // Seconds of messages that follow one another, on links; without processors.
  double chain_work = 0;  // The part of the processors' work that lies in the chain.
  std::string link_name = {};
  std::vector<ComputerWork> work = {};
  double loop_bytes = 0;  // The bytes through the event loop of the busiest server.
};

// An exchange of `share` of the gradients. The delay is paid once, so it stays as it is.
ExchangeNeeds Scaled(ExchangeNeeds needs, double share);

struct ResourceTime {
  std::string resource;  // "link of slave2", "CPU of exchange on slave1", "server loop", "copies of the GPU".
  double seconds = 0;
};

// Requires p >= 1 and times that are not negative. The largest time and the sum bound the result.
double Norm(const std::vector<ResourceTime>& times, double p);

struct ExchangeTime {
  double seconds = 0;                // The norm of the resources' times, or the chain if that is longer.
  std::vector<ResourceTime> shares;  // They sum to `seconds`.
  std::vector<ResourceTime> alone;   // In the same order: the time if there were only this resource.
};
// The cost's step_overhead comes once in a step and is not part of it.
ExchangeTime TimeOf(const ExchangeNeeds& needs, const proto::ExchangeCost& cost);

// The CPU time of the busiest computer's exchange, divided by its capacity.
double ExchangeWork(const ExchangeNeeds& needs, const proto::ExchangeCost& cost);

// The cost of the transport or, if the calibration has none, UsualCost.
proto::ExchangeCost CostOf(const proto::Calibration& calibration, const std::string& transport);
// An order of magnitude, which no measurement stands behind: where a fit begins. A prediction from it alone
// says that its exchange was not calibrated.
proto::ExchangeCost UsualCost(const std::string& transport);

// ---- links

// The delay and rate of all links from (or to) a host of a job, in one direction.
struct LinkOffer {
  double delay = 0;  // One way.
  double rate = 0;   // Bytes a second while both directions are used.
  double burst = 0;
  // Around a ring whose links differ: the longest delay, and the rate of a hop in the mean; 0: as above.
  double longest_delay = 0;
  double hop_rate = 0;
};

// All-reduce of `bytes` among n ranks, each behind a link of its own; short vectors are exchanged directly.
ExchangeNeeds RingNeeds(int64_t bytes, int n, const LinkOffer& link);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_PREDICT_EXCHANGE_MODEL_H_
