// Synchronizes ranks that share memory. The board holds each rank's progress, its current collective and its
// final error. A collective is a sequence of phases: a rank posts that it has ended a phase, and waits until
// the other ranks have posted the same. shared_memory_communicator.cc does the work between the posts.
//
//   Begin({.kind = kReduce, .range_count = 1000});  ... write ...  Meet();  ... read what the others wrote
//
// A message from one rank to another is a sequence of chunks, which the sender posts and the receiver takes:
//
//   sender:    BeginSend(to, bytes);       ... write a chunk ...  PostChunk(to);      AwaitTaken(to, 0);
//   receiver:  BeginReceive(from, bytes);  AwaitChunk(from);  ... read it ...  TakeChunk(from);
//
// Used by one thread at a time, except for Abort and Interrupt. A waiting rank first spins on the peer's
// counter of posts, then sleeps on it (a futex). Waiting ends with an error at the deadline or when the
// peer's process dies.
#ifndef TETHYS_COLLECTIVES_RANK_BOARD_H_
#define TETHYS_COLLECTIVES_RANK_BOARD_H_

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/clock.h"
#include "runtime/base/file.h"
#include "runtime/base/mutex.h"
#include "runtime/base/status.h"
#include "runtime/tensor/frame.h"

namespace tethys {

struct RankBoardOptions {
  int rank = 0;
  std::vector<std::string> members;  // "rank 2 (worker 2 on 10.0.0.3)", for errors; sets the world size.
  uint32_t group = 0;
  uint32_t generation = 1;
  Nanoseconds step_timeout = 30 * kSecond;
  PeersCompute peers_compute = nullptr;  // step_timeout does not run while this returns true.
  const Clock* clock = nullptr;          // Required; not owned.
};

// Invariants:
// 1. The first failure is final on every rank: all ranks that still wait get the same error, except for
//    interrupted ranks. The first rank that fails publishes its error and then its rank
//    number (first_failed_). The other ranks notice the failure by this number.
// 2. A rank fails only because of a peer whose post it still needs: posts are checked before last words (a
// rank's final error).
// 3. No rank enters collective k + 2 before all have entered k + 1, because every collective begins with a
//    phase that waits for all. So two notices per rank are enough, and buffers can alternate.
// 4. A rank sends one message at a time, until all its chunks are taken. So one notice and one buffer per
//    sender are enough for messages to all ranks.
// 5. A rank that has failed or was interrupted posts nothing more.
class RankBoard {
 public:
  // The size of a board for `world` ranks in bytes, a multiple of 64. The board's memory must be zeroed
  // before the first rank uses it.
  static int64_t Bytes(int world);

  // Registers this rank's process on the board.
  RankBoard(RankBoardOptions options, char* memory);
  ~RankBoard();
  // Starts to watch all ranks' processes, to notice when one dies. Called after all ranks have constructed
  // their RankBoard.
  void WatchPeers();

  int rank() const { return options_.rank; }
  int world_size() const { return static_cast<int>(options_.members.size()); }
  uint64_t step() const { return step_; }  // Collectives begun so far.

  // Starts a collective. Both arguments must be equal on every rank. Begin sets the fields rank, step,
  // generation and group of `call`. `in_arenas` is true if the vectors lie in the arenas of
  // AllocateForReduction.
  absl::Status Begin(const Frame& call, bool in_arenas = false);
  // Posts the end of a phase. Publishes this rank's earlier writes to all ranks that see the post. Returns
  // the number of the post, which is the same on all ranks.
  uint32_t Post();
  // Blocks until all ranks have made post `number`. InvalidArgument: a rank is in another collective.
  absl::Status WaitForAll(uint32_t number);
  absl::Status Meet() { return WaitForAll(Post()); }

