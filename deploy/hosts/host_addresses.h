// The numeric addresses of machines: the addresses of the hosts of a host file, at which the job's processes
// listen, and the addresses of this machine. Look-ups of names and of ssh's configuration block; nothing is
// sent to the hosts. Thread-compatible.
//
// IPv4 or IPv6: all hosts of a job have addresses of one family, IPv4 if every host has an IPv4 address. A
// numeric address= in the host file decides the family of its host. If a name has several addresses of this
// family, the first one that the system's resolver returns is used; an address that only its own machine can
// reach is used last.
#ifndef TETHYS_DEPLOY_HOSTS_HOST_ADDRESSES_H_
#define TETHYS_DEPLOY_HOSTS_HOST_ADDRESSES_H_

#include <set>
#include <string>
#include <vector>

#include "deploy/process/ssh.h"
#include "runtime/base/status.h"
#include "runtime/cluster/host_file.h"

namespace tethys {

struct ClusterHost {
  SshTarget target = {};
  std::string address = {};  // The address in the host file; empty: the address to which ssh connects.
  std::string folder = {};   // The folder in the host file; empty: ~/.cache/tethys on the host.
  std::string origin = {};   // The line of the host file, for messages: "FILE:LINE".
};

// The host that a line of the file `hostfile` describes. The path may be empty if it is not known.
ClusterHost ClusterHostOf(const HostEntry& entry, const std::string& hostfile);

// The numeric addresses of this machine, without link-local IPv6 addresses.
std::set<std::string> OwnAddresses();

// Returns the address at which each host's processes are reached: the address in the host file or, if the
// file has none for this host, the address to which ssh connects. `ssh_config` as in SshCall, `scratch` as in
// RunEverywhere. A host can have these errors. InvalidArgument: the address can be reached on one link only,
// or from its own machine only although there are other hosts. NotFound: the name has no address.
// FailedPrecondition: the hosts have no address family in common.
std::vector<absl::StatusOr<std::string>> FindAddresses(const std::vector<ClusterHost>& hosts,
                                                       const std::string& ssh_config,
                                                       const std::string& scratch);

// Returns the listening address of a process that a scheduler or a user has started. Usually this is `own`, a
// name or address of this machine. But `own` may stand for a loopback address (Debian's installer writes such
// names into /etc/hosts). If it does, and `others` (the names or addresses of the job's machines) has a
// machine other than this one, returns the numeric address of this machine on the route to the first such
// machine. An empty `own` stands for the default, 127.0.0.1. InvalidArgument: `own` is a numeric address that
// only this machine reaches. Unavailable: there is no route.
absl::StatusOr<std::string> ListenAddress(const std::string& own, const std::vector<std::string>& others);

// The full name of this machine, as in "node1.example.org"; its plain name if no other is known.
std::string FullHostName();

// True if `name`, a name or a numeric address, leads to this machine only (127.0.1.1, ::1).
bool IsLoopbackName(const std::string& name);
// True if `name` is a machine's name that leads to this machine only: neither a numeric address nor
// "localhost".
bool IsOwnNameForLoopback(const std::string& name);
// The address to which a name leads, as in FindAddresses; empty if the name has no address.
std::string NumericAddress(const std::string& name);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_HOSTS_HOST_ADDRESSES_H_
