// The options of connections to parameter servers: those of a worker (parameter_client.h), or of another
// server (copy_sender.h).
#ifndef TETHYS_PS_CLIENT_OPTIONS_H_
#define TETHYS_PS_CLIENT_OPTIONS_H_

#include <string>
#include <vector>

#include "absl/types/optional.h"
#include "proto/member.pb.h"
#include "proto/plan.pb.h"
#include "runtime/base/clock.h"
#include "runtime/base/socket.h"
#include "runtime/cluster/certificates.h"
#include "runtime/cluster/handshake.h"

namespace tethys {

struct ServerAddress {
  std::string host;     // The host's name as the user wrote it, for error messages.
  std::string address;  // host:port of the server.
};

struct ParameterClientOptions {
  // Holds job, role, index, incarnation and generation; nonce and proof are added per connection.
  proto::Handshake handshake;
  JobToken token;
  absl::optional<TlsIdentity> tls = {};  // The TLS identity of this task; absent: no TLS.
  // Without TLS, payloads have checksums, except over loopback. True: payloads have checksums over loopback,
  // too (for tests).
  bool checksums_on_loopback = false;
  std::vector<ServerAddress> servers;  // One address for each server, by the server's index.
  const Clock* clock = nullptr;        // Must outlive the client.
  int reconnect_tries = 5;
  // Limit on the unanswered messages to one server; 0: no limit. The limit is for servers that answer a
  // message only once all workers have sent it. It keeps a fast worker from filling the server's link ahead
  // of slower workers. The limit is lifted if no answer comes for `patience`, because workers that send in
  // different orders would otherwise wait forever.
  int window = 0;
  Nanoseconds patience = 100 * kMillisecond;
  // The pause between the first and the second try to connect; every further pause is twice as long, but at
  // most kMostPause.
  Nanoseconds reconnect_pause = 20 * kMillisecond;
  static constexpr Nanoseconds kMostPause = 250 * kMillisecond;
  bool pushes_bring_values = true;  // False: the answer to a push has no payload.

  // True if payloads to this server have checksums.
  bool HasChecksums(int server) const {
    return !tls.has_value() && (!IsLoopback(servers[server].address) || checksums_on_loopback);
  }
};

// The addresses of the servers among `members`, in their order.
template <typename Members>
std::vector<ServerAddress> AddressesOf(const Members& members) {
  std::vector<ServerAddress> servers;
  for (const proto::Member& member : members) {
    if (member.role() == proto::PS) servers.push_back({member.host(), member.data_address()});
  }
  return servers;
}

// The handshake of a task of this plan, without incarnation, generation, nonce and proof.
inline proto::Handshake HandshakeOf(const proto::JobPlan& plan, proto::Role role, int index) {
  proto::Handshake handshake;
  handshake.set_job_id(plan.job_id());
  handshake.set_job_hash(plan.job_hash());
  handshake.set_model_signature(plan.model_signature());
  handshake.set_role(role);
  handshake.set_index(index);
  return handshake;
}

}  // namespace tethys

#endif  // TETHYS_PS_CLIENT_OPTIONS_H_