  // Start one end of a message. A message has at least one chunk; an empty message has one empty chunk.
  absl::Status BeginSend(int to, int64_t bytes);
  absl::Status BeginReceive(int from, int64_t bytes);
  // Publishes a chunk, with this rank's earlier writes, to `to`.
  void PostChunk(int to);
  // Blocks until all posted chunks but the last `left` have been taken.
  absl::Status AwaitTaken(int to, uint32_t left);
  // Blocks until the next chunk is posted. InvalidArgument: sender and receiver gave different sizes.
  absl::Status AwaitChunk(int from);
  // Tells `from` that the chunk was read.
  void TakeChunk(int from);

  // Has the contract of Communicator::Abort. Thread-safe.
  void Abort(const absl::Status& reason);
  // Has the contract of Communicator::Interrupt: the other ranks see that this rank has left. Thread-safe.
  void Interrupt(const absl::Status& reason);

 private:
  struct Counter;
  struct Channel;
  struct Line;
  // The collective that a rank has begun, which the other ranks compare with their own.
  struct Notice {
    Frame frame;
    bool in_arenas = false;
    bool operator==(const Notice&) const = default;
  };

  absl::Status CheckUsable();
  absl::Status BeginMessage(int from, int64_t bytes);
  Channel& ChannelOf(int from, int to) const;
  // Sets `counter` to `number` and wakes the ranks that sleep on it.
  void Advance(Counter& counter, uint32_t number) const;
  // Blocks until `peer` has advanced `counter` to `number`.
  absl::Status WaitFor(Counter& counter, int peer, uint32_t number);
  // Spins for up to kWatch. Returns false if `peer` has not advanced `counter` to `number` by then.
  bool Watch(const Counter& counter, int peer, uint32_t number) const;
  // Sleeps for up to kSleep while the counter equals `seen`.
  void Sleep(Counter& counter, uint32_t seen) const;
  absl::Status CheckPeer(const Counter& counter, int peer, uint32_t number);
  absl::Status CheckNotices();
  absl::Status Mismatch(const Frame& peers) const;
  absl::Status SilenceError(int peer) const;
  // A text for errors that says what this rank is doing: "in collective 3 [reduce, ...]". In the text of a
  // message, the step is the number of the message, counted among the messages from its sender to its
  // receiver.
  std::string Doing() const;
  bool Died(int peer);

  // Sets and returns this rank's final error: the error of the rank that failed first, or `error` if no other
  // rank has failed before.
  absl::Status Fail(const absl::Status& error);
  // Returns the final error that `peer` has published.
  absl::Status LastWords(int peer) const;
  // Return the reason of this rank's own Abort or Interrupt.
  absl::Status AbortReason();
  absl::Status InterruptReason();
  // Publishes this rank's final error. Returns false, and does nothing, if the rank has published one before.
  bool SayLastWords(const absl::Status& words);
  void WakeAll() const;

  const RankBoardOptions options_;
  const bool crowded_;
  std::atomic<int32_t>* const first_failed_;  // The first rank that failed, plus 1; 0: none.
  Line* const lines_;                         // One line per rank.
  Channel* const channels_;                   // One channel per sender and receiver.

  // Set by Abort and Interrupt.
  std::atomic<bool> aborted_{false};
  Mutex mu_;
  bool said_last_words_ ABSL_GUARDED_BY(mu_) = false;
  absl::Status interrupt_reason_ ABSL_GUARDED_BY(mu_);

  // The members below are not guarded by mu_, because Abort and Interrupt do not use them.
  std::vector<FileDescriptor> processes_;
  Notice notice_;
  uint64_t step_ = 0;
  uint32_t posts_ = 0;
  // The vectors below have one element per peer.
  std::vector<uint32_t> posted_, taken_;              // Chunks posted to the peer, and taken from it.
  std::vector<uint64_t> messages_out_, messages_in_;  // Messages begun with each peer.
  bool checked_notices_ = false;
  absl::Status broken_;
};

}  // namespace tethys

#endif  // TETHYS_COLLECTIVES_RANK_BOARD_H_
