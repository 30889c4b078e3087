// The copies of a parameter server in a job with replicas (proto::ParameterServer.replicas): the server sends
// its shards to the next server, its backup, and keeps a copy of the shards of the server before it, its
// primary. With three servers:
//
//   shards of server     0   1   2
//   copy on server       1   2   0
//
// When a group forms, each server offers its shards to its backup, and serves workers only once the backup
// has them. A server that replaces a lost server first takes its shards from its backup. Used by
// parameter_server.cc.
//
// The version of a copy is the step of the job in lock step, where all servers of a group have the same
// version. If workers train on leases, each server counts its copies (copied_pushes.h), and a replacement
// goes on with the newest copy.
#ifndef TETHYS_PS_SHARD_COPIES_H_
#define TETHYS_PS_SHARD_COPIES_H_

#include <functional>
#include <memory>

#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "proto/chief.pb.h"
#include "proto/plan.pb.h"
#include "ps/copy_sender.h"
#include "ps/served_store.h"
#include "ps/shard_copy.h"
#include "runtime/base/mutex.h"

namespace tethys {

class ShardCopies {
 public:
  struct Options {
    ParameterClientOptions client;  // Token, TLS identity, checksums and clock. Join sets the rest.
    // Called on any thread: the backup has this version of the server's shards. Must not block.
    std::function<void(int64_t version)> on_copied;
    // Called on any thread: another server refuses a copy, so the job cannot continue. Must not block.
    std::function<void(const absl::Status&)> on_refused;
    // Workers on leases: called by Join; returns ParameterStore::OfferCopy. May block.
    std::function<StoreCopy()> offer;
  };

  // Errors of ShardCopy::Create. `served` is the store of the server with the index `server`.
  static absl::StatusOr<std::unique_ptr<ShardCopies>> Create(Options options, const proto::JobPlan& plan,
                                                             int server, std::shared_ptr<ServedStore> served);

  int server() const { return server_; }

  // ---- The server's loop thread calls these functions.

  // True if the server with this index may send copies to this server.
  bool Expects(int server) const { return server == primary_ || server == backup_; }
  // The newest version of the copy that this server keeps; nullopt: there is none.
  absl::optional<int64_t> kept_version() const { return kept_->version(); }
  // Takes a kCopy frame of the server `sender`. Returns the answer that is due, or nullopt. InvalidArgument:
  // the sender is not the server from which these shards come. Unavailable: this server does not take its own
  // shards yet. Other errors are those of ShardCopy::Take.
  absl::StatusOr<absl::optional<Frame>> Take(int sender, const Frame& frame, PayloadPieces payload);
  // The group begins with the parameters of `version`.
  void StepBack(int64_t version) { kept_->StepBack(version); }
  // Lets the server take its own shards from its backup from now on.
  absl::Status ExpectShards();
  // StoreActions::Copy and CopyAll.
  void Copy(Range local, int64_t version);
  void CopyAll(int64_t number, const proto::PushBook& book);
  // The store knows that the backup has the copy with this number (ParameterStore::OnCopied).
  void NoteCopied(int64_t number);

  // ---- Another thread calls these functions, one at a time. They block.

  // Exchanges copies with the other servers of the group, in this order: gives the primary its shards back,
  // takes this server's shards, and offers them to the backup; the first two only if form.restored says so.
  // `restores`: this server takes its shards (ExpectShards). Aborted: the group was halted. DeadlineExceeded:
  // another server did not answer within `patience`. FailedPrecondition: the primary is to be restored, but
  // this server has no copy of the version.
  absl::Status Join(const proto::Form& form, bool restores, Nanoseconds patience);
  // Blocks until the backup has the copy with this number. Aborted: the group was halted.
  absl::Status AwaitCopied(int64_t number);
  // Ends the streams to other servers.
  void Leave();

  // Called on any thread: the group of this generation was halted, so Join returns. Does not block.
  void Interrupt(uint32_t generation);

 private:
  ShardCopies(Options options, const proto::JobPlan& plan, int server, std::shared_ptr<ServedStore> served);
  // A sender of a primary's shards to another server of the group.
  absl::StatusOr<std::unique_ptr<CopySender>> SendTo(int receiver, int primary, const proto::Group& group,
                                                     std::function<void(int64_t)> on_copied) const;
  // The limits of a wait for another server, and the group that its error names.
  struct Wait {
    const proto::Group& group;
    Nanoseconds patience = 0;
    Nanoseconds until = 0;
  };
  absl::Status GiveBack(const proto::Form& form, const Wait& wait);
  absl::StatusOr<std::shared_ptr<ShardCopy>> NewCopy(ShardLayout layout, int primary) const;
  absl::Status Restore();
  // Waits until `done` is true. `server` `what`: what another server did not do, for the error.
  absl::Status Await(bool ShardCopies::*done, const Wait& wait, int server, absl::string_view what);

  const Options options_;
  const int server_;
  const int primary_;
  const int backup_;
  const bool leased_;                 // True: workers train on leases.
  const proto::Handshake handshake_;  // Without the numbers of this process and of the group.
  const std::shared_ptr<ServedStore> served_;
  std::shared_ptr<ShardCopy> kept_;  // Used on the loop; while its values are given back, no version arrives.
  std::shared_ptr<ShardCopy> own_;   // Used on the loop: this server's shards, while they are taken.
  absl::optional<int64_t> restored_;  // Used on the loop: the version of the shards that were taken last.

  Mutex sender_mu_;                                                 // Acquired before mu_.
  std::unique_ptr<CopySender> sender_ ABSL_GUARDED_BY(sender_mu_);  // To the backup; null: in no group.

  Mutex mu_;  // The senders' callbacks acquire mu_.
  CondVar changed_;
  uint32_t generation_ ABSL_GUARDED_BY(mu_) = 0;  // Of the group that the server joined last.
  uint32_t halted_ ABSL_GUARDED_BY(mu_) = 0;      // The latest generation of a Halt.
  int64_t copied_ ABSL_GUARDED_BY(mu_) = 0;       // The newest number of NoteCopied.
  bool taken_ ABSL_GUARDED_BY(mu_) = false;       // The server has taken its shards.
  bool given_back_ ABSL_GUARDED_BY(mu_) = false;
  bool offered_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace tethys

#endif  // TETHYS_PS_SHARD_COPIES_H_
