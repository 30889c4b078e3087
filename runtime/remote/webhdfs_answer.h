// Parses the answers of WebHDFS's NameNodes and DataNodes (proto/webhdfs.proto). Pure; any thread.
#ifndef TETHYS_RUNTIME_REMOTE_WEBHDFS_ANSWER_H_
#define TETHYS_RUNTIME_REMOTE_WEBHDFS_ANSWER_H_

#include <string>

#include "proto/webhdfs.pb.h"
#include "runtime/base/status.h"
#include "runtime/remote/http_transport.h"

namespace tethys {

// InvalidArgument: the text is no JSON, has fields of other types, or sizes and names that no file can have.
absl::StatusOr<proto::WebhdfsAnswer> ParseWebhdfsAnswer(const std::string& json);

// Whether a NameNode says that it cannot serve now, because it is on standby, in safe mode or overloaded;
// another NameNode may serve, or this NameNode may serve later.
bool IsNotReady(const HttpAnswer& answer);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_REMOTE_WEBHDFS_ANSWER_H_
