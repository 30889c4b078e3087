#include "workers/batch_feed.h"

#include <chrono>
#include <thread>
#include <utility>

namespace tethys {

absl::StatusOr<std::unique_ptr<BatchFeed>> BatchFeed::Create(Device& device, Plan& plan,
                                                             std::shared_ptr<const Dataset> dataset,
                                                             const Options& options) {
  const bool ahead = !device.reads_host_memory();
  std::unique_ptr<BatchFeed> feed(new BatchFeed(plan, ahead, options.slow_down));
  BatchLoader::Options loader = options.loader;
  loader.taken_ahead = ahead ? 1 : 0;
  const BatchLayout layout = {plan.rows(), dataset->sample_bytes(), dataset->label_format().elements()};
  std::vector<HostBatch> buffers;
  for (int64_t i = 0; i < BatchLoader::Buffers(loader); ++i) {
    TETHYS_ASSIGN_OR_RETURN(feed->memory_.emplace_back(),
                            device.Allocate(layout.bytes(), MemoryKind::kPinnedHost));
    buffers.push_back(layout.At(feed->memory_.back()->data()));
  }
  feed->empty_batch_ = buffers.front();
  feed->loader_ = std::make_unique<BatchLoader>(std::move(dataset), loader, std::move(buffers));
  return feed;
}

absl::Status BatchFeed::Feed() {
  if (slow_down_ > 0) std::this_thread::sleep_for(std::chrono::nanoseconds(slow_down_));
  if (std::exchange(fed_ahead_, false)) return absl::OkStatus();
  return HandOver();
}

absl::Status BatchFeed::FeedAhead() {
  if (!feeds_ahead_ || fed_ahead_ || !loader_->ready()) return absl::OkStatus();
  fed_ahead_ = true;
  return HandOver();
}

// The loader's Next may overwrite the previous batch, so HandOver waits until that batch is copied to the
// device. The copy itself waits only for the step that last read the same slot on the device, two batches
// earlier. That step has ended, so HandOver never waits for an in-flight step.
absl::Status BatchFeed::HandOver() {
  TETHYS_RETURN_IF_ERROR(plan_.AwaitUploads());
  TETHYS_ASSIGN_OR_RETURN(const HostBatch batch, loader_->Next());
  return plan_.Upload(batch);
}

}  // namespace tethys
