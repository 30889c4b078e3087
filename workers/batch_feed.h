// Hands the batches of a dataset to a plan, in the order in which they were announced. The batches are built
// in memory from which the device copies without staging. On an asynchronous device the feed uploads the next
// batch while the device computes.
//
//   while (feed.loader().room() > 0 && more) feed.loader().Announce(order, next_slice);
//   feed.Feed();             // the batch of the oldest announcement
//   plan.TakeBatch();        // Forward, Backward ...
//   feed.FeedAhead();        // once the device's work is enqueued
//
// Used by the plan's thread. Feed blocks until the loader has built the batch and the previous batch is
// copied.
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
    BatchLoader::Options loader = {};  // The feed sets the field taken_ahead itself.
    Nanoseconds slow_down = 0;         // Every Feed sleeps this long, to slow a worker down in tests.
  };
  // `device` and `plan` must outlive the feed.
  static absl::StatusOr<std::unique_ptr<BatchFeed>> Create(Device& device, Plan& plan,
                                                           std::shared_ptr<const Dataset> dataset,
                                                           const Options& options);

  BatchLoader& loader() { return *loader_; }

  // A batch that consists of padding only, all zero. Requires that no batch was announced yet. The result is
  // valid until a batch is announced.
  HostBatch empty_batch() const { return empty_batch_; }

  // Hands the next batch to the plan, which may then take it. Requires an announced batch. Has the errors of
  // reading a sample.
  absl::Status Feed();

  // Hands over the next batch ahead of its step. No-op on a synchronous device, or if the batch is not built
  // yet.
  absl::Status FeedAhead();

 private:
  BatchFeed(Plan& plan, bool ahead, Nanoseconds slow_down)
      : plan_(plan), feeds_ahead_(ahead), slow_down_(slow_down) {}
  absl::Status HandOver();

  Plan& plan_;
  const bool feeds_ahead_;
  const Nanoseconds slow_down_;
  std::vector<std::unique_ptr<Buffer>> memory_;  // The buffers of the loader's batches.
  HostBatch empty_batch_;                        // Lies in the first buffer of memory_.
  std::unique_ptr<BatchLoader> loader_;
  bool fed_ahead_ = false;
};

}  // namespace tethys

#endif  // TETHYS_WORKERS_BATCH_FEED_H_
