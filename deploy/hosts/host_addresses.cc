#include "deploy/hosts/host_addresses.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "runtime/base/file.h"
#include "runtime/base/process.h"

namespace tethys {
namespace {

constexpr int kFamilies[] = {AF_INET, AF_INET6};

const char* FamilyName(int family) { return family == AF_INET ? "IPv4" : "IPv6"; }

std::string AddressText(const sockaddr* address) {
  const bool four = address->sa_family == AF_INET;
  char text[NI_MAXHOST];
  const int error = getnameinfo(address, four ? sizeof(sockaddr_in) : sizeof(sockaddr_in6), text,
                                sizeof(text), nullptr, 0, NI_NUMERICHOST);
  return error == 0 ? text : "";
}

// True for an IPv6 address that is valid on one link only: other machines would need a zone for it.
bool IsLinkLocal(const sockaddr* address) {
  return address->sa_family == AF_INET6 &&
         IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr);
}

bool IsLoopback(const std::string& numeric) {
  in_addr four;
  in6_addr six;
  if (inet_pton(AF_INET, numeric.c_str(), &four) == 1) return (ntohl(four.s_addr) >> 24) == 127;
  if (inet_pton(AF_INET6, numeric.c_str(), &six) != 1) return false;
  return IN6_IS_ADDR_LOOPBACK(&six) || (IN6_IS_ADDR_V4MAPPED(&six) && six.s6_addr[12] == 127);
}

bool IsNumeric(const std::string& name) {
  unsigned char bytes[sizeof(in6_addr)];
  return inet_pton(AF_INET, name.c_str(), bytes) == 1 || inet_pton(AF_INET6, name.c_str(), bytes) == 1;
}

struct Found {
  std::string address = {};  // Numeric; empty: the name has no address of this family.
  bool link_local = false;

  bool Usable() const { return !address.empty() && !link_local && !IsLoopback(address); }
};

// The name's first address of the family. An address that other machines can reach is preferred.
Found FindOne(const std::string& name, int family) {
  addrinfo hints{};
  hints.ai_family = family;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  if (getaddrinfo(name.c_str(), nullptr, &hints, &list) != 0) return {};
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> holder(list, freeaddrinfo);
  Found first;
  for (const addrinfo* entry = list; entry != nullptr; entry = entry->ai_next) {
    const Found found{AddressText(entry->ai_addr), IsLinkLocal(entry->ai_addr)};
    if (found.Usable()) return found;
    if (first.address.empty()) first = found;
  }
  return first;
}

// A host with the addresses of its name, one per family.
struct Candidate {
  absl::StatusOr<std::string> name;
  Found by_family[2] = {};

  bool Has(size_t family) const { return !by_family[family].address.empty(); }
  bool HasAny() const { return Has(0) || Has(1); }
};

absl::Status NoAddress(const ClusterHost& host, const std::string& name) {
  return absl::NotFoundError(absl::StrCat(
      host.target.host, ": no address is known for ", name, ": give one by address= in ", host.origin,
      " (an address at which the other machines reach the host), or correct the name"));
}

// The beginning of an error message, which continues with the kind of the address: "vm resolves to 127.0.0.1,
// a" or, if the name is the address, "127.0.0.1 is a".
std::string KindOf(const ClusterHost& host, const Found& found) {
  if (host.target.host == found.address) return absl::StrCat(found.address, " is a");
  return absl::StrCat(host.target.host, " resolves to ", found.address, ", a");
}

// Checks the address that was chosen for a host.
absl::StatusOr<std::string> Checked(const ClusterHost& host, const Found& found, bool alone) {
  if (found.link_local) {
    return absl::InvalidArgumentError(absl::StrCat(
        KindOf(host, found), "n address that is valid on one link only: give another address by address= in ",
        host.origin));
  }
  if (IsLoopback(found.address) && !alone) {
    return absl::InvalidArgumentError(absl::StrCat(KindOf(host, found),
                                                   " loopback address, at which other machines cannot reach "
                                                   "this host: give another address by address= in ",
                                                   host.origin));
  }
  return found.address;
}

// The address family in which all hosts have an address. If there is none, the error names a host without
// IPv4 and a host without IPv6.
absl::StatusOr<size_t> CommonFamily(const std::vector<ClusterHost>& hosts,
                                    const std::vector<Candidate>& candidates) {
  std::string lacking[2];
  for (size_t family = 0; family < 2; ++family) {
    for (size_t i = 0; i < hosts.size() && lacking[family].empty(); ++i) {
      if (candidates[i].HasAny() && !candidates[i].Has(family)) lacking[family] = hosts[i].target.host;
    }
    if (lacking[family].empty()) return family;
  }
  return absl::FailedPreconditionError(
      absl::StrCat("all machines of a job need addresses of one family: ", lacking[0], " has no ",
                   FamilyName(AF_INET), " address and ", lacking[1], " no ", FamilyName(AF_INET6),
                   " address; give addresses of one family by address="));
}

}  // namespace

ClusterHost ClusterHostOf(const HostEntry& entry, const std::string& hostfile) {
  return {.target = {.host = entry.host, .user = entry.user, .port = entry.ssh_port},
          .address = entry.address,
          .folder = entry.folder,
          .origin = hostfile.empty() ? absl::StrCat("line ", entry.line, " of the host file")
                                     : absl::StrCat(hostfile, ":", entry.line)};
}

