// Input: frames that workers send to a server, with any fields, in any order, under each consistency.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "ps/parameter_store.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/targets.h"

namespace tethys::fuzz {
namespace {

constexpr int kWorkers = 2;
constexpr uint32_t kGeneration = 7;
constexpr Range kShards[] = {{0, 8}, {16, 3}};  // There is padding between the two shards.

class NoStream final : public Stream {
 public:
  absl::Status Synchronize() override { return absl::OkStatus(); }
};

// Subtracts (learning rate) x (mean gradient) from the parameters.
class Sgd final : public Optimizer {
 public:
  absl::StatusOr<std::vector<std::unique_ptr<Buffer>>> AllocateSlots(int64_t) override {
    return std::vector<std::unique_ptr<Buffer>>();
  }
  void SetRates(int, const Update& update) override {
    Require(std::isfinite(update.learning_rate) && update.learning_rate >= 0, "a learning rate is a number");
    // After clipping, the scale is 0 if the norm of the gradients is infinite or almost so.
    Require(update.gradient_scale >= 0 && update.gradient_scale <= 1, "sums are divided by a count");
    rates_ = update;
  }
  absl::Status Measure(Stream&, const Update&, const float* parameters, const float* sums,
                       absl::Span<float* const>, absl::Span<RegionSquares> squares) override {
    Require(squares.size() == std::size(kShards), "every shard is measured");
    for (size_t shard = 0; shard < squares.size(); ++shard) {
      squares[shard] = {};
      for (int64_t i = kShards[shard].begin; i < kShards[shard].end(); ++i) {
        squares[shard].parameters += double{parameters[i]} * parameters[i];
        squares[shard].measured += double{sums[i]} * sums[i];
      }
    }
    return absl::OkStatus();
  }
  absl::Status Enqueue(Stream&, int, const Update& update, float* parameters, const float* sums,
                       absl::Span<float* const>) override {
    for (const Range& shard : kShards) {
      const Range range = Intersection(shard, update.part);
      for (int64_t i = range.begin; i < range.end(); ++i) {
        Require(std::isfinite(sums[i]), "gradients that are applied are finite");
        parameters[i] -= static_cast<float>(rates_.learning_rate * rates_.gradient_scale * sums[i]);
      }
    }
    return absl::OkStatus();
  }
  const int32_t* refused() const override { return nullptr; }
  absl::Status Check(int) const override { return absl::OkStatus(); }

 private:
  Update rates_;
};

class Watch final : public StoreActions {
 public:
  void Record(const proto::AppliedPush& push) override {
    ++events;
    Require(applied_.emplace(push.worker(), push.incarnation(), push.sequence()).second,
            "a push is applied once");
    Require(push.staleness() >= 0, "a push is based on an earlier version");
  }
  void Reply(const ParameterReply& reply) override {
    ++events;
    Require(reply.worker >= 0 && reply.worker < kWorkers, "an answer goes to a worker");
    Require(reply.local.begin >= 0 && reply.local.end() <= kShards[1].end(),
            "an answer lies in this server's memory");
    Require(reply.arena.count == reply.local.count, "an answer is as long as the range asked for");
  }
  void ReplyNorm(const NormReply& reply) override {
    ++events;
    Require(reply.worker >= 0 && reply.worker < kWorkers, "a norm goes to a worker");
    for (const double value : reply.values) Require(value >= 0, "a sum of squares is a number");
  }
  void Fail(const absl::Status& status) override { fatal = status; }

  int events = 0;
  absl::Status fatal;

