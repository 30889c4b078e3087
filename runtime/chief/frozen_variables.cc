#include "runtime/chief/frozen_variables.h"

#include <algorithm>
#include <vector>

namespace tethys {
namespace {

constexpr int64_t kPieceElements = int64_t{1} << 20;

}  // namespace

absl::Status WriteFrozenVariables(const VariableSet& variables, uint64_t seed, const CheckpointReader* reader,
                                  int slots, CheckpointWriter& writer) {
  std::vector<float> piece;
  for (const Range& variable : variables.frozen()) {
    for (int64_t begin = variable.begin; begin < variable.end(); begin += kPieceElements) {
      const Range range = {begin, std::min(kPieceElements, variable.end() - begin)};
      piece.resize(range.count);
      if (reader != nullptr) {
        TETHYS_RETURN_IF_ERROR(reader->Read(0, range.begin, absl::MakeSpan(piece)));
      } else {
        variables.FillInitialValues(seed, range, piece.data());
      }
      TETHYS_RETURN_IF_ERROR(writer.Write(0, range.begin, piece));
      std::fill(piece.begin(), piece.end(), 0.0f);
      for (int slot = 1; slot <= slots; ++slot) {
        TETHYS_RETURN_IF_ERROR(writer.Write(slot, range.begin, piece));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace tethys
