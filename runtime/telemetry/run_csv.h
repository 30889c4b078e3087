// The lines of steps.csv and epochs.csv in a run directory. Pure. Epochs are counted from 1 in both files, as
// in all output for people.
#ifndef TETHYS_RUNTIME_TELEMETRY_RUN_CSV_H_
#define TETHYS_RUNTIME_TELEMETRY_RUN_CSV_H_

#include <string>

#include "proto/checkpoint.pb.h"
#include "proto/telemetry.pb.h"
#include "runtime/base/clock.h"
#include "runtime/telemetry/csv_file.h"

namespace tethys {

// Columns of steps.csv, and the line for a record. `begin_ns` is shifted by `clock_offset` onto the chief's
// clock; bucket ready times are joined by spaces.
extern const char kStepsCsvHeader[];
std::string StepsCsvLine(const proto::StepRecord& record, Nanoseconds clock_offset);
// Returns a function that says whether a line of steps.csv stays when an attempt (a start of the run) begins
// at `state`. `epoch_length` is the number of positions in an epoch's order. The column sample_begin counts
// the positions of all epochs.
CsvFile::Stays StepsBefore(const proto::TrainingState& state, int64_t epoch_length);

// Columns of epochs.csv, and the line for a result; validation columns are empty without validation.
extern const char kEpochsCsvHeader[];
std::string EpochsCsvLine(const proto::EpochResult& result);
// Returns a function that says whether a line of epochs.csv stays when an attempt begins at `state`: the line
// stays if its epoch was complete. If max_steps ended an epoch early, its line stays only if `finished`, that
// is, if nothing is left to train; otherwise training continues the epoch and writes the line again.
CsvFile::Stays EpochsBefore(const proto::TrainingState& state, bool finished);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_TELEMETRY_RUN_CSV_H_
