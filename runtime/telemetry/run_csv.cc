#include "runtime/telemetry/run_csv.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/str_join.h"

namespace tethys {
namespace {

constexpr size_t kBufferBytes = 1 << 16;

// Writes `header` into an empty file; any other file must begin with it.
absl::Status PrepareFile(const std::string& path, AppendFile& file, const std::string& header) {
  FileDescriptor fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return ErrnoStatus(errno, absl::StrCat("cannot open ", path));
  const int64_t size = lseek(fd.get(), 0, SEEK_END);
  if (size == 0) return file.Append(absl::StrCat(header, "\n"));

  std::string first(header.size() + 1, '\0');
  if (size < static_cast<int64_t>(first.size()) ||
      !ReadFullyAt(fd.get(), first.data(), first.size(), 0, path).ok() ||
      first != absl::StrCat(header, "\n")) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, " was written by another version: its first line is not \"", header,
                     "\"; move it away to continue"));
  }
  return absl::OkStatus();
}

std::string OrEmpty(bool present, double value) { return present ? absl::StrCat(value) : ""; }

}  // namespace

const char kStepsCsvHeader[] =
    "rank,step,epoch,sample_begin,samples,begin_ns,data_ns,forward_ns,backward_ns,exchange_ns,update_ns,"
    "total_ns,"
    "bytes_out,bytes_in,staleness,loss_sum,correct,labels,bucket_ready_ns";

const char kEpochsCsvHeader[] =
    "epoch,step,train_loss,train_accuracy,validation_loss,validation_accuracy,train_seconds,barrier_seconds,"
    "validation_seconds,samples_per_second,validation_mean_iou";

absl::StatusOr<std::unique_ptr<CsvFile>> CsvFile::Open(const std::string& path, const std::string& header) {
  TETHYS_ASSIGN_OR_RETURN(std::unique_ptr<AppendFile> file, AppendFile::OpenLines(path));
  TETHYS_RETURN_IF_ERROR(PrepareFile(path, *file, header));
  return std::unique_ptr<CsvFile>(new CsvFile(std::move(file), path));
}

CsvFile::CsvFile(std::unique_ptr<AppendFile> file, const std::string& path)
    : file_(std::move(file)),
      queue_({.name = path}, [this](absl::string_view lines) { return file_->Append(lines); }) {}

absl::Status CsvFile::AddLine(absl::string_view line) {
  absl::StrAppend(&buffer_, line, "\n");
  return buffer_.size() < kBufferBytes ? absl::OkStatus() : HandOn();
}

absl::Status CsvFile::HandOn() {
  queue_.Append(buffer_);
  buffer_.clear();
  return queue_.TakeError();
}

absl::Status CsvFile::Flush() {
  absl::Status status = HandOn();
  status.Update(queue_.Flush());
  return status;
}

std::string StepsCsvLine(const proto::StepRecord& r, Nanoseconds clock_offset) {
  return absl::StrCat(absl::StrJoin({int64_t{r.rank()}, r.step(), r.epoch() + 1, r.sample_begin(),
                                     r.samples(), r.begin_ns() + clock_offset, r.data_ns(), r.forward_ns(),
                                     r.backward_ns(), r.exchange_ns(), r.update_ns(), r.total_ns(),
                                     r.bytes_out(), r.bytes_in(), r.staleness()},
                                    ","),
                      ",", r.loss_sum(), ",", r.correct(), ",", r.labels(), ",",
                      absl::StrJoin(r.bucket_ready_ns(), " "));
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
