// Says how much of a run's curve and list of epochs a reader of the live view has, so that an answer needs to
// hold only what is new. As text, for addresses and JSON: "GENERATION.POINTS.EPOCHS". Pure; any thread.
#ifndef TETHYS_DEPLOY_LIVE_LIVE_MARK_H_
#define TETHYS_DEPLOY_LIVE_LIVE_MARK_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "runtime/base/status.h"

namespace tethys {

struct LiveMark {
  // The generation of the LiveFold, which changes when counted points or epochs change.
  uint64_t generation = 0;
  int points = 0, epochs = 0;

  bool operator==(const LiveMark&) const = default;
};

std::string MarkText(const LiveMark& mark);
// InvalidArgument: the text is no mark. An empty text is the mark of a reader that has nothing.
absl::StatusOr<LiveMark> ParseMark(absl::string_view text);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_LIVE_LIVE_MARK_H_
