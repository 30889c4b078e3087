#include "runtime/data/sample_cache.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "runtime/base/mapped_file.h"
#include "runtime/base/mutex.h"
#include "runtime/base/process.h"
#include "runtime/base/thread.h"
#include "runtime/data/finite_values.h"
#include "runtime/data/progress_ticker.h"

namespace tethys {
namespace {

constexpr int64_t kBlockBytes = 1 << 20;  // Bytes that a thread writes at a time.

// With these seals no process can change or truncate the memory, not even the process that made the memory.
constexpr int kSeals = F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

// ------------------------------------------------------------------------------------------ reading

// Small samples are copied from mapped pages: a system call would take six times as long as copying 784
// bytes. Large samples are read by system calls, so that they do not count as memory of the rank. In both
// cases the kernel holds one copy for all ranks, and checksums are computed over the bytes that were copied
// out, so a damaged or truncated file causes an error and never a wrong sample (mapped_file.h). A mapped
// sample is verified only when this process first copies it, because verifying makes the processor wait for
// each sample, and takes three times as long as copying the sample. Once a page of the mapped file was lost,
// every copy is verified.
class CachedSource final : public SampleSource {
 public:
  // `path`: the path of the file; empty for a cache in memory.
  CachedSource(FileDescriptor file, std::string name, std::string path, const SampleCacheContent& content,
               const LabelRules& rules)
      : SampleSource(content.spec, content.samples),
        file_(std::move(file)),
        name_(std::move(name)),
        path_(std::move(path)),
        layout_(content.spec, content.samples),
        mapped_(Map(file_.get(), layout_)),
        rules_(rules),
        verified_(mapped_.valid() ? content.samples : 0) {}

  absl::Status Read(int64_t index, uint8_t* values, int32_t* labels) const override {
    const int64_t begin = layout_.RecordOf(index), rest = layout_.record_bytes - layout_.value_bytes;
    if (mapped_.valid()) {
      const char* const record = mapped_.bytes().data() + begin;
      const auto* const behind = reinterpret_cast<const uint8_t*>(record) + layout_.value_bytes;
      if (values != nullptr) std::memcpy(values, record, layout_.value_bytes);
      if (verified_[index].load(std::memory_order_relaxed)) {
        if (labels != nullptr) std::memcpy(labels, behind, layout_.label_bytes);
        if (!mapped_.lost()) return absl::OkStatus();
      }
      TETHYS_RETURN_IF_ERROR(Take(index, behind, values, labels));
      if (values != nullptr && labels != nullptr) verified_[index].store(true, std::memory_order_relaxed);
      return absl::OkStatus();
    }
    thread_local std::vector<uint8_t> behind;
    behind.resize(rest);
    absl::Status status;
    if (values != nullptr) status = ReadFullyAt(file_.get(), values, layout_.value_bytes, begin, name_);
    if (status.ok()) {
      status = ReadFullyAt(file_.get(), behind.data(), rest, begin + layout_.value_bytes, name_);
    }
    if (absl::IsDataLoss(status)) return Damaged(index, "the file was truncated");
    TETHYS_RETURN_IF_ERROR(status);
    return Take(index, behind.data(), values, labels);
  }

  // Samples are read in random order, so the processor does not prefetch them by itself.
  void Expect(int64_t index) const override {
    if (!mapped_.valid()) return;
    constexpr int64_t kCacheLine = 64;
    const char* const record = mapped_.bytes().data() + layout_.RecordOf(index);
    const int64_t bytes = std::min(layout_.record_bytes, kMostExpected);
    for (int64_t at = 0; at < bytes; at += kCacheLine) __builtin_prefetch(record + at);
  }

 private:
  // Records of more bytes than this are not mapped.
  static constexpr int64_t kMostMapped = 16 << 10;
  // The pages of files of at most this many bytes are entered into the page tables at the start instead of in
  // the first epoch, because a job reads all of a small file.
  static constexpr int64_t kMostPopulated = 256 << 20;
  // The most bytes of a record that Expect fetches. The processor's prefetchers fetch the rest of a longer
  // record once its beginning is read.
  static constexpr int64_t kMostExpected = 1 << 10;

