// Shows a run to the user. In a terminal: a live line that is redrawn, and a permanent line per epoch.
// Elsewhere, or with --plain: permanent lines only. The formatting functions are pure.
#ifndef TETHYS_DEPLOY_PROGRESS_DISPLAY_H_
#define TETHYS_DEPLOY_PROGRESS_DISPLAY_H_

#include <memory>
#include <string>

#include "deploy/launcher.h"
#include "proto/telemetry.pb.h"

namespace tethys {

// `epochs` of the job, 0 where max_steps ends it; `columns` of the terminal, which the line never exceeds.
//   epoch  3/25 [#########-----------]  46 %  loss 0.4123  accuracy 0.8512  23,377 samples/s  1:23 left
std::string LiveLine(const proto::Progress& progress, int64_t epochs, int columns);

//   epoch  3/25  loss 0.4123  accuracy 0.8512  validation loss 0.4001  accuracy 0.8600  2.3 s  23,377
//   samples/s
std::string EpochLine(const proto::EpochResult& result, int64_t epochs);

// Writes to `fd`; `live` asks for the live line. Nothing waits for who reads it but the destruction; until
// then lines are kept (deploy/output_queue.h), and live lines are left out.
std::unique_ptr<ProgressListener> CreateProgressDisplay(int fd, bool live);

// Whether `fd` is a terminal that understands the live line.
bool IsTerminal(int fd);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_PROGRESS_DISPLAY_H_
