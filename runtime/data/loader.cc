#include "runtime/data/loader.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "runtime/base/status.h"

namespace tethys {

BatchLoader::BatchLoader(std::shared_ptr<const Dataset> dataset, const Options& options,
                         std::vector<HostBatch> buffers)
    : dataset_(std::move(dataset)),
      capacity_(Capacity(options)),
      buffers_(std::move(buffers)),
      requests_(capacity_ + 1) {
  TETHYS_CHECK(static_cast<int64_t>(buffers_.size()) == Buffers(options) && buffers_[0].rows >= 1,
               buffers_.size(), " buffers for ", Buffers(options), " batches");
  if (options.prefetch_batches > 0) thread_ = std::thread([this] { BuildAhead(); });
}

BatchLoader::~BatchLoader() {
  if (!thread_.joinable()) return;
  {
    MutexLock lock(mu_);
    stop_ = true;
  }
  changed_.NotifyAll();
  thread_.join();
}

int64_t BatchLoader::room() const {
  MutexLock lock(mu_);
  return taken_ + capacity_ - announced_;
}

void BatchLoader::Announce(std::shared_ptr<const EpochOrder> order, Slice slice) {
  const int64_t available = order != nullptr ? order->size() : dataset_->size();
  TETHYS_CHECK(available <= dataset_->size() && slice.begin >= 0 && slice.count() >= 0 &&
                   slice.end <= available && slice.count() <= buffers_[0].rows,
               "slice [", slice.begin, ", ", slice.end, ") of ", available, " for ", buffers_[0].rows,
               " rows");
  {
    MutexLock lock(mu_);
    TETHYS_CHECK(announced_ < taken_ + capacity_, "no room for another announcement");
    requests_[Place(announced_)] = {std::move(order), slice};
    ++announced_;
  }
  changed_.NotifyAll();
}

bool BatchLoader::ready() const {
  MutexLock lock(mu_);
  return taken_ < (thread_.joinable() ? built_ : announced_);
}

HostBatch BatchLoader::Next() {
  MutexLock lock(mu_);
  TETHYS_CHECK(taken_ < announced_, "no batch was announced");
  const int64_t place = Place(taken_);
  if (thread_.joinable()) {
    while (built_ <= taken_) changed_.Wait(mu_);
  } else {
    Build(std::exchange(requests_[place], {}), buffers_[place]);
    ++built_;
  }
  ++taken_;
  return buffers_[place];
}

void BatchLoader::BuildAhead() {
  while (true) {
    int64_t place = 0;
    {
      MutexLock lock(mu_);
      while (!stop_ && built_ == announced_) changed_.Wait(mu_);
      if (stop_) return;
      place = Place(built_);
    }
    Build(std::exchange(requests_[place], {}), buffers_[place]);
    {
      MutexLock lock(mu_);
      ++built_;
    }
    changed_.NotifyAll();
  }
}

void BatchLoader::Build(const Request& request, HostBatch batch) const {
  const int64_t elements = dataset_->sample_elements();
  const int64_t labels = dataset_->label_format().elements();
  const int64_t samples = request.slice.count();
  for (int64_t row = 0; row < samples; ++row) {
    const int64_t position = request.slice.begin + row;
    const int64_t sample = request.order != nullptr ? (*request.order)[position] : position;
    std::memcpy(batch.inputs + row * elements, dataset_->sample(sample), elements);
    dataset_->CopyLabels(sample, batch.labels + row * labels);
    batch.weights[row] = 1.0f;
  }
  const int64_t padding = batch.rows - samples;
  std::memset(batch.inputs + samples * elements, 0, padding * elements);
  std::fill_n(batch.labels + samples * labels, padding * labels, 0);
  std::fill_n(batch.weights + samples, padding, 0.0f);
}

}  // namespace tethys
