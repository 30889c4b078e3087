// A mark says how many points of a run's curve and how many epochs a reader of the live view has already, so
// that an answer needs to contain only newer points and epochs. The text of a mark, for URLs and JSON, is
// "GENERATION.POINTS.EPOCHS". Pure; any thread.
#ifndef TETHYS_DEPLOY_LIVE_LIVE_MARK_H_
#define TETHYS_DEPLOY_LIVE_LIVE_MARK_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "runtime/base/status.h"

namespace tethys {

struct LiveMark {
  // The generation of the LiveFold. It changes when points or epochs that marks have counted change.
  uint64_t generation = 0;
  int points = 0, epochs = 0;

  bool operator==(const LiveMark&) const = default;
};

std::string MarkText(const LiveMark& mark);
// InvalidArgument: the text is no mark. An empty text is the mark of a reader that has received nothing yet.
absl::StatusOr<LiveMark> ParseMark(absl::string_view text);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_LIVE_LIVE_MARK_H_
