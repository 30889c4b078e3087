#include "runtime/telemetry/run_csv.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace tethys {
namespace {

std::string OrEmpty(bool present, double value) { return present ? absl::StrCat(value) : ""; }

}  // namespace

const char kStepsCsvHeader[] =
    "rank,step,epoch,sample_begin,samples,begin_ns,data_ns,forward_ns,backward_ns,exchange_ns,update_ns,"
    "total_ns,"
    "bytes_out,bytes_in,staleness,loss_sum,correct,labels,bucket_ready_ns";

const char kEpochsCsvHeader[] =
    "epoch,step,train_loss,train_accuracy,validation_loss,validation_accuracy,train_seconds,barrier_seconds,"
    "validation_seconds,samples_per_second,validation_mean_iou";

std::string StepsCsvLine(const proto::StepRecord& r, Nanoseconds clock_offset) {
  return absl::StrCat(absl::StrJoin({int64_t{r.rank()}, r.step(), r.epoch() + 1, r.sample_begin(),
                                     r.samples(), r.begin_ns() + clock_offset, r.data_ns(), r.forward_ns(),
                                     r.backward_ns(), r.exchange_ns(), r.update_ns(), r.total_ns(),
                                     r.bytes_out(), r.bytes_in(), r.staleness()},
                                    ","),
                      ",", r.loss_sum(), ",", r.correct(), ",", r.labels(), ",",
                      absl::StrJoin(r.bucket_ready_ns(), " "));
}

CsvFile::Stays StepsBefore(const proto::TrainingState& state, int64_t epoch_length) {
  // Cannot overflow: an epoch has at most 2^40 positions, a job 2^20 epochs.
  const int64_t begin = state.epoch() * epoch_length;
  // At position 0 no part of the epoch was trained, so none of its lines stays. (Positions must not be
  // compared then, because the earlier attempt may have counted with another length of the epoch.)
  const int64_t end = state.position() > 0 ? begin + state.position() : -1;
  return [epoch = state.epoch(), end](const CsvReader& line) {
    const int64_t of_line = line.Integer("epoch") - 1;
    return of_line < epoch || (of_line == epoch && line.Integer("sample_begin") < end);
  };
}

CsvFile::Stays EpochsBefore(const proto::TrainingState& state, bool finished) {
  const int64_t last = state.epoch() + (finished && state.position() > 0 ? 1 : 0);
  return [last](const CsvReader& line) { return line.Integer("epoch") <= last; };
}

std::string EpochsCsvLine(const proto::EpochResult& r) {
  const std::string validation =
      r.validated() ? absl::StrCat(r.validation_loss(), ",",
                                   OrEmpty(r.has_validation_accuracy(), r.validation_accuracy()))
                    : ",";
  return absl::StrCat(absl::StrJoin({r.epoch() + 1, r.step()}, ","), ",", r.train_loss(), ",",
                      OrEmpty(r.has_train_accuracy(), r.train_accuracy()), ",", validation, ",",
                      r.train_seconds(), ",", r.barrier_seconds(), ",", r.validation_seconds(), ",",
                      r.samples_per_second(), ",",
                      OrEmpty(r.has_validation_mean_iou(), r.validation_mean_iou()));
}

}  // namespace tethys
