#include "runtime/cluster/grpc_log.h"

#include <grpc/support/log.h>

#include "runtime/base/logging.h"

namespace tethys {
namespace {

void LogLineOfGrpc(gpr_log_func_args* args) {
  internal::LogLine('I', args->file, args->line, absl::StrCat("gRPC: ", args->message));
}

}  // namespace

void LogWhatGrpcLogs() { gpr_set_log_function(LogLineOfGrpc); }

}  // namespace tethys
