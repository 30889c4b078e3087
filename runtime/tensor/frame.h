// The header of every message (frame) on the data plane: parameter-server streams and ring sockets.
//
// Little-endian, 104 bytes:
//
//    0  u32  magic "TTHF"
//    4  u16  wire version
//    6  u8   kind
//    7  u8   dtype              of the payload; 1: float32, 2: float64, 3: bytes
//    8  u32  by kind            push: global sample count; parameters: staleness; gather: hash of the
//                              parts; error: status code; 0 in all other kinds
//   12  u32  generation         of the job's membership
//   16  u32  group              id of the communicator (ring); copies: the server that the shards belong to
//   20  u32  rank               of the sender in its group; on streams of servers, the worker's index
//   24  u32  incarnation        of the sender: 1 for its first process, 1 more for each replacement
//   28  u32  CRC-32             of the header with this field 0
//   32  u64  step               worker's step; number of a collective or message; copies: number of the arena
//   40  u64  sequence           increases per sender, so that repeats are recognised; pulls: from 2^63;
//                              copies: number of the frame within its version
//   48  u64  range begin        meaning set by the kind
//   56  u64  range count
//   64  u64  sample begin       position in the job's order; parameters: f64, sum of squares
//   72  u64  sample count
//   80  u64  schedule position  samples used before this update
//   88  u64  base version       version the gradient was computed from
//   96  u32  payload bytes
//  100  u32  CRC-32C            of the payload; 0: no checksum (under TLS, and within a machine)
//
// A receiver decodes the header, compares it with what it expects, and only then trusts the payload length.
#ifndef TETHYS_RUNTIME_TENSOR_FRAME_H_
#define TETHYS_RUNTIME_TENSOR_FRAME_H_

#include <cstdint>
#include <string>

#include "runtime/base/status.h"

namespace tethys {

constexpr uint16_t kWireVersion = 3;
constexpr int64_t kFrameBytes = 104;
// A larger payload can come only from a foreign program or a broken peer.
constexpr uint64_t kMaxPayloadBytes = uint64_t{1} << 30;

enum class FrameKind : uint8_t {
  kChallenge = 1,  // For rings: a nonce, in `sequence`, that the peer must answer.
  kHandshake = 2,  // For rings: the payload is a serialized proto::Handshake.
  // For rings: the collectives of collectives/communicator.h.
  kReduce = 3,
  kGather = 4,
  kBarrier = 5,
  kReduceScatter = 6,
  kPush = 7,  // Worker to server: gradients. The reply carries the new parameters of the range.
  kPull = 8,  // Worker to server, without payload. The answer is kParameters.
  // Server to worker: the payload is the parameters of the range, and the base version is the version of
  // these parameters.
  kParameters = 9,
  kError = 10,  // The payload is an error message. Ends the exchange.
  // The next three kinds serve updates that depend on norms over all servers (ps/norm_exchange.h). Such a
  // frame has the sequence and the step of the worker's push. Its range count is the number of exchanged sums
  // of squares, which have dtype float64.
  kNorm = 11,    // Worker to server, without payload. The answer is kNorm with the server's sum of squares.
  kCommit = 12,  // Worker to server: the sums over all servers. The answer is kCommit without payload.
  // Worker to server: the total of the answers to kNorm, if gradients are clipped. The answer is kMeasure
  // with the sums of squares of the server's shards.
  kMeasure = 13,
  kMessage = 14,  // For rings: a message between two ranks.
  // Server to server: values of an arena (ps/shard_copy.h). The base version is the version of these values.
  // Without payload, and with the sequence 0, the frame asks whether the receiver has the version already.
  // The answer to the question is a kCopy frame whose range count is 1 (yes) or 0. The answer to the last
  // frame of a version is a kCopy frame with the sequence of that frame.
  kCopy = 15,
};

enum class FrameDType : uint8_t { kNone = 0, kFloat32 = 1, kFloat64 = 2, kBytes = 3 };
constexpr uint64_t BytesOf(FrameDType dtype) {
  constexpr uint64_t kSizes[] = {0, sizeof(float), sizeof(double), 1};
  return kSizes[static_cast<int>(dtype)];
}

struct Frame {
  FrameKind kind = FrameKind::kPush;
  FrameDType dtype = FrameDType::kFloat32;
  uint32_t generation = 0;
  uint32_t group = 0;
  uint32_t rank = 0;
  uint32_t incarnation = 0;
  uint64_t step = 0;
  uint64_t sequence = 0;
  uint64_t range_begin = 0;
  uint64_t range_count = 0;
  uint64_t sample_begin = 0;  // Present in all kinds of frames except kParameters.
  uint64_t sample_count = 0;
  uint64_t schedule_position = 0;
  uint64_t base_version = 0;
  uint64_t payload_bytes = 0;
  uint32_t payload_checksum = 0;
  // Each of the following fields belongs to one kind of frame; other kinds do not carry it.
  uint32_t global_sample_count = 0;  // kPush, stale-synchronous: samples of the step on all workers.
  uint32_t staleness = 0;            // kParameters: staleness of the push that this frame answers.
  double sum_square = 0;             // kParameters: squared norm of gradient sums (ps/store_actions.h).
  uint32_t parts_hash = 0;           // kGather: hash of the parts that ranks contribute.
  uint32_t status_code = 0;          // kError: an absl::StatusCode; any number may arrive.

  bool operator==(const Frame&) const = default;

  // Writes kFrameBytes bytes.
  void EncodeTo(char* out) const;
  // Accepts any bytes. InvalidArgument names what is wrong: size, magic, wire version, kind, dtype or payload
  // length. DataLoss: wrong header checksum. The caller then compares generation, group and the other fields
  // with the expected ones.
  static absl::StatusOr<Frame> Decode(const char* bytes, int64_t size);
};

// Kind, rank, step, range and other fields of a frame, for error messages.
std::string FrameText(const Frame& frame);

// DataLoss: the payload that followed `frame` does not match its checksum.
absl::Status DamagedPayload(const Frame& frame);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_TENSOR_FRAME_H_
