#include "runtime/remote/remote_files.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <utility>

#include "absl/strings/match.h"
#include "runtime/base/mutex.h"
#include "runtime/base/own_library.h"
#include "runtime/base/thread.h"
#include "runtime/remote/block_cache.h"
#include "runtime/remote/read_ahead.h"
#include "runtime/remote/remote_fingerprint.h"
#include "runtime/remote/remote_library.h"
#include "runtime/remote/remote_object.h"

namespace tethys {
namespace {

// The functions for the URLs of a scheme.
struct Place {
  absl::string_view scheme;
  OpenRemote* open;
  ListRemote* list;  // Expands a pattern (glob); null: the scheme allows no patterns.
};
constexpr Place kPlaces[] = {
    {"http", OpenHttpObject, nullptr},
    {"https", OpenHttpObject, nullptr},
    {"webhdfs", OpenWebhdfsObject, ListWebhdfs},
    {"swebhdfs", OpenWebhdfsObject, ListWebhdfs},
    {"s3", OpenS3Object, ListS3},
};

// Requires a scheme that ParseUrl accepts.
const Place& PlaceFor(const Url& url) {
  return *std::find_if(std::begin(kPlaces), std::end(kPlaces),
                       [&](const Place& place) { return place.scheme == url.scheme; });
}

// Threads that fetch blocks before they are read. Fetches that are still in the queue when Stop is called are
// dropped.
class Fetchers {
 public:
  explicit Fetchers(int threads) : most_(static_cast<size_t>(threads)) {}
  ~Fetchers() { Stop(); }

  // Never blocks.
  void Enqueue(std::function<void()> fetch) {
    const MutexLock lock(mu_);
    if (stopped_) return;
    queue_.push_back(std::move(fetch));
    if (idle_ == 0 && threads_.size() < most_) {
      Thread thread;
      if (thread.Start([this] { Run(); }).ok()) threads_.push_back(std::move(thread));
    }
    // If no thread could be started, nothing is fetched ahead, and blocks are fetched when they are read.
    if (threads_.empty()) queue_.clear();
    changed_.NotifyOne();
  }

  // Waits for the running fetches.
  void Stop() {
    std::vector<Thread> threads;
    {
      const MutexLock lock(mu_);
      stopped_ = true;
      queue_.clear();
      threads.swap(threads_);
      changed_.NotifyAll();
    }
    for (Thread& thread : threads) thread.Join();
  }

 private:
  void Run() {
    while (true) {
      std::function<void()> fetch;
      {
        const MutexLock lock(mu_);
        ++idle_;
        while (queue_.empty() && !stopped_) changed_.Wait(mu_);
        --idle_;
        if (stopped_) return;
        fetch = std::move(queue_.front());
        queue_.pop_front();
      }
      fetch();
    }
  }

  const size_t most_;
  Mutex mu_;
  CondVar changed_;
  std::deque<std::function<void()>> queue_ ABSL_GUARDED_BY(mu_);
  std::vector<Thread> threads_ ABSL_GUARDED_BY(mu_);
  size_t idle_ ABSL_GUARDED_BY(mu_) = 0;
  bool stopped_ ABSL_GUARDED_BY(mu_) = false;
};

// The state that all files of one RemoteFiles share.
struct Shared {
  Shared(std::unique_ptr<HttpTransport> own_transport, proto::RemoteSecrets own_secrets,
         RemoteOptions own_options)
      : transport(std::move(own_transport)),
        secrets(std::move(own_secrets)),
        options(std::move(own_options)),
        client(*transport, secrets, PatienceOf()),
        cache(options.cache_bytes),
        fetchers(options.blocks_ahead) {}

  void Stop() {
    {
      const MutexLock lock(mu);
      stopped = true;
      stop.NotifyAll();
    }
    transport->Stop();
    fetchers.Stop();
  }

  HttpPatience PatienceOf() {
    HttpPatience patience = options.patience;
    if (patience.pause) return patience;
    patience.pause = [this](Nanoseconds pause) {
      const MonotonicClock clock;
      const Nanoseconds end = clock.Now() + pause;
      const MutexLock lock(mu);
      for (Nanoseconds left = pause; !stopped && left > 0; left = end - clock.Now()) stop.WaitFor(mu, left);
    };
    return patience;
  }

  // A number that stands for the file's present content, which is identified by name, size and version. The
  // number is part of the cache's keys.
  int64_t NumberOf(const RemoteObject& object) {
    const std::string content = absl::StrCat(object.name(), " ", object.size(), " ", object.version());
    const MutexLock lock(mu);
    const auto [number, is_new] = numbers.emplace(content, static_cast<int64_t>(numbers.size()));
    if (is_new) opened_bytes += object.size();
    return number->second;
  }

  // One ReadAhead for all files of a server, so that the number of blocks that is found for one file is used
  // for the next file.
  ReadAhead& AheadOf(const Url& url, int64_t most) {
    const std::string server = absl::StrCat(url.scheme, "://", url.authority);
    const MutexLock lock(mu);
    return ahead.try_emplace(server, most).first->second;
  }

