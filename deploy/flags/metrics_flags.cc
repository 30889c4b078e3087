#include "deploy/flags/metrics_flags.h"

#include "absl/strings/str_cat.h"
#include "deploy/live/metrics_token.h"
#include "runtime/base/socket.h"

namespace tethys {
namespace {

constexpr char kAddress[] = "metrics_address";
constexpr char kTokenFile[] = "metrics_token_file";

}  // namespace

std::vector<FlagSpec> WithMetricsFlags(std::vector<FlagSpec> flags) {
  flags.push_back({.name = kAddress,
                   .value = "HOST:PORT",
                   .help = "Also serves /metrics, and nothing else, on this address of this machine, for a "
                           "Prometheus on another machine; needs --metrics_token_file. The traffic is not "
                           "encrypted, so name an address in a network that you trust."});
  flags.push_back({.name = kTokenFile,
                   .value = "FILE",
                   .help =
                       "The file whose first line is the bearer token for --metrics_address, of at least 16 "
                       "characters. The file must be readable only by its owner (mode 0600).",
                   .is_input = true});
  return flags;
}

absl::Status ReadMetricsFlags(const Flags& flags, LiveServerOptions& options) {
  if (flags.Has(kAddress) != flags.Has(kTokenFile)) {
    return absl::InvalidArgumentError(
        flags.Has(kAddress) ? "--metrics_address needs --metrics_token_file=FILE with the token that callers "
                              "must send; to make a token: (umask 077; openssl rand -hex 16 > FILE)"
                            : "--metrics_token_file is for --metrics_address=HOST:PORT, which is missing");
  }
  if (!flags.Has(kAddress)) return absl::OkStatus();
  const absl::StatusOr<HostPort> address = ParseHostPort(flags.Get(kAddress));
  if (!address.ok()) return Annotate(address.status(), "--metrics_address");
  options.metrics_address = *address;
  TETHYS_ASSIGN_OR_RETURN(options.metrics_token, ReadMetricsToken(flags.Get(kTokenFile)));
  return absl::OkStatus();
}

std::vector<std::string> MetricsArguments(const Flags& flags) {
  std::vector<std::string> arguments;
  for (const char* name : {kAddress, kTokenFile}) {
    if (flags.Has(name)) arguments.push_back(absl::StrCat("--", name, "=", flags.Get(name)));
  }
  return arguments;
}

}  // namespace tethys
