// Files on other machines, by their URL: http://, https://, webhdfs://, swebhdfs://, s3://. Reads go through
// a cache of blocks. If a file is read from front to back, the next blocks are fetched ahead where that is
// faster. If samples are read in a random order from more data than the cache can hold, a block would be
// dropped before it is read again, so little more than the sample is fetched.
//
// HTTP is spoken by libtethys_remote.so, which is opened when the first URL is seen.
#ifndef TETHYS_RUNTIME_REMOTE_REMOTE_FILES_H_
#define TETHYS_RUNTIME_REMOTE_REMOTE_FILES_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "proto/remote_secrets.pb.h"
#include "runtime/remote/http_client.h"
#include "runtime/remote/http_transport.h"

namespace tethys {

// Thread-safe. Reads fail once the RemoteFiles that opened the file is gone.
class RemoteFile {
 public:
  virtual ~RemoteFile() = default;
  virtual const std::string& name() const = 0;  // For errors: the URL.
  virtual int64_t size() const = 0;
  // A text that changes when the file changes. It consists of the file's size and the version that the server
  // states. Empty: the server states no version.
  virtual std::string version() const = 0;
  // Fills `out` with the bytes from `offset` on. These bytes must lie within the file. Blocks. Errors are
  // those of RemoteObject::Fetch.
  virtual absl::Status ReadAt(int64_t offset, absl::Span<uint8_t> out) const = 0;
};

struct RemoteOptions {
  int64_t cache_bytes = int64_t{64} << 20;  // Limit on the cache of all files together.
  int64_t block_bytes = int64_t{2} << 20;   // Bytes of one request when a file is read in order.
  // Bytes of one request when samples are read at random; must divide block_bytes.
  int64_t random_bytes = int64_t{64} << 10;
  // The most blocks that are fetched ahead of a reader, each by a thread (read_ahead.h).
  int blocks_ahead = 4;
  HttpPatience patience = {};  // If `patience.pause` is not set, threads sleep between tries.
};

// Thread-safe. The calls block.
class RemoteFiles {
 public:
  virtual ~RemoteFiles() = default;

  // InvalidArgument: the URL cannot be used, or the file is empty or a folder. Other errors are those of
  // RefusalStatus (http_words.h).
  virtual absl::StatusOr<std::shared_ptr<const RemoteFile>> Open(const std::string& url) = 0;

  // The URLs that a pattern names; the URL itself if it is no pattern. NotFound: no file matches.
  // InvalidArgument: the scheme has no patterns.
  virtual absl::StatusOr<std::vector<std::string>> Expand(const std::string& pattern) = 0;
};

std::unique_ptr<RemoteFiles> CreateRemoteFiles(std::unique_ptr<HttpTransport> transport,
                                               proto::RemoteSecrets secrets, RemoteOptions options);

// Opens libtethys_remote.so in the folder `folder`. FailedPrecondition: the library cannot be used.
absl::StatusOr<std::unique_ptr<HttpTransport>> LoadHttpTransport(const std::string& folder,
                                                                 const HttpDeadlines& deadlines);

// The RemoteFiles that all code of this process shares. The object is global, so that the process has only
// one cache, with one limit on memory. FailedPrecondition: libtethys_remote.so cannot be used. Has the errors
// of the function that reads the secrets, too. After an error, all later calls return the same error.
absl::StatusOr<RemoteFiles*> ProcessRemoteFiles();

// Sets the function that reads the secrets of the process; without it there are no secrets. `source` is
// called by the first call of ProcessRemoteFiles, so that a process that opens no URL needs no file of
// secrets.
using SecretsSource = std::function<absl::StatusOr<proto::RemoteSecrets>()>;
void SetSecretsSource(SecretsSource source);

// The secrets with which this process has opened URLs; empty if the process has opened no URL.
proto::RemoteSecrets SecretsInUse();

}  // namespace tethys

#endif  // TETHYS_RUNTIME_REMOTE_REMOTE_FILES_H_