  static MappedFile Map(int fd, const SampleCacheLayout& layout) {
    if (layout.record_bytes > kMostMapped) return MappedFile();
    absl::StatusOr<MappedFile> mapped = MappedFile::Map(fd, layout.size);
    if (!mapped.ok()) return MappedFile();
    if (layout.size <= kMostPopulated) mapped->Populate();
    return *std::move(mapped);
  }

  // Copies the labels of a sample, if they are wanted, and checks the values and labels that were read.
  // `behind` are the bytes that follow the values in the record.
  absl::Status Take(int64_t index, const uint8_t* behind, const uint8_t* values, int32_t* labels) const {
    SampleSums sums;
    std::memcpy(&sums, behind + layout_.label_bytes, sizeof(sums));
    if (labels != nullptr) std::memcpy(labels, behind, layout_.label_bytes);
    const SampleSums own = SampleSumsOf(values, values != nullptr ? layout_.value_bytes : 0, labels,
                                        labels != nullptr ? layout_.label_bytes : 0);
    if ((values != nullptr && own.values != sums.values) ||
        (labels != nullptr && (own.labels != sums.labels || !Accepts(labels)))) {
      return Damaged(index, "its checksum is wrong");
    }
    if (values == nullptr || spec().type == ValueType::kByte) return absl::OkStatus();
    return CheckFinite({reinterpret_cast<const float*>(values), static_cast<size_t>(spec().elements())},
                       [&] { return absl::StrCat(name_, ", sample ", index); });
  }

  bool Accepts(const int32_t* labels) const {
    return std::all_of(labels, labels + spec().labels.elements(), [this](int32_t label) {
      if (!rules_.targets) return rules_.Accepts(label);
      float target;
      std::memcpy(&target, &label, sizeof(target));
      return std::isfinite(target);
    });
  }

  // A damaged file is removed, so that the next start makes the file anew.
  absl::Status Damaged(int64_t index, absl::string_view why) const {
    const bool removed = !path_.empty() && IsOpenFile(file_.get(), path_) && unlink(path_.c_str()) == 0;
    return absl::DataLossError(absl::StrCat(name_, ": sample ", index, " is damaged: ", why, ": ",
                                            removed || path_.empty()
                                                ? "start the job again, which makes the cache anew"
                                                : "delete the file, and start the job again"));
  }

  const FileDescriptor file_;
  const std::string name_, path_;
  const SampleCacheLayout layout_;
  const MappedFile mapped_;
  const LabelRules rules_;
  mutable std::vector<std::atomic<bool>> verified_;  // [samples]: true if verified. Empty if not mapped.
};

// True if the open file is a complete cache of this content.
bool Holds(int fd, const SampleCacheContent& wanted) {
  struct stat info;
  std::vector<uint8_t> header(kSampleCacheHeader);
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode) ||
      !ReadFullyAt(fd, header.data(), kSampleCacheHeader, 0, "").ok()) {
    return false;
  }
  const auto content = ParseSampleCacheHeader(header, info.st_size);
  return content.ok() && content->key == wanted.key && content->spec == wanted.spec &&
         content->samples == wanted.samples;
}

// ------------------------------------------------------------------------------------------ filling

// Copies a source into a cache by several threads, each of which takes the next block of samples.
class Filler {
 public:
  Filler(const SampleSource& source, int fd, const std::string& name, absl::FunctionRef<void()> progressed)
      : source_(source),
        fd_(fd),
        name_(name),
        progressed_(progressed),
        layout_(source.spec(), source.size()),
        block_(std::clamp<int64_t>(kBlockBytes / layout_.record_bytes, 1, source.size())) {}

