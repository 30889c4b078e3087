// A processor or a link that several jobs share equally, in simulated time. In virtual time every job runs at
// rate 1, so the virtual time of a job's end does not change when other jobs come or go, and adding or ending
// a job costs O(log jobs). Pure; thread-compatible.
#ifndef TETHYS_DEPLOY_PREDICT_SHARED_RESOURCE_H_
#define TETHYS_DEPLOY_PREDICT_SHARED_RESOURCE_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <queue>
#include <utility>
#include <vector>

namespace tethys {

class SharedResource {
 public:
  // rates[k - 1] is the work that k jobs together do in a second. The last rate applies to larger numbers,
  // too. Requires positive rates.
  explicit SharedResource(std::vector<double> rates) : rates_(std::move(rates)) {}

  void Add(double now, double work, int64_t job) {
    Advance(now);
    jobs_.push({virtual_ + work, job});
  }

  bool idle() const { return jobs_.empty(); }
  // The time when the next job ends if none is added. Requires !idle().
  double NextEnd() const { return last_ + std::max(0.0, jobs_.top().first - virtual_) / Speed(); }
  // Ends the next job; `now` is the time of its end. Returns the job.
  int64_t End(double now) {
    Advance(now);
    const int64_t job = jobs_.top().second;
    virtual_ = std::max(virtual_, jobs_.top().first);
    jobs_.pop();
    return job;
  }

 private:
  // The rate that each job gets.
  double Speed() const {
    const size_t jobs = jobs_.size();
    return rates_[std::min(jobs, rates_.size()) - 1] / static_cast<double>(jobs);
  }
  void Advance(double now) {
    if (!jobs_.empty()) virtual_ += (now - last_) * Speed();
    last_ = now;
  }

  using Entry = std::pair<double, int64_t>;  // The virtual time of a job's end, and the job.
  std::vector<double> rates_;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> jobs_;
  double virtual_ = 0;
  double last_ = 0;
};

}  // namespace tethys

#endif  // TETHYS_DEPLOY_PREDICT_SHARED_RESOURCE_H_
