// Brings the batches of a dataset to a plan, in the order in which they are announced: builds them where the
// plan's device copies from without staging, and uploads the next while the device computes, where it
// computes while the host goes on.
//
//   while (feed.loader().room() > 0 && more) feed.loader().Announce(order, next_slice);
//   feed.Feed();             // of the oldest announcement
//   plan.TakeBatch();        // Forward, Backward ...
//   feed.FeedAhead();        // once the device has its work
//
// Used by the plan's thread. Feed waits for the loader, and for the copy of the batch before.
#ifndef TETHYS_WORKERS_BATCH_FEED_H_
#define TETHYS_WORKERS_BATCH_FEED_H_

#include <memory>
#include <vector>

#include "runtime/base/clock.h"
#include "runtime/data/dataset.h"
#include "runtime/data/loader.h"
#include "runtime/device/device.h"
#include "runtime/nn/plan.h"

namespace tethys {

class BatchFeed {
 public:
  struct Options {
    int prefetch_batches = 0;   // As the loader's.
    Nanoseconds slow_down = 0;  // For trials: Feed waits so long first.
  };
  // `device` and `plan` outlive the feed.
  static absl::StatusOr<std::unique_ptr<BatchFeed>> Create(Device& device, Plan& plan,
                                                           std::shared_ptr<const Dataset> dataset,
                                                           const Options& options);

  BatchLoader& loader() { return *loader_; }

  // The plan may take the next batch. Requires one announced.
  absl::Status Feed();

  // Hands over the next batch already, where that gains anything and the batch is there.
  absl::Status FeedAhead();

 private:
  BatchFeed(Plan& plan, bool ahead, Nanoseconds slow_down)
      : plan_(plan), feeds_ahead_(ahead), slow_down_(slow_down) {}
  absl::Status HandOver();

  Plan& plan_;
  const bool feeds_ahead_;
  const Nanoseconds slow_down_;
  std::vector<std::unique_ptr<Buffer>> memory_;  // Of the loader's batches.
  std::unique_ptr<BatchLoader> loader_;
  bool fed_ahead_ = false;
};

}  // namespace tethys

#endif  // TETHYS_WORKERS_BATCH_FEED_H_
