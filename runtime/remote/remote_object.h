// A file on another machine, of which ranges can be fetched. Each kind of server (HTTP, WebHDFS, S3) has one
// source file, which defines the functions of this header for this kind.
#ifndef TETHYS_RUNTIME_REMOTE_REMOTE_OBJECT_H_
#define TETHYS_RUNTIME_REMOTE_REMOTE_OBJECT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/remote/http_client.h"
#include "runtime/remote/url.h"

namespace tethys {

// Immutable; thread-safe.
class RemoteObject {
 public:
  virtual ~RemoteObject() = default;

  const std::string& name() const { return name_; }  // The URL as the job names it.
  int64_t size() const { return size_; }             // At least 1.
  // A text that tells this content of the file from other contents: an ETag or a time of modification. Empty
  // if the server gives neither.
  const std::string& version() const { return version_; }

  // How many blocks of RemoteOptions::block_bytes bytes one request should fetch: more than 1 if a request is
  // costly.
  virtual int64_t blocks_a_request() const { return 1; }

  // The `size` bytes from `offset` on, which must lie within the file. `spare` is an empty string whose
  // memory may be used for the bytes. Blocks. DataLoss: the file has changed since it was opened, or the
  // server sends other bytes than were requested. Other errors are those of HttpClient and of RefusalStatus.
  virtual absl::StatusOr<std::string> Fetch(int64_t offset, int64_t size, std::string spare) const = 0;

 protected:
  RemoteObject(std::string name, int64_t size, std::string version)
      : name_(std::move(name)), size_(size), version_(std::move(version)) {}

 private:
  const std::string name_;
  const int64_t size_;
  const std::string version_;
};

// Opens a file. `client` must outlive the returned object. Blocks. InvalidArgument: the URL names an empty
// file, or no file.
using OpenRemote = absl::StatusOr<std::unique_ptr<RemoteObject>>(const HttpClient& client, const Url& url);
OpenRemote OpenHttpObject;     // http://, https://
OpenRemote OpenWebhdfsObject;  // webhdfs://, swebhdfs://
OpenRemote OpenS3Object;       // s3://

// Like OpenHttpObject, for requests that the URL alone does not describe: `call` has name, URL, headers and
// credentials. `keep` owns the objects to which the credentials and certificates of `call` point.
absl::StatusOr<std::unique_ptr<RemoteObject>> OpenByRanges(const HttpClient& client, HttpCall call,
                                                           std::shared_ptr<const void> keep);

// The URLs that a pattern (glob(7), in the last part of the path) names, sorted. NotFound: the pattern names
// no file.
using ListRemote = absl::StatusOr<std::vector<std::string>>(const HttpClient& client, const Url& pattern);
ListRemote ListWebhdfs;
ListRemote ListS3;

}  // namespace tethys

#endif  // TETHYS_RUNTIME_REMOTE_REMOTE_OBJECT_H_