 private:
  std::set<std::tuple<int, uint32_t, int64_t>> applied_;
};

proto::ParameterServer Consistency(uint64_t choice) {
  proto::ParameterServer config;
  const auto scale = choice & 4 ? proto::Asynchronous::PUSH_MEAN : proto::Asynchronous::GLOBAL_MEAN;
  switch (choice & 3) {
    case 0:
      config.mutable_bulk_synchronous()->set_summation(choice & 4 ? proto::BulkSynchronous::ARRIVAL
                                                                  : proto::BulkSynchronous::ORDERED);
      break;
    case 1:
      config.mutable_asynchronous()->set_gradient_scale(scale);
      config.mutable_asynchronous()->set_pull(choice & 8 ? proto::Asynchronous::BEFORE_STEP
                                                         : proto::Asynchronous::WITH_ANSWER);
      break;
    default:
      config.mutable_stale_synchronous()->set_bound(choice & 1);
      config.mutable_stale_synchronous()->set_gradient_scale(scale);
  }
  return config;
}

std::unique_ptr<ParameterStore> MakeStore(const proto::ParameterServer& consistency, double clip_norm,
                                          bool measures, Stream& stream) {
  proto::Placement placement;
  placement.set_servers(1);
  for (const Range& range : kShards) {
    proto::Shard& shard = *placement.add_shard();
    shard.set_variable("v");
    shard.set_begin(range.begin);
    shard.set_count(range.count);
  }
  proto::Optimizer optimizer;
  optimizer.set_learning_rate(1);
  optimizer.mutable_schedule()->mutable_linear_decay();
  StoreConfig config{.workers = {0, 1},
                     .generation = kGeneration,
                     .slots = {},
                     .schedule = LearningRateSchedule(optimizer, {.job = 1000}),
                     .parameter_server = consistency,
                     .global_batch = 100,
                     .clip_norm = clip_norm,
                     .measures = measures};
  return *ParameterStore::Create(std::move(config), *ShardLayout::Create(placement, 0, 32),
                                 std::make_unique<Sgd>(), stream);
}

Frame TakeFrame(ByteReader& bytes) {
  Frame frame;
  frame.generation = kGeneration + static_cast<uint32_t>(bytes.Number());
  frame.rank = static_cast<uint32_t>(bytes.Number());
  frame.incarnation = static_cast<uint32_t>(bytes.Number());
  frame.global_sample_count = static_cast<uint32_t>(bytes.Number());
  for (uint64_t* field :
       {&frame.step, &frame.sequence, &frame.range_begin, &frame.range_count, &frame.sample_begin,
        &frame.sample_count, &frame.schedule_position, &frame.base_version}) {
    *field = bytes.Number();
  }
  return frame;
}

// Returns a payload. Depending on the input, the payload has the length that the frame requires or another
// length.
std::string TakePayload(ByteReader& bytes, const Frame& frame) {
  const uint64_t length = bytes.Number();
  if (length > 0) return std::string(bytes.Bytes(length));
  const auto value = static_cast<float>(bytes.Number());
  std::string payload;
  for (uint64_t i = 0; i < std::min<uint64_t>(frame.range_count, 32) && frame.sample_count > 0; ++i) {
    payload.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  return payload;
}

// Takes a message about norms from `bytes`, and gives it to the store. If `measure`, the message is a request
// for the norms of variables; otherwise it is a commit if it has a payload, or a request for the norm of the
// gradients if not. The payload repeats one double, which is made from one number of `bytes`. A number below
// 240 is converted to a double; the bits of any other number are used as the bits of a double.
absl::Status TakeExchange(ByteReader& bytes, bool measure, ParameterStore& store, Watch& watch) {
  Frame frame = TakeFrame(bytes);
  frame.dtype = FrameDType::kFloat64;
  const uint64_t length = bytes.Number();
  const uint64_t number = bytes.Number();
  const auto small = static_cast<double>(number);
  constexpr uint64_t kMostValues = 2 * std::size(kShards);
  std::string payload;
  for (uint64_t i = 0; i < kMostValues; ++i) {
    payload.append(
        number < 0xf0 ? reinterpret_cast<const char*>(&small) : reinterpret_cast<const char*>(&number),
        sizeof(double));
  }
  payload.resize(std::min<uint64_t>(length, payload.size()));
  frame.payload_bytes = payload.size();
  frame.kind = measure ? FrameKind::kMeasure : length == 0 ? FrameKind::kNorm : FrameKind::kCommit;
  return store.OnExchange(frame, {payload}, watch);
}

proto::Fence TakeFence(ByteReader& bytes) {
  proto::Fence fence;
  fence.set_worker(static_cast<int32_t>(bytes.Number()));
  fence.set_incarnation(static_cast<uint32_t>(bytes.Number()));
  fence.set_takes_part(bytes.Number() & 1);
  fence.set_clock(static_cast<int64_t>(bytes.Number()));
  return fence;
}

}  // namespace

void FuzzParameterStore(absl::string_view input) {
  ByteReader bytes(input);
  NoStream stream;
  Watch watch;
  const uint64_t choice = bytes.Number();
  const auto store = MakeStore(Consistency(choice), choice & 16 ? 0.5 : 0, choice & 32, stream);
  while (!bytes.empty()) {
    const int64_t version = store->version();
    const int events = watch.events;
    const uint64_t kind = bytes.Number();
    absl::Status status;
    if (kind == 0) {
      status = store->OnFence(TakeFence(bytes), watch);
    } else if (kind == 1) {
      status = store->OnPull(TakeFrame(bytes), watch);
    } else if (kind == 3 || kind == 4) {
      status = TakeExchange(bytes, kind == 4, *store, watch);
    } else {
      Frame frame = TakeFrame(bytes);
      const std::string payload = TakePayload(bytes, frame);
      frame.payload_bytes = payload.size();
      status = store->OnPush(frame, {payload}, watch);
    }
    if (status.ok()) {
      Require(watch.fatal.ok() || kind == 0, "a store that has failed accepts nothing");
    } else {
      RequireRefusal(status, "ser");
      Require(!watch.fatal.ok() || (version == store->version() && events == watch.events),
              "a refusal changes nothing");
    }
    for (int i = kShards[0].count; i < kShards[1].begin; ++i)
      Require(store->parameters()[i] == 0, "padding stays zero");
  }
}

}  // namespace tethys::fuzz