  const std::unique_ptr<HttpTransport> transport;
  const proto::RemoteSecrets secrets;
  const RemoteOptions options;
  const HttpClient client;
  BlockCache cache;
  Mutex mu;
  CondVar stop;
  bool stopped ABSL_GUARDED_BY(mu) = false;
  std::map<std::string, int64_t> numbers ABSL_GUARDED_BY(mu);
  std::map<std::string, ReadAhead> ahead ABSL_GUARDED_BY(mu);
  std::atomic<int64_t> opened_bytes = 0;  // Bytes of all files in `numbers`.
  Fetchers fetchers;  // The last member, so that its threads end before the other members are destroyed.
};

class CachedFile final : public RemoteFile, public std::enable_shared_from_this<CachedFile> {
 public:
  CachedFile(std::shared_ptr<Shared> shared, const Url& url, std::unique_ptr<RemoteObject> object)
      : shared_(std::move(shared)),
        object_(std::move(object)),
        number_(shared_->NumberOf(*object_)),
        block_bytes_(shared_->options.block_bytes * object_->blocks_a_request()),
        // At most half of the cache is fetched ahead, so that the cache does not drop these blocks before
        // they are read.
        most_ahead_(std::min<int64_t>(shared_->options.blocks_ahead,
                                      shared_->options.cache_bytes / 2 / block_bytes_)),
        server_(shared_->AheadOf(url, most_ahead_)) {}

  const std::string& name() const override { return object_->name(); }
  int64_t size() const override { return object_->size(); }
  std::string version() const override {
    return object_->version().empty() ? "" : absl::StrCat(size(), " ", object_->version());
  }

  absl::Status ReadAt(int64_t offset, absl::Span<uint8_t> out) const override {
    if (out.empty()) return absl::OkStatus();
    const RemoteOptions& options = shared_->options;
    const auto wanted = static_cast<int64_t>(out.size());
    const int64_t last_end = last_end_.exchange(offset + wanted, std::memory_order_relaxed);
    // If several readers use the file, the last read may be another reader's. Sequential reads may then seem
    // to be out of order, which only costs time.
    const bool in_order = std::abs(offset - last_end) <= block_bytes_ / 4;
    if (!in_order) ahead_.store(offset / block_bytes_, std::memory_order_relaxed);
    const bool at_random = !in_order && wanted <= kMostRandomBlocks * options.random_bytes &&
                           shared_->opened_bytes > options.cache_bytes;
    while (!out.empty()) {
      const int64_t number = offset / block_bytes_;
      // At the beginning of a file nothing is fetched ahead, because perhaps only the header is read.
      if ((in_order || wanted > block_bytes_) && offset >= block_bytes_ / 8) FetchAhead(number);
      const bool small = at_random && !shared_->cache.Has(KeyOf(number, block_bytes_));
      const int64_t bytes = small ? options.random_bytes : block_bytes_;
      TETHYS_ASSIGN_OR_RETURN(const BlockCache::Block block, BlockOf(offset / bytes, bytes));
      const int64_t begin = offset % bytes;
      const size_t count = std::min(out.size(), block->size() - static_cast<size_t>(begin));
      std::memcpy(out.data(), block->data() + begin, count);
      out.remove_prefix(count);
      offset += static_cast<int64_t>(count);
    }
    return absl::OkStatus();
  }

 private:
  // The most blocks of random_bytes bytes that one read takes. A larger read takes blocks of block_bytes_
  // bytes, so that it does not make many requests.
  static constexpr int64_t kMostRandomBlocks = 4;

  // The cache's key of block `number` of a file read in blocks of `bytes` bytes; blocks of two sizes have
  // different keys.
  BlockCache::Key KeyOf(int64_t number, int64_t bytes) const {
    return {.file = 2 * number_ + (bytes == block_bytes_ ? 0 : 1), .block = number};
  }

  absl::StatusOr<BlockCache::Block> BlockOf(int64_t number, int64_t bytes) const {
    const int64_t begin = number * bytes, count = std::min(bytes, size() - begin);
    return shared_->cache.Get(KeyOf(number, bytes), count, [&](std::string spare) {
      return object_->Fetch(begin, count, std::move(spare));
    });
  }

  // Starts to fetch the blocks after `number`, for a reader who reads from front to back.
  void FetchAhead(int64_t number) const {
    const int64_t blocks = (size() - 1) / block_bytes_ + 1;
    if (number_read_.exchange(number, std::memory_order_relaxed) != number) server_.Advance(clock_.Now());
    const int64_t end = std::min(number + 1 + std::min(most_ahead_, server_.blocks()), blocks);
    if (ahead_.load(std::memory_order_relaxed) >= end - 1) return;
    const int64_t begin = std::max(number, ahead_.exchange(end - 1, std::memory_order_relaxed)) + 1;
    for (int64_t next = begin; next < end; ++next) {
      if (shared_->cache.Has(KeyOf(next, block_bytes_))) continue;
      shared_->fetchers.Enqueue([file = shared_from_this(), next] { file->FetchNow(next); });
    }
  }

