// A fixture for tests of the parameter store: drives a store of 19 elements and describes its actions as
// text. All parameters have the same value.
#ifndef TETHYS_TESTS_PS_PARAMETER_STORE_FIXTURE_H_
#define TETHYS_TESTS_PS_PARAMETER_STORE_FIXTURE_H_

#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "ps/parameter_store.h"
#include "tests/ps/parameter_store_doubles.h"

namespace tethys {

// A push or, if `part` is set, a part of a push. All its gradients are equal to `gradient`.
struct Push {
  int worker = 0;
  float gradient = 0;
  uint64_t samples = 1;
  uint64_t step = 0;
  uint64_t sequence = 1;
  uint64_t base = 0;
  uint64_t position = 0;
  Range part = {0, 19};
  uint32_t incarnation = 1;
  uint32_t generation = 7;
  uint32_t global = 100;  // Samples of the step's global batch, which stale-synchronous stores need.
};

// A store with the variables a = [0, 8) and b = [16, 19) and learning rate 1. Parameters begin at 0, so each
// parameter is minus the sum of its mean gradients.
class ParameterStoreTest : public ::testing::Test {
 protected:
  void Make(int workers, const proto::ParameterServer& parameter_server) {
    proto::Placement placement;
    placement.set_servers(1);
    for (const auto& [name, range] : {std::pair{"a", Range{0, 8}}, std::pair{"b", Range{16, 3}}}) {
      proto::Shard& shard = *placement.add_shard();
      shard.set_variable(name);
      shard.set_begin(range.begin);
      shard.set_count(range.count);
    }
    ShardLayout layout = *ShardLayout::Create(placement, 0, 32);
    std::vector<Range> regions;
    for (const auto& shard : layout.shards()) regions.push_back(shard.local);
    optimizer_.set_learning_rate(1);
    store_ = *ParameterStore::Create(StoreConfig{.server = 2,
                                                 .workers = Indices(workers),
                                                 .generation = 7,
                                                 .slots = SlotsOf(optimizer_),
                                                 .schedule = LearningRateSchedule(optimizer_, {.job = 1000}),
                                                 .parameter_server = parameter_server,
                                                 .global_batch = 100,
                                                 .clip_norm = clip_norm_,
                                                 .measures = measures_,
                                                 .keeps_undo = keeps_undo_,
                                                 .copied = copied_},
                                     std::move(layout), std::make_unique<FakeOptimizer>(regions), stream_);
  }
  // The indices of `count` workers: 0, 1, ...
  static std::vector<int> Indices(int count) {
    std::vector<int> workers(count);
    std::iota(workers.begin(), workers.end(), 0);
    return workers;
  }
  void MakeBulk(int workers, proto::BulkSynchronous::Summation summation = proto::BulkSynchronous::ORDERED) {
    proto::ParameterServer config;
    config.mutable_bulk_synchronous()->set_summation(summation);
    Make(workers, config);
  }
  void MakeAsynchronous(int workers,
                        proto::Asynchronous::GradientScale scale = proto::Asynchronous::PUSH_MEAN,
                        proto::Asynchronous::Pull pull = proto::Asynchronous::WITH_ANSWER) {
    proto::ParameterServer config;
    config.mutable_asynchronous()->set_gradient_scale(scale);
    config.mutable_asynchronous()->set_pull(pull);
    Make(workers, config);
  }

  void MakeStale(int workers, int bound,
                 proto::Asynchronous::GradientScale scale = proto::Asynchronous::GLOBAL_MEAN) {
    proto::ParameterServer config;
    config.mutable_stale_synchronous()->set_bound(bound);
    config.mutable_stale_synchronous()->set_gradient_scale(scale);
    Make(workers, config);
  }

  static Frame ToFrame(const Push& push) {
    Frame frame;
    frame.kind = FrameKind::kPush;
    frame.global_sample_count = push.global;
    frame.generation = push.generation;
    frame.rank = static_cast<uint32_t>(push.worker);
    frame.incarnation = push.incarnation;
    frame.step = push.step;
    frame.sequence = push.sequence;
    frame.range_begin = static_cast<uint64_t>(push.part.begin);
    frame.range_count = static_cast<uint64_t>(push.part.count);
    frame.sample_begin = 1000 * push.sequence + push.worker;
    frame.sample_count = push.samples;
    frame.schedule_position = push.position;
    frame.base_version = push.base;
    frame.payload_bytes = push.samples == 0 ? 0 : frame.range_count * sizeof(float);
    return frame;
  }

  // Pushes, and returns the store's actions as text: "wait", "w0 v1, w1 v1" (replies), "refused: TEXT".
  std::string Do(const Push& push) {
    const Frame frame = ToFrame(push);
    const std::vector<float> values(frame.payload_bytes / sizeof(float), push.gradient);
    return Do(frame, absl::string_view(reinterpret_cast<const char*>(values.data()), frame.payload_bytes));
  }
  std::string Do(const Frame& frame, absl::string_view payload) {
    actions_ = Taken();
    return Words(store_->OnPush(frame, {payload}, actions_));
  }
  std::string Pull(int worker, Range range) {
    actions_ = Taken();
    return Words(store_->OnPull(ToFrame({.worker = worker, .sequence = 0, .part = range}), actions_));
  }
  std::string Fence(int worker, uint32_t incarnation, bool takes_part, int64_t clock = 0) {
    proto::Fence fence;
    fence.set_worker(worker);
    fence.set_incarnation(incarnation);
    fence.set_takes_part(takes_part);
    fence.set_clock(clock);
    actions_ = Taken();
    return Words(store_->OnFence(fence, actions_));
  }
  std::string Words(const absl::Status& status) const {
    if (!status.ok()) return absl::StrCat("refused: ", StatusText(status));
    if (actions_.replies.empty() && actions_.norms.empty()) return "wait";
    std::vector<std::string> words = actions_.norms;
    if (!actions_.replies.empty()) words.push_back(ReplyWords());
    return absl::StrJoin(words, ", ");
  }
  std::string ReplyWords() const {
    return absl::StrJoin(actions_.replies, ", ", [](std::string* out, const ParameterReply& reply) {
      absl::StrAppend(out, "w", reply.worker, " v", reply.version);
      if (reply.staleness > 0) absl::StrAppend(out, " stale ", reply.staleness);
      if (!reply.with_values) absl::StrAppend(out, " without values");
      if (reply.arena.count < 19) absl::StrAppend(out, " [", reply.arena.begin, ",", reply.arena.end(), ")");
    });
  }
  // The value that all parameters have; also checks that padding is zero.
  float Parameter() const {
    const float* values = store_->parameters();
    for (int i = 0; i < 19; ++i) EXPECT_EQ(values[i], i >= 8 && i < 16 ? 0 : values[0]) << i;
    return values[0];
  }

  double clip_norm_ = 0;  // The limit on the gradient norm in later stores; 0: no limit.
  bool measures_ = false;
  bool keeps_undo_ = false;
  bool copied_ = false;
  proto::Optimizer optimizer_;
  NoStream stream_;
  std::unique_ptr<ParameterStore> store_;
  Taken actions_;
};

}  // namespace tethys

#endif  // TETHYS_TESTS_PS_PARAMETER_STORE_FIXTURE_H_
