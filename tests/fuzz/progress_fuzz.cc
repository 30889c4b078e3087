// Input: a line that the chief prints for its launcher. Checks the text that the launcher shows for the line.
#include <google/protobuf/util/json_util.h>

#include <string>

#include "deploy/launcher/progress_display.h"
#include "deploy/text.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/targets.h"

namespace tethys::fuzz {

void FuzzProgress(absl::string_view input) {
  constexpr int kColumns = 80;
  proto::ProgressEvent event;
  google::protobuf::util::JsonParseOptions json;
  json.ignore_unknown_fields = true;
  if (!google::protobuf::util::JsonStringToMessage(std::string(input), &event, json).ok()) return;
  for (const int64_t epochs : {int64_t{0}, event.started().epochs()}) {
    Require(DisplayWidth(LiveLine(event.progress(), epochs, kColumns)) <= kColumns,
            "a line fits the terminal");
    const std::string epoch = EpochLine(event.epoch(), epochs, kColumns);
    Require(!epoch.empty() && DisplayWidth(epoch) <= kColumns, "an epoch has a line that fits");
  }
}

}  // namespace tethys::fuzz