  // Fetches block `number` ahead, unless the reader has passed the block, or now reads far from the block.
  void FetchNow(int64_t number) const {
    const int64_t reader = last_end_.load(std::memory_order_relaxed) / block_bytes_;
    if (number < reader || number > reader + most_ahead_) return;
    // An error is ignored, because the reader fetches the block again and then gets the error itself.
    static_cast<void>(BlockOf(number, block_bytes_));
  }

  const std::shared_ptr<Shared> shared_;
  const std::unique_ptr<RemoteObject> object_;
  const int64_t number_;
  const int64_t block_bytes_;  // Size of the requests of a reader who reads in order.
  const int64_t most_ahead_;   // Limit on blocks of block_bytes_ bytes that are fetched ahead.
  ReadAhead& server_;
  const MonotonicClock clock_;
  mutable std::atomic<int64_t> last_end_ = 0;     // End of the last read.
  mutable std::atomic<int64_t> number_read_ = 0;  // Number of the last block that was read in order.
  mutable std::atomic<int64_t> ahead_ = 0;        // Number of the last block that was fetched ahead or read.
};

class RemoteFilesImpl final : public RemoteFiles {
 public:
  explicit RemoteFilesImpl(std::shared_ptr<Shared> shared) : shared_(std::move(shared)) {}
  ~RemoteFilesImpl() override { shared_->Stop(); }

  absl::StatusOr<std::shared_ptr<const RemoteFile>> Open(const std::string& text) override {
    TETHYS_ASSIGN_OR_RETURN(const Url url, ParseUrl(text));
    TETHYS_ASSIGN_OR_RETURN(std::unique_ptr<RemoteObject> object, PlaceFor(url).open(shared_->client, url));
    return std::make_shared<CachedFile>(shared_, url, std::move(object));
  }

  absl::StatusOr<std::vector<std::string>> Expand(const std::string& pattern) override {
    TETHYS_ASSIGN_OR_RETURN(const Url url, ParseUrl(pattern));
    const Place& place = PlaceFor(url);
    if (place.list != nullptr) return place.list(shared_->client, url);
    if (ShownUrl(url.path).find_first_of("*[") == std::string::npos) return std::vector<std::string>{pattern};
    return absl::InvalidArgumentError(
        absl::StrCat(ShownUrl(pattern), " is a pattern, but a server of ", url.scheme,
                     " does not list its files: name each file (write a '*' that is part of a name as %2A)"));
  }

 private:
  const std::shared_ptr<Shared> shared_;
};

// The secrets of the process, and the function that reads them. This object is never destroyed, because
// threads may use it until the process ends.
struct SecretsOfProcess {
  Mutex mu;
  SecretsSource source ABSL_GUARDED_BY(mu);
  proto::RemoteSecrets in_use ABSL_GUARDED_BY(mu);
};

SecretsOfProcess& OwnSecrets() {
  static auto* const secrets = new SecretsOfProcess;
  return *secrets;
}

absl::StatusOr<std::unique_ptr<RemoteFiles>> MakeProcessFiles() {
  TETHYS_ASSIGN_OR_RETURN(std::unique_ptr<HttpTransport> transport, LoadHttpTransport(ProgramFolder(), {}));
  SecretsOfProcess& own = OwnSecrets();
  const MutexLock lock(own.mu);
  if (own.source) {
    TETHYS_ASSIGN_OR_RETURN(own.in_use, own.source());
  }
  return CreateRemoteFiles(std::move(transport), own.in_use, {});
}

}  // namespace

std::unique_ptr<RemoteFiles> CreateRemoteFiles(std::unique_ptr<HttpTransport> transport,
                                               proto::RemoteSecrets secrets, RemoteOptions options) {
  return std::make_unique<RemoteFilesImpl>(
      std::make_shared<Shared>(std::move(transport), std::move(secrets), std::move(options)));
}

absl::StatusOr<std::unique_ptr<HttpTransport>> LoadHttpTransport(const std::string& folder,
                                                                 const HttpDeadlines& deadlines) {
  TETHYS_ASSIGN_OR_RETURN(
      const void* table,
      OpenOwnLibrary({.path = absl::StrCat(folder, "/", kRemoteLibraryName),
                      .entry = kRemoteLibraryEntry,
                      .fingerprint = TETHYS_REMOTE_FINGERPRINT,
                      .if_missing = ", but the data has a URL: this build reads local files only. Build with "
                                    "libcurl4-openssl-dev installed, or copy the files"}));
  return static_cast<const RemoteLibrary*>(table)->create_transport(deadlines);
}

absl::StatusOr<RemoteFiles*> ProcessRemoteFiles() {
  // `files` is destroyed at the end of the process, before the static objects that libcurl uses, because
  // those objects were constructed earlier.
  static const absl::StatusOr<std::unique_ptr<RemoteFiles>> files = MakeProcessFiles();
  if (!files.ok()) return files.status();
  return files->get();
}

void SetSecretsSource(SecretsSource source) {
  SecretsOfProcess& own = OwnSecrets();
  const MutexLock lock(own.mu);
  own.source = std::move(source);
}

proto::RemoteSecrets SecretsInUse() {
  SecretsOfProcess& own = OwnSecrets();
  const MutexLock lock(own.mu);
  return own.in_use;
}

}  // namespace tethys
