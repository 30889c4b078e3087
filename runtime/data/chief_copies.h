// A worker's side of chief:// files: fetches each file once per host into the host's cache, and reads it from
// there.
#ifndef TETHYS_RUNTIME_DATA_CHIEF_COPIES_H_
#define TETHYS_RUNTIME_DATA_CHIEF_COPIES_H_

#include <cstdint>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "proto/chief.pb.h"
#include "proto/job.pb.h"
#include "runtime/base/status.h"

namespace tethys {

// Reads a file of the chief from `offset` on. Calls `take` with each piece of bytes, until the file ends or
// `take` returns an error, which is then returned. Unavailable: the stream broke; another call can read the
// rest.
using ReadFromChief = absl::FunctionRef<absl::Status(
    const std::string& path, int64_t offset, absl::FunctionRef<absl::Status(absl::string_view bytes)> take)>;

// The data with every path of the chief replaced by the paths of copies on this host. Fetches the copies that
// the host's cache lacks. `files` are the files listed in Setup. DataLoss: a file's checksum is wrong.
// ResourceExhausted: the cache is full. InvalidArgument: the chief lists a file that the data do not name.
absl::StatusOr<proto::Data> FetchFromChief(const proto::Data& data,
                                           const google::protobuf::RepeatedPtrField<proto::ChiefFile>& files,
                                           ReadFromChief read);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_DATA_CHIEF_COPIES_H_
