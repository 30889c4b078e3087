// Shows a run to the user. In a terminal, prints a permanent line per epoch (coloured on request) and redraws
// a live line. Below the live line are a comparison of the run with its prediction and a line per task that
// is silent or behind. Elsewhere, or with --plain, prints permanent lines only. Lines are shortened or
// wrapped to the terminal's width. The formatting functions are pure.
#ifndef TETHYS_DEPLOY_LAUNCHER_PROGRESS_DISPLAY_H_
#define TETHYS_DEPLOY_LAUNCHER_PROGRESS_DISPLAY_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/types/optional.h"
#include "deploy/launcher/launcher.h"
#include "deploy/live/live_state.h"
#include "proto/telemetry.pb.h"

namespace tethys {

// The live line. `epochs`: the job's number of epochs, or 0 if max_steps ends the job. `columns`: the
// terminal's width, which the line never exceeds; if it is too small, items are left out, the throughput
// first.
//   epoch  3/25 [#########-----------]  46 %  loss 0.4123  accuracy 0.8512  23,377 samples/s  1:23 left
// `left`: shown instead of the remaining time in `progress`. The interval of `left` is shown if the line is
// wide enough: "1:23 (1:10-1:40) left".
std::string LiveLine(const proto::Progress& progress, int64_t epochs, int columns,
                     const absl::optional<proto::Estimate>& left = absl::nullopt);

// A comparison of the run with its prediction, in at most 3 lines of at most `columns` columns; empty if
// there is no comparison.
//   31 % slower than predicted: 14,400 samples/s, predicted 20,900 (18,800 to 23,200), because worker 5 on
//   slave4 computes 1.4 times as long as the median of all
std::vector<std::string> ComparisonLines(const proto::LiveState& state, int columns);

// At most 5 lines: one for each task that is silent or behind, then for each that is lost or slow (a worker
// whose own compute time has been far above the median for a while, deploy/live/live_state.h):
//   worker 2 on slave1: silent for 3 s
//   worker 4 on slave3: behind, at step 120; the others are at about 240
//   worker 5 on slave4: slow, computes 1.4 times as long as the median of all
std::vector<std::string> LateTaskLines(const proto::Progress& progress, const proto::LiveState& state);

//   epoch  3/25  loss 0.4123  accuracy 0.8512  validation loss 0.4001  accuracy 0.8600  2.3 s  23,377
//   samples/s
// The permanent line of an epoch, as above. `columns`: as in LiveLine, or 0 for no limit.
std::string EpochLine(const proto::EpochResult& result, int64_t epochs, int columns);

struct DisplayOptions {
  bool live = false;    // Show live lines.
  bool colour = false;  // Use ECMA-48 colours.
  // The prediction with which the run is compared; nullopt: there is no prediction.
  absl::optional<proto::Expectation> expectation = {};
};
// Writes to `fd`. While the reader of `fd` is slow, permanent lines are queued
// (deploy/process/output_queue.h) and live lines are left out. Only the destructor waits for the reader.
std::unique_ptr<ProgressListener> CreateProgressDisplay(int fd, const DisplayOptions& options);

// True if `fd` is a terminal that can show the live line.
bool IsTerminal(int fd);
// The terminal's width in columns; 0 if `fd` is not a terminal.
int TerminalColumns(int fd);
// True if output is coloured: `fd` is a terminal and NO_COLOR (no-color.org) is unset or empty.
bool WantsColour(int fd);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_LAUNCHER_PROGRESS_DISPLAY_H_
