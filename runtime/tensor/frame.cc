#include "runtime/tensor/frame.h"

#include <zlib.h>

#include <bit>
#include <cmath>
#include <cstring>

namespace tethys {
namespace {

static_assert(std::endian::native == std::endian::little,
              "frames are copied in the byte order of memory, which must be little-endian");

constexpr uint32_t kMagic = 0x46485454;  // The letters "TTHF".
constexpr int64_t kByKindOffset = 8;
constexpr int64_t kCrcOffset = 28;

template <typename T>
void Put(char* out, int64_t offset, T value) {
  std::memcpy(out + offset, &value, sizeof(value));
}

template <typename T>
T Get(const char* in, int64_t offset) {
  T value;
  std::memcpy(&value, in + offset, sizeof(value));
  return value;
}

uint32_t HeaderCrc(const char* bytes) {
  char copy[kFrameBytes];
  std::memcpy(copy, bytes, kFrameBytes);
  Put<uint32_t>(copy, kCrcOffset, 0);
  return static_cast<uint32_t>(crc32(0, reinterpret_cast<const Bytef*>(copy), kFrameBytes));
}

constexpr absl::string_view kUnknownKind = "unknown";

absl::string_view KindName(FrameKind kind) {
  switch (kind) {
    case FrameKind::kChallenge:
      return "challenge";
    case FrameKind::kHandshake:
      return "handshake";
    case FrameKind::kReduce:
      return "reduce";
    case FrameKind::kGather:
      return "gather";
    case FrameKind::kBarrier:
      return "barrier";
    case FrameKind::kReduceScatter:
      return "reduce-scatter";
    case FrameKind::kPush:
      return "push";
    case FrameKind::kPull:
      return "pull";
    case FrameKind::kParameters:
      return "parameters";
    case FrameKind::kError:
      return "error";
    case FrameKind::kNorm:
      return "norm";
    case FrameKind::kCommit:
      return "commit";
    case FrameKind::kMeasure:
      return "measure";
    case FrameKind::kMessage:
      return "message";
    case FrameKind::kCopy:
      return "copy";
  }
  return kUnknownKind;
}

// The field of `frame` that is in the header at kByKindOffset; null if the frame's kind has no such field.
template <typename SomeFrame>
auto FieldOfKind(SomeFrame& frame) -> decltype(&frame.parts_hash) {
  switch (frame.kind) {
    case FrameKind::kPush:
      return &frame.global_sample_count;
    case FrameKind::kParameters:
      return &frame.staleness;
    case FrameKind::kGather:
      return &frame.parts_hash;
    case FrameKind::kError:
      return &frame.status_code;
    default:
      return nullptr;
  }
}

}  // namespace

void Frame::EncodeTo(char* out) const {
  Put(out, 0, kMagic);
  Put(out, 4, kWireVersion);
  Put(out, 6, static_cast<uint8_t>(kind));
  Put(out, 7, static_cast<uint8_t>(dtype));
  const uint32_t* const by_kind = FieldOfKind(*this);
  Put<uint32_t>(out, kByKindOffset, by_kind == nullptr ? 0 : *by_kind);
  Put(out, 12, generation);
  Put(out, 16, group);
  Put(out, 20, rank);
  Put(out, 24, incarnation);
  Put<uint32_t>(out, kCrcOffset, 0);
  Put(out, 32, step);
  Put(out, 40, sequence);
  Put(out, 48, range_begin);
  Put(out, 56, range_count);
  if (kind == FrameKind::kParameters) {
    Put(out, 64, sum_square);
  } else {
    Put(out, 64, sample_begin);
  }
  Put(out, 72, sample_count);
  Put(out, 80, schedule_position);
  Put(out, 88, base_version);
  Put(out, 96, static_cast<uint32_t>(payload_bytes));
  Put(out, 100, payload_checksum);
  Put(out, kCrcOffset, HeaderCrc(out));
}

absl::StatusOr<Frame> Frame::Decode(const char* bytes, int64_t size) {
  if (size < kFrameBytes) {
    return absl::InvalidArgumentError(absl::StrCat("frame of ", size, " bytes is shorter than its header"));
  }
  if (const uint32_t magic = Get<uint32_t>(bytes, 0); magic != kMagic) {
    return absl::InvalidArgumentError("not a Tethys frame (wrong magic): the peer uses another protocol");
  }
  if (const uint16_t version = Get<uint16_t>(bytes, 4); version != kWireVersion) {
    return absl::InvalidArgumentError(absl::StrCat("frame of wire version ", version,
                                                   ", but this build uses version ", kWireVersion,
                                                   ": use the same build everywhere"));
  }
  if (Get<uint32_t>(bytes, kCrcOffset) != HeaderCrc(bytes)) {
    return absl::DataLossError("the header of the frame is damaged: its checksum is wrong");
  }
  Frame frame;
  const uint8_t kind = Get<uint8_t>(bytes, 6);
  if (KindName(static_cast<FrameKind>(kind)) == kUnknownKind) {
    return absl::InvalidArgumentError(absl::StrCat("frame of unknown kind ", kind));
  }
  const uint8_t dtype = Get<uint8_t>(bytes, 7);
  if (dtype > static_cast<uint8_t>(FrameDType::kBytes)) {
    return absl::InvalidArgumentError(absl::StrCat("frame of unknown dtype ", dtype));
  }
  frame.kind = static_cast<FrameKind>(kind);
  frame.dtype = static_cast<FrameDType>(dtype);
  const auto by_kind = Get<uint32_t>(bytes, kByKindOffset);
  if (uint32_t* const field = FieldOfKind(frame); field != nullptr) {
    *field = by_kind;
  } else if (by_kind != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("frame of kind ", KindName(frame.kind), " has ", by_kind, " at byte 8, expected 0"));
  }
  frame.generation = Get<uint32_t>(bytes, 12);
  frame.group = Get<uint32_t>(bytes, 16);
  frame.rank = Get<uint32_t>(bytes, 20);
  frame.incarnation = Get<uint32_t>(bytes, 24);
  frame.step = Get<uint64_t>(bytes, 32);
  frame.sequence = Get<uint64_t>(bytes, 40);
  frame.range_begin = Get<uint64_t>(bytes, 48);
  frame.range_count = Get<uint64_t>(bytes, 56);
  if (frame.kind == FrameKind::kParameters) {
    frame.sum_square = Get<double>(bytes, 64);
  } else {
    frame.sample_begin = Get<uint64_t>(bytes, 64);
  }
  frame.sample_count = Get<uint64_t>(bytes, 72);
  frame.schedule_position = Get<uint64_t>(bytes, 80);
  frame.base_version = Get<uint64_t>(bytes, 88);
  frame.payload_bytes = Get<uint32_t>(bytes, 96);
  frame.payload_checksum = Get<uint32_t>(bytes, 100);
  if (!std::isfinite(frame.sum_square) || frame.sum_square < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("frame has a sum of squares of ", frame.sum_square, ", expected a number of 0 or more"));
  }
  if (frame.payload_bytes > kMaxPayloadBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("frame announces ", frame.payload_bytes, " bytes, but the limit is ", kMaxPayloadBytes));
  }
  return frame;
}

std::string FrameText(const Frame& frame) {
  return absl::StrCat(KindName(frame.kind), ", rank ", frame.rank, ", incarnation ", frame.incarnation,
                      ", generation ", frame.generation, ", step ", frame.step, ", sequence ", frame.sequence,
                      ", range [", frame.range_begin, ", ", frame.range_begin + frame.range_count, ")");
}

absl::Status DamagedPayload(const Frame& frame) {
  return absl::DataLossError(
      absl::StrCat("[", FrameText(frame), "] was damaged in transit: its ", frame.payload_bytes,
                   " payload bytes do not match the checksum that was sent with them, and are not used. "
                   "Check the memory and network cards of both machines, and "
                   "the network between them"));
}

}  // namespace tethys