  // Copies all samples. Returns the error of the first sample that cannot be read.
  absl::Status Fill(int threads) {
    std::vector<Thread> others;
    for (int i = 1; i < threads; ++i) {
      if (absl::Status status = others.emplace_back().Start([this] { Work(); }); !status.ok()) {
        Fail(source_.size(), status);
        break;
      }
    }
    Work();
    for (Thread& other : others) other.Join();
    MutexLock lock(mu_);
    return failure_;
  }

 private:
  struct Buffers {
    std::vector<uint8_t> records;  // The records of a block.
    std::vector<uint8_t> values;   // The values of one sample, aligned for its type.
    std::vector<int32_t> labels;
  };

  void Work() {
    Buffers buffers = {.records = std::vector<uint8_t>(block_ * layout_.record_bytes),
                       .values = std::vector<uint8_t>(layout_.value_bytes),
                       .labels = std::vector<int32_t>(source_.spec().labels.elements())};
    while (!failed_) {
      const int64_t first = next_.fetch_add(block_);
      if (first >= source_.size()) return;
      const absl::Status status = Copy(first, std::min(first + block_, source_.size()), buffers);
      if (!status.ok()) Fail(first, status);
      progressed_();
    }
  }

  // Writes the records of samples [first, end).
  absl::Status Copy(int64_t first, int64_t end, Buffers& buffers) {
    for (int64_t i = first; i < end; ++i) {
      TETHYS_RETURN_IF_ERROR(source_.Read(i, buffers.values.data(), buffers.labels.data()));
      uint8_t* const record = buffers.records.data() + (i - first) * layout_.record_bytes;
      const SampleSums sums = SampleSumsOf(buffers.values.data(), layout_.value_bytes, buffers.labels.data(),
                                           layout_.label_bytes);
      std::memcpy(record, buffers.values.data(), layout_.value_bytes);
      std::memcpy(record + layout_.value_bytes, buffers.labels.data(), layout_.label_bytes);
      std::memcpy(record + layout_.value_bytes + layout_.label_bytes, &sums, sizeof(sums));
    }
    return WriteFullyAt(fd_, buffers.records.data(), (end - first) * layout_.record_bytes,
                        layout_.RecordOf(first), name_);
  }

  void Fail(int64_t first, const absl::Status& status) {
    failed_ = true;
    MutexLock lock(mu_);
    if (failure_.ok() || first < failed_at_) {
      failure_ = status;
      failed_at_ = first;
    }
  }

  const SampleSource& source_;
  const int fd_;
  const std::string& name_;
  const absl::FunctionRef<void()> progressed_;
  const SampleCacheLayout layout_;
  const int64_t block_;  // The number of samples of a block.

  std::atomic<int64_t> next_{0};
  std::atomic<bool> failed_{false};
  Mutex mu_;
  absl::Status failure_ ABSL_GUARDED_BY(mu_);
  int64_t failed_at_ ABSL_GUARDED_BY(mu_) = 0;
};

using OpenSource = std::function<absl::StatusOr<std::shared_ptr<const SampleSource>>()>;

absl::StatusOr<std::shared_ptr<const SampleSource>> OpenTicking(const OpenSource& open_source,
                                                                absl::FunctionRef<void()> progressed) {
  const ProgressTicker ticker(progressed);
  return open_source();
}

// Writes a complete cache to the file `fd`, in which the space was reserved before.
absl::Status FillFrom(const SampleSource& source, const SampleCacheRequest& request, int fd,
                      const std::string& name, absl::FunctionRef<void()> progressed) {
  TETHYS_CHECK(source.spec() == request.content.spec && source.size() == request.content.samples);
  TETHYS_RETURN_IF_ERROR(Filler(source, fd, name, progressed).Fill(request.threads));
  const std::string header = SampleCacheHeader(request.content);
  return WriteFullyAt(fd, header.data(), kSampleCacheHeader, 0, name);
}

absl::Status NeedText(const absl::Status& status, const SampleCacheRequest& request) {
  if (!absl::IsResourceExhausted(status)) return status;
  return absl::ResourceExhaustedError(
      absl::StrCat(status.message(), "; the cache needs ",
                   SampleCacheLayout(request.content.spec, request.content.samples).size,
                   " bytes for the decoded samples of ", request.description,
                   "; to do without the cache, write data.cache: NONE"));
}

