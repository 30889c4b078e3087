// Input: frames of another server to the copy of its shards, with any fields, in any order, and steps back.
#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/strip.h"
#include "ps/shard_copy.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/targets.h"

namespace tethys::fuzz {
namespace {

constexpr int kPrimary = 1;
constexpr int kArenas = 2;

std::unique_ptr<ShardCopy> MakeCopy(bool with_book) {
  proto::Placement placement;
  placement.set_servers(2);
  for (const Range range : {Range{0, 8}, Range{16, 3}}) {
    proto::Shard& shard = *placement.add_shard();
    shard.set_variable("v");
    shard.set_begin(range.begin);
    shard.set_count(range.count);
    shard.set_server(kPrimary);
  }
  return *ShardCopy::Create(*ShardLayout::Create(placement, kPrimary, 32), kPrimary, 0, kArenas - 1,
                            with_book);
}

Frame TakeFrame(ByteReader& bytes) {
  Frame frame;
  frame.kind = bytes.Number() == 0 ? FrameKind::kCopy : FrameKind::kPush;
  frame.group = kPrimary + static_cast<uint32_t>(bytes.Number());
  for (uint64_t* field :
       {&frame.step, &frame.sequence, &frame.range_begin, &frame.range_count, &frame.base_version}) {
    *field = bytes.Number();
  }
  return frame;
}

}  // namespace

void FuzzShardCopy(absl::string_view input) {
  // An input that ends with this byte is for a copy whose versions have books.
  const bool with_book = absl::ConsumeSuffix(&input, "B");
  ByteReader bytes(input);
  const auto copy = MakeCopy(with_book);
  while (!bytes.empty()) {
    const absl::optional<int64_t> before = copy->version();
    const std::vector<float> values =
        before.has_value()
            ? std::vector<float>(copy->values(0), copy->values(0) + copy->layout().local_size())
            : std::vector<float>();
    const uint64_t kind = bytes.Number();
    if (kind == 0) {
      const auto version = static_cast<int64_t>(bytes.Number() >> 1);
      copy->StepBack(version);
      Require(!copy->version().has_value() || copy->version() == version, "a copy steps back to the version");
      continue;
    }
    Frame frame = TakeFrame(bytes);
    if (with_book && kind % 2 == 0) frame.dtype = FrameDType::kBytes;
    // Depending on the input, the payload has the length that the frame requires or another length.
    const uint64_t length =
        kind == 1 ? std::min<uint64_t>(frame.range_count, 32) * sizeof(float) : bytes.Number();
    const std::string payload(std::min<uint64_t>(length, 256), static_cast<char>(bytes.Number()));
    frame.payload_bytes = payload.size();
    const absl::StatusOr<bool> complete = copy->Take(frame, {payload});
    if (!complete.ok()) RequireRefusal(complete.status(), "server 1");
    const bool newer = complete.ok() && *complete && copy->version() != before;
    if (newer) {
      Require(copy->version() == static_cast<int64_t>(frame.base_version),
              "a complete version is the frame's");
      Require(!before.has_value() || *copy->version() > *before, "versions grow");
    } else {
      Require(copy->version() == before, "an incomplete version is no version");
      Require(!before.has_value() || std::equal(values.begin(), values.end(), copy->values(0)),
              "the newest complete version stays while the next one arrives");
    }
  }
}

}  // namespace tethys::fuzz
