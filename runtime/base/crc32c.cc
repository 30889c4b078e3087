#include "runtime/base/crc32c.h"

#include <array>
#include <bit>
#include <cstring>

#if defined(__x86_64__)
#define TETHYS_CRC_TARGET __attribute__((target("sse4.2")))
#elif defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#define TETHYS_CRC_TARGET __attribute__((target("+crc")))
#endif

namespace tethys {
namespace {

static_assert(std::endian::native == std::endian::little,
              "words are read in the byte order of memory, which must be little-endian");

// Arithmetic on polynomials over GF(2), modulo the CRC's polynomial. Bit 31 is the coefficient of x^0, bit 0
// the coefficient of x^31.
constexpr uint32_t kPolynomial = 0x82f63b78;
constexpr uint32_t kOne = 1u << 31;

constexpr uint32_t TimesX(uint32_t a) { return (a & 1) != 0 ? (a >> 1) ^ kPolynomial : a >> 1; }

constexpr uint32_t Multiply(uint32_t a, uint32_t b) {
  uint32_t product = 0;
  for (uint32_t bit = kOne; bit != 0; bit >>= 1, b = TimesX(b)) {
    if ((a & bit) != 0) product ^= b;
  }
  return product;
}

// Slicing by 8: for each value of a byte, table k has the effect of this byte on the register after k further
// bytes.
using SlicingTables = std::array<std::array<uint32_t, 256>, 8>;
constexpr SlicingTables MakeSlicingTables() {
  SlicingTables tables = {};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = TimesX(crc);
    tables[0][byte] = crc;
  }
  for (int k = 1; k < 8; ++k) {
    for (uint32_t byte = 0; byte < 256; ++byte) {
      const uint32_t crc = tables[k - 1][byte];
      tables[k][byte] = (crc >> 8) ^ tables[0][crc & 0xff];
    }
  }
  return tables;
}
constexpr SlicingTables kSlicing = MakeSlicingTables();

uint64_t LoadWord(const char* data) {
  uint64_t word;
  std::memcpy(&word, data, sizeof(word));
  return word;
}

// The functions from here to Register take and return the CRC's register, which is the inverted checksum.
uint32_t PortableRegister(const char* data, int64_t bytes, uint32_t crc) {
  for (; bytes >= 8; bytes -= 8, data += 8) {
    const uint64_t word = LoadWord(data) ^ crc;
    crc = 0;
    for (int k = 0; k < 8; ++k) crc ^= kSlicing[7 - k][(word >> (8 * k)) & 0xff];
  }
  for (; bytes > 0; --bytes, ++data) crc = (crc >> 8) ^ kSlicing[0][(crc ^ *data) & 0xff];
  return crc;
}

#if defined(TETHYS_CRC_TARGET)

// Advances the register past `kBytes` zero bytes, by one table look-up per byte of the register.
template <int64_t kBytes>
struct Shift {
  std::array<std::array<uint32_t, 256>, 4> tables = {};

  constexpr Shift() {
    uint32_t power = kOne;
    for (uint32_t square = TimesX(kOne), bits = 8 * kBytes; bits != 0; bits >>= 1) {
      if ((bits & 1) != 0) power = Multiply(power, square);
      square = Multiply(square, square);
    }
    for (int k = 0; k < 4; ++k) {
      for (uint32_t bit = 1; bit < 256; bit <<= 1) {
        tables[k][bit] = Multiply(power, bit << (8 * k));
        for (uint32_t lower = 1; lower < bit; ++lower) {
          tables[k][bit + lower] = tables[k][bit] ^ tables[k][lower];
        }
      }
    }
  }
  uint32_t operator()(uint32_t crc) const {
    return tables[0][crc & 0xff] ^ tables[1][(crc >> 8) & 0xff] ^ tables[2][(crc >> 16) & 0xff] ^
           tables[3][crc >> 24];
  }
};
template <int64_t kBytes>
constexpr Shift<kBytes> kShift = Shift<kBytes>();

#if defined(__x86_64__)
bool HasInstructions() { return __builtin_cpu_supports("sse4.2") != 0; }
TETHYS_CRC_TARGET inline uint32_t TakeWord(uint32_t crc, uint64_t word) {
  return static_cast<uint32_t>(__builtin_ia32_crc32di(crc, word));
}
TETHYS_CRC_TARGET inline uint32_t TakeByte(uint32_t crc, char byte) {
  return __builtin_ia32_crc32qi(crc, static_cast<unsigned char>(byte));
}
#else
bool HasInstructions() { return (getauxval(AT_HWCAP) & HWCAP_CRC32) != 0; }
TETHYS_CRC_TARGET inline uint32_t TakeWord(uint32_t crc, uint64_t word) {
  return __builtin_aarch64_crc32cx(crc, word);
}
TETHYS_CRC_TARGET inline uint32_t TakeByte(uint32_t crc, char byte) {
  return __builtin_aarch64_crc32cb(crc, static_cast<unsigned char>(byte));
}
#endif

// A CRC instruction takes three cycles and needs the result of the CRC instruction before it. Three blocks
// are processed side by side, so that an instruction can begin in every cycle.
template <int64_t kBlock>
TETHYS_CRC_TARGET inline uint32_t TakeBlocks(const char*& data, int64_t& bytes, uint32_t crc) {
  for (; bytes >= 3 * kBlock; bytes -= 3 * kBlock, data += 3 * kBlock) {
    uint32_t second = 0;
    uint32_t third = 0;
    for (int64_t at = 0; at < kBlock; at += 8) {
      crc = TakeWord(crc, LoadWord(data + at));
      second = TakeWord(second, LoadWord(data + kBlock + at));
      third = TakeWord(third, LoadWord(data + 2 * kBlock + at));
    }
    crc = kShift<kBlock>(kShift<kBlock>(crc) ^ second) ^ third;
  }
  return crc;
}

TETHYS_CRC_TARGET uint32_t Register(const char* data, int64_t bytes, uint32_t crc) {
  crc = TakeBlocks<2048>(data, bytes, crc);
  crc = TakeBlocks<256>(data, bytes, crc);
  for (; bytes >= 8; bytes -= 8, data += 8) crc = TakeWord(crc, LoadWord(data));
  for (; bytes > 0; --bytes, ++data) crc = TakeByte(crc, *data);
  return crc;
}

#else

bool HasInstructions() { return false; }
uint32_t Register(const char* data, int64_t bytes, uint32_t crc) {
  return PortableRegister(data, bytes, crc);
}

#endif

}  // namespace

uint32_t Crc32c(absl::string_view data, uint32_t before) {
  if (!HasInstructions()) return PortableCrc32c(data, before);
  return ~Register(data.data(), static_cast<int64_t>(data.size()), ~before);
}

uint32_t PortableCrc32c(absl::string_view data, uint32_t before) {
  return ~PortableRegister(data.data(), static_cast<int64_t>(data.size()), ~before);
}

uint32_t MaskedCrc32c(absl::string_view data) {
  const uint32_t sum = Crc32c(data);
  return ((sum >> 15) | (sum << 17)) + 0xa282ead8;
}

}  // namespace tethys
