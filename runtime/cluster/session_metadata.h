// Keys of the metadata with which a task and the chief open a session (proto/chief.proto).
#ifndef TETHYS_RUNTIME_CLUSTER_SESSION_METADATA_H_
#define TETHYS_RUNTIME_CLUSTER_SESSION_METADATA_H_

namespace tethys {

// A task that opens its session again sends the number of orders that it has received.
inline constexpr char kOrdersReceivedKey[] = "tethys-orders-received";
// The chief sends this key if it has admitted the task.
inline constexpr char kAdmittedKey[] = "tethys-admitted";
// The chief sends this key if the task may open the session again at a successor of the chief.
inline constexpr char kResumableKey[] = "tethys-resumable";
// A successor sends the number of messages that it knows from the session.
inline constexpr char kMessagesReceivedKey[] = "tethys-messages-received";

}  // namespace tethys

#endif  // TETHYS_RUNTIME_CLUSTER_SESSION_METADATA_H_