// ------------------------------------------------------------------------------------------ on disk

absl::StatusOr<std::shared_ptr<const SampleSource>> OpenOnDisk(const HostCache& cache,
                                                               const SampleCacheRequest& request,
                                                               const OpenSource& open_source) {
  FileDescriptor file;
  const auto accept = [&](const std::string& path) {
    file = FileDescriptor(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    return file.valid() && Holds(file.get(), request.content);
  };
  const auto make = [&](const std::string& path, absl::FunctionRef<void()> progressed) -> absl::Status {
    TETHYS_ASSIGN_OR_RETURN(const auto source, OpenTicking(open_source, progressed));
    const FileDescriptor out(open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (!out.valid()) return ErrnoStatus(errno, absl::StrCat("cannot create ", path));
    const int64_t size = SampleCacheLayout(request.content.spec, request.content.samples).size;
    TETHYS_RETURN_IF_ERROR(NeedText(ReserveInCache(out.get(), size, path), request));
    return NeedText(ExplainFullCache(FillFrom(*source, request, out.get(), path, progressed), path), request);
  };
  const std::string name = SampleEntryName(request.content.key);
  TETHYS_ASSIGN_OR_RETURN(const std::string path, cache.Entry(name, accept, make));
  if (!accept(path)) {
    return absl::DataLossError(absl::StrCat(
        path, " was changed right after it had been written: delete the file, and start the job again"));
  }
  return std::make_shared<CachedSource>(std::move(file), path, path, request.content, request.rules);
}

// ------------------------------------------------------------------------------------------ in memory

// The ranks that hold a cache in memory are listed in a file of the host's cache (the note), with one line
// for each rank: the rank's process id, the time when the process started, and the process's file descriptor
// of the memory. The process has ended if no process has this id now, or if the process with this id started
// at another time.
constexpr int64_t kMaxNote = 1 << 20;

struct Owner {
  int64_t process = 0, start = 0, descriptor = 0;
};

// Opens the owner's memory. The descriptor is not valid if the owner or its memory is gone.
FileDescriptor OpenMemoryOf(const Owner& owner) {
  if (ProcessStart(owner.process) != owner.start) return FileDescriptor();
  const std::string path = absl::StrCat("/proc/", owner.process, "/fd/", owner.descriptor);
  FileDescriptor memory(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  return memory.valid() && fcntl(memory.get(), F_GET_SEALS) == kSeals ? std::move(memory) : FileDescriptor();
}

std::vector<Owner> LivingOwners(const std::string& note) {
  std::vector<Owner> owners;
  const absl::StatusOr<std::string> text = ReadFile(note, kMaxNote);
  if (!text.ok()) return owners;
  for (const absl::string_view line : absl::StrSplit(*text, '\n')) {
    const std::vector<absl::string_view> words = absl::StrSplit(line, ' ');
    Owner owner;
    if (words.size() == 3 && absl::SimpleAtoi(words[0], &owner.process) &&
        absl::SimpleAtoi(words[1], &owner.start) && absl::SimpleAtoi(words[2], &owner.descriptor) &&
        owner.process > 0 && OpenMemoryOf(owner).valid()) {
      owners.push_back(owner);
    }
  }
  return owners;
}

// Opens the memory of the first owner whose memory has this content. The descriptor is not valid if no owner
// has such memory.
FileDescriptor FindMemory(const std::vector<Owner>& owners, const SampleCacheContent& content) {
  for (const Owner& owner : owners) {
    FileDescriptor memory = OpenMemoryOf(owner);
    if (memory.valid() && Holds(memory.get(), content)) return memory;
  }
  return FileDescriptor();
}

absl::StatusOr<FileDescriptor> FillMemory(const SampleCacheRequest& request, const OpenSource& open_source,
                                          absl::FunctionRef<void()> progressed) {
  TETHYS_ASSIGN_OR_RETURN(const auto source, OpenTicking(open_source, progressed));
  const int64_t size = SampleCacheLayout(request.content.spec, request.content.samples).size;
  const std::string remedy = absl::StrCat(size, " bytes of decoded samples of ", request.description,
                                          ": free memory on this host, or set data.cache to DISK or NONE");
  // The limit is checked here because the kernel returns no error when memory runs out.
  const int64_t bound = sysconf(_SC_PHYS_PAGES) / 4 * 3 * sysconf(_SC_PAGESIZE);
  if (size > bound) {
    return absl::ResourceExhaustedError(
        absl::StrCat("three quarters of this host's memory are ", bound, " bytes, too few for ", remedy));
  }
  FileDescriptor memory(memfd_create("tethys-samples", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!memory.valid()) return ErrnoStatus(errno, "cannot create memory for samples");
  if (const int error = posix_fallocate(memory.get(), 0, size); error != 0) {
    return ErrnoStatus(error, absl::StrCat("no memory for ", remedy));
  }
  const std::string name = absl::StrCat("samples of ", request.description, " in memory");
  TETHYS_RETURN_IF_ERROR(FillFrom(*source, request, memory.get(), name, progressed));
  if (fcntl(memory.get(), F_ADD_SEALS, kSeals) != 0)
    return ErrnoStatus(errno, "cannot seal memory for samples");
  return memory;
}

// Removes each note whose ranks have all ended, unless another process holds the lock of the note. That
// process is filling the memory anew.
void RemoveStaleNotes(const HostCache& cache, absl::string_view suffix) {
  const absl::StatusOr<std::vector<std::string>> names = ListDirectory(cache.folder());
  if (!names.ok()) return;
  for (const std::string& name : *names) {
    if (!absl::EndsWith(name, suffix)) continue;
    const auto lock = cache.TryLock(name);
    const std::string path = cache.PathOf(name);
    if (lock.ok() && lock->has_value() && LivingOwners(path).empty()) unlink(path.c_str());
  }
}

absl::StatusOr<std::shared_ptr<const SampleSource>> OpenInMemory(const HostCache& cache,
                                                                 const SampleCacheRequest& request,
                                                                 const OpenSource& open_source) {
  // Hosts may share a file system, so the boot id separates their notes.
  const std::string boot = BootId();
  const std::string suffix =
      absl::StrCat("-", CacheKey().Add(boot.empty() ? HostName() : boot).text(), ".memory");
  const std::string name = absl::StrCat("samples-", request.content.key, suffix);
  const std::string note = cache.PathOf(name);
  TETHYS_ASSIGN_OR_RETURN(const CacheLock lock, cache.Lock(name));
  std::vector<Owner> owners = LivingOwners(note);
  FileDescriptor memory = FindMemory(owners, request.content);
  if (!memory.valid()) {
    owners.clear();
    RemoveStaleNotes(cache, suffix);
    TETHYS_ASSIGN_OR_RETURN(memory, FillMemory(request, open_source, [&lock] { lock.ShowProgress(); }));
  }
  owners.push_back({getpid(), ProcessStart(getpid()).value_or(0), memory.get()});
  std::string text;
  for (const Owner& owner : owners) {
    absl::StrAppend(&text, owner.process, " ", owner.start, " ", owner.descriptor, "\n");
  }
  TETHYS_RETURN_IF_ERROR(ExplainFullCache(WriteFileAtomically(note, text), note));
  return std::make_shared<CachedSource>(std::move(memory), absl::StrCat("samples of ", request.description),
                                        /*path=*/"", request.content, request.rules);
}

}  // namespace

std::string SampleEntryName(const std::string& key) { return absl::StrCat("samples-", key); }

absl::StatusOr<std::shared_ptr<const SampleSource>> OpenCachedSamples(const HostCache& cache,
                                                                      const SampleCacheRequest& request,
                                                                      const OpenSource& open) {
  return request.where == proto::Data::MEMORY ? OpenInMemory(cache, request, open)
                                              : OpenOnDisk(cache, request, open);
}

}  // namespace tethys
