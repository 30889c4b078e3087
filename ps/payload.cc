#include "ps/payload.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "runtime/base/crc32c.h"
#include "runtime/device/sum_of_squares.h"

namespace tethys {
namespace {

// The number of floats that are handled at a time: 16 KiB stay in the L1 cache between the copy and the
// check.
constexpr int64_t kBlock = 4096;

// Infinity and NaN have an exponent of all ones, so that adding one to it carries into the sign bit. (This
// file is compiled with -O3, so that its loops are vectorised.)
bool AllFinite(const float* values, int64_t count) {
  uint32_t carries = 0;
  for (int64_t i = 0; i < count; ++i) {
    carries |= (std::bit_cast<uint32_t>(values[i]) & 0x7f800000u) + 0x00800000u;
  }
  return (carries & 0x80000000u) == 0;
}

class PieceReader {
 public:
  explicit PieceReader(PayloadPieces pieces) : pieces_(pieces) {}

  void Read(float* out, int64_t count) {
    char* to = reinterpret_cast<char*>(out);
    size_t left = count * sizeof(float);
    while (left > 0 && index_ < pieces_.size()) {
      const absl::string_view piece = pieces_[index_].substr(offset_);
      const size_t bytes = std::min(left, piece.size());
      std::memcpy(to, piece.data(), bytes);
      to += bytes;
      left -= bytes;
      offset_ += bytes;
      if (offset_ == pieces_[index_].size()) {
        ++index_;
        offset_ = 0;
      }
    }
  }

 private:
  const PayloadPieces pieces_;
  size_t index_ = 0;
  size_t offset_ = 0;
};

}  // namespace

int64_t PayloadBytes(PayloadPieces pieces) {
  int64_t bytes = 0;
  for (const absl::string_view piece : pieces) bytes += static_cast<int64_t>(piece.size());
  return bytes;
}

absl::Status CheckPayload(const Frame& frame, PayloadPieces pieces) {
  if (frame.payload_checksum == 0) return absl::OkStatus();
  uint32_t checksum = 0;
  for (const absl::string_view piece : pieces) checksum = Crc32c(piece, checksum);
  if (checksum == frame.payload_checksum) return absl::OkStatus();
  return DamagedPayload(frame);
}

bool CopyPayload(PayloadPieces pieces, int64_t count, float* out) {
  PieceReader reader(pieces);
  bool finite = true;
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t block = std::min(kBlock, count - begin);
    reader.Read(out + begin, block);
    finite &= AllFinite(out + begin, block);
  }
  return finite;
}

bool AddPayload(PayloadPieces pieces, int64_t count, float* out) {
  PieceReader reader(pieces);
  bool finite = true;
  alignas(64) float values[kBlock];
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t block = std::min(kBlock, count - begin);
    reader.Read(values, block);
    finite &= AddValues(values, block, out + begin);
  }
  return finite;
}

bool AddValues(const float* __restrict values, int64_t count, float* __restrict out) {
  bool finite = true;
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t end = std::min(count, begin + kBlock);
    for (int64_t i = begin; i < end; ++i) out[i] += values[i];
    finite &= AllFinite(out + begin, end - begin);
  }
  return finite;
}

double SumOfSquares(const float* values, int64_t count) { return SumOfSquaresInLanes(count, values); }

}  // namespace tethys
