// The results of a sweep as files: sweep.json (proto::Sweep), sweep.csv, report.md and report.html; and as
// sentences. Rendering is pure; the other functions block on files.
#ifndef TETHYS_DEPLOY_SWEEP_SWEEP_REPORT_H_
#define TETHYS_DEPLOY_SWEEP_SWEEP_REPORT_H_

#include <string>
#include <vector>

#include "proto/sweep.pb.h"
#include "runtime/base/status.h"

namespace tethys {

extern const char kSweepFile[];  // The name of sweep.json.

// The sentences on a curve, the most important first: a warning if its times are doubtful, the best batch,
// the growth of the step's time, jumps, the verdict on multiples of 16, the largest batch, and what was left
// out.
proto::SweepAnswer AnswerOf(const proto::SweepCurve& curve);

std::string SweepCsv(const proto::Sweep& sweep);
std::string SweepMarkdown(const proto::Sweep& sweep);
std::string SweepHtml(const proto::Sweep& sweep);

// Writes all four files into the directory.
absl::Status WriteSweep(const proto::Sweep& sweep, const std::string& path);

// Parses the text of a sweep.json. DataLoss: the text is incomplete, or its times make no curve.
absl::StatusOr<proto::Sweep> ParseSweep(const std::string& json);

// Reads DIR/sweep.json. NotFound: the file is missing. DataLoss: the file is incomplete, or its times make no
// curve; the message names the file.
absl::StatusOr<proto::Sweep> ReadSweep(const std::string& path);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_SWEEP_SWEEP_REPORT_H_