std::set<std::string> OwnAddresses() {
  std::set<std::string> own;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return own;
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> holder(list, freeifaddrs);
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    const sockaddr* address = entry->ifa_addr;
    if (address == nullptr || IsLinkLocal(address)) continue;
    if (address->sa_family == AF_INET || address->sa_family == AF_INET6) own.insert(AddressText(address));
  }
  return own;
}

std::vector<absl::StatusOr<std::string>> FindAddresses(const std::vector<ClusterHost>& hosts,
                                                       const std::string& ssh_config,
                                                       const std::string& scratch) {
  std::vector<Candidate> candidates;
  for (const ClusterHost& host : hosts) {
    Candidate& candidate =
        candidates.emplace_back(Candidate{host.address.empty() ? SshHostName(ssh_config, host.target, scratch)
                                                               : absl::StatusOr<std::string>(host.address)});
    for (size_t family = 0; candidate.name.ok() && family < 2; ++family) {
      candidate.by_family[family] = FindOne(*candidate.name, kFamilies[family]);
    }
    for (size_t family = 0; family < 2; ++family) {
      if (candidate.by_family[1 - family].Usable() && !candidate.by_family[family].Usable())
        candidate.by_family[family] = {};
    }
  }
  const absl::StatusOr<size_t> family = CommonFamily(hosts, candidates);
  std::vector<absl::StatusOr<std::string>> addresses;
  for (size_t i = 0; i < hosts.size(); ++i) {
    if (!candidates[i].name.ok()) {
      addresses.emplace_back(candidates[i].name.status());
    } else if (!candidates[i].HasAny()) {
      addresses.emplace_back(NoAddress(hosts[i], *candidates[i].name));
    } else if (!family.ok()) {
      addresses.emplace_back(family.status());
    } else {
      addresses.push_back(Checked(hosts[i], candidates[i].by_family[*family], hosts.size() == 1));
    }
  }
  return addresses;
}

std::string FullHostName() {
  const std::string own = HostName();
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_CANONNAME;
  addrinfo* list = nullptr;
  if (getaddrinfo(own.c_str(), nullptr, &hints, &list) != 0) return own;
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> holder(list, freeaddrinfo);
  return list->ai_canonname == nullptr ? own : list->ai_canonname;
}

bool IsLoopbackName(const std::string& name) {
  std::string found;
  for (const int family : kFamilies) {
    const std::string address = FindOne(name, family).address;
    if (!address.empty() && !IsLoopback(address)) return false;
    found += address;
  }
  return !found.empty();
}

bool IsOwnNameForLoopback(const std::string& name) {
  return !IsNumeric(name) && !absl::StartsWith(name, "localhost") && IsLoopbackName(name);
}

std::string NumericAddress(const std::string& name) {
  const Found four = FindOne(name, AF_INET);
  const Found six = FindOne(name, AF_INET6);
  return four.address.empty() || (six.Usable() && !four.Usable()) ? six.address : four.address;
}

namespace {

// The address of this machine from which packets to `peer` leave. Connecting a datagram socket sends nothing.
absl::StatusOr<std::string> AddressOnRouteTo(const std::string& peer) {
  absl::Status why = absl::NotFoundError(absl::StrCat("no address is known for ", peer));
  for (const int family : kFamilies) {
    const Found found = FindOne(peer, family);
    if (found.address.empty() || IsLoopback(found.address)) continue;
    addrinfo hints{};
    hints.ai_family = family;
    hints.ai_socktype = SOCK_DGRAM;
    hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
    addrinfo* list = nullptr;
    if (getaddrinfo(found.address.c_str(), "9", &hints, &list) != 0) continue;
    const std::unique_ptr<addrinfo, void (*)(addrinfo*)> holder(list, freeaddrinfo);
    const FileDescriptor fd(socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    sockaddr_storage own{};
    socklen_t size = sizeof(own);
    if (fd.valid() && connect(fd.get(), list->ai_addr, list->ai_addrlen) == 0 &&
        getsockname(fd.get(), reinterpret_cast<sockaddr*>(&own), &size) == 0) {
      return AddressText(reinterpret_cast<const sockaddr*>(&own));
    }
    why = ErrnoStatus(errno, absl::StrCat("there is no route to ", peer, " (", found.address, ")"));
  }
  return absl::UnavailableError(why.message());
}

bool IsOwn(const std::string& name) {
  const std::set<std::string> own = OwnAddresses();
  return own.count(FindOne(name, AF_INET).address) > 0 || own.count(FindOne(name, AF_INET6).address) > 0;
}

}  // namespace

absl::StatusOr<std::string> ListenAddress(const std::string& own, const std::vector<std::string>& others) {
  if (!own.empty() && !IsLoopbackName(own)) return own;
  const std::string host = own.empty() ? "127.0.0.1" : own;
  const auto elsewhere = std::find_if(others.begin(), others.end(), [&](const std::string& other) {
    return other != own && !IsLoopbackName(other);
  });
  if (elsewhere == others.end()) return host;
  const absl::StatusOr<std::string> route = AddressOnRouteTo(*elsewhere);
  if (own.empty()) return route.value_or(host);
  if (route.ok() && !IsNumeric(own)) return route;
  if (IsOwn(*elsewhere)) return host;
  const std::string why = absl::StrCat(host, " resolves to this machine only, so other machines (",
                                       *elsewhere, ") cannot reach this process: ");
  if (!route.ok()) return absl::UnavailableError(absl::StrCat(why, route.status().message()));
  return absl::InvalidArgumentError(absl::StrCat(why, "write ", *route, ", or leave the flag out"));
}

}  // namespace tethys
