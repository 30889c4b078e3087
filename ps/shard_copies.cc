#include "ps/shard_copies.h"

#include <algorithm>
#include <climits>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "runtime/cluster/job_plan.h"
#include "runtime/shape/job_shape.h"

namespace tethys {
namespace {

// The first pause before another try to reach a server. In a new group, servers become ready within moments
// of each other.
constexpr Nanoseconds kPause = 2 * kMillisecond;

absl::StatusOr<ShardLayout> LayoutOf(const proto::JobPlan& plan, int server) {
  TETHYS_ASSIGN_OR_RETURN(const VariableSet variables, VariablesOf(plan));
  return ShardLayout::Create(plan.placement(), server, variables.arena_size());
}

}  // namespace

ShardCopies::ShardCopies(Options options, const proto::JobPlan& plan, int server,
                         std::shared_ptr<ServedStore> served)
    : options_(std::move(options)),
      server_(server),
      primary_(PrimaryOf(plan.placement(), server)),
      backup_(BackupOf(plan.placement(), server)),
      leased_(TraitsOf(plan.job()).leases()),
      handshake_(HandshakeOf(plan, proto::PS, server)),
      served_(std::move(served)) {}

absl::StatusOr<std::unique_ptr<ShardCopies>> ShardCopies::Create(Options options, const proto::JobPlan& plan,
                                                                 int server,
                                                                 std::shared_ptr<ServedStore> served) {
  std::unique_ptr<ShardCopies> copies(new ShardCopies(std::move(options), plan, server, std::move(served)));
  TETHYS_ASSIGN_OR_RETURN(ShardLayout layout, LayoutOf(plan, copies->primary_));
  TETHYS_ASSIGN_OR_RETURN(copies->kept_, copies->NewCopy(std::move(layout), copies->primary_));
  return copies;
}

absl::StatusOr<std::shared_ptr<ShardCopy>> ShardCopies::NewCopy(ShardLayout layout, int primary) const {
  const int slots = static_cast<int>(served_->store->values().size()) - 1;
  return ShardCopy::Create(std::move(layout), primary, server_, slots, /*with_book=*/leased_);
}

// --------------------------------------------------------------------------------------------- on the loop

absl::Status ShardCopies::ExpectShards() {
  TETHYS_ASSIGN_OR_RETURN(own_, NewCopy(served_->store->layout(), server_));
  restored_.reset();
  MutexLock lock(mu_);
  taken_ = false;
  return absl::OkStatus();
}

absl::StatusOr<absl::optional<Frame>> ShardCopies::Take(int sender, const Frame& frame,
                                                        PayloadPieces payload) {
  const auto of = static_cast<int64_t>(frame.group);
  const bool own = of == server_ && sender == backup_;
  if (!own && (of != primary_ || sender != primary_)) {
    return absl::InvalidArgumentError(absl::StrCat("server ", server_, " takes no shards of server ", of,
                                                   " from server ", sender, ": ", FrameText(frame)));
  }
  const auto version = static_cast<int64_t>(frame.base_version);
  Frame answer;
  answer.kind = FrameKind::kCopy;
  answer.generation = frame.generation;
  answer.group = frame.group;
  answer.rank = static_cast<uint32_t>(server_);
  answer.base_version = frame.base_version;
  answer.sequence = frame.sequence;
  answer.range_count = 1;
  // The backup repeats its frames if it did not get the answer to the last one.
  if (own && restored_ == version) return absl::make_optional(answer);
  ShardCopy* const copy = own ? own_.get() : kept_.get();
  if (copy == nullptr) return absl::UnavailableError("this server does not take its shards yet");
  if (frame.sequence == 0) {
    answer.range_count = copy->version() == version ? 1 : 0;
    return absl::make_optional(answer);
  }
  TETHYS_ASSIGN_OR_RETURN(const bool complete, copy->Take(frame, payload));
  if (!complete) return absl::optional<Frame>();
  if (own) TETHYS_RETURN_IF_ERROR(Restore());
  return absl::make_optional(answer);
}

absl::Status ShardCopies::Restore() {
  ParameterStore& store = *served_->store;
  TETHYS_RETURN_IF_ERROR(leased_ ? store.TakeBook(own_->Whole()) : store.SetVersion(*own_->version()));
  TETHYS_RETURN_IF_ERROR(store.ForEachShard([&](int slot, int64_t begin, absl::Span<float> out) {
    TETHYS_ASSIGN_OR_RETURN(const Range local, store.layout().ToLocal(begin, out.size()));
    std::copy_n(own_->values(slot) + local.begin, local.count, out.begin());
    return absl::OkStatus();
  }));
  restored_ = own_->version();
  own_.reset();
  MutexLock lock(mu_);
  taken_ = true;
  changed_.NotifyAll();
  return absl::OkStatus();
}

void ShardCopies::Copy(Range local, int64_t version) {
  MutexLock lock(sender_mu_);
  if (sender_ != nullptr) sender_->Add(version, local);
}

void ShardCopies::CopyAll(int64_t number, const proto::PushBook& book) {
  MutexLock lock(sender_mu_);
  if (sender_ != nullptr) sender_->Send(number, book.SerializeAsString());
}

void ShardCopies::NoteCopied(int64_t number) {
  MutexLock lock(mu_);
  copied_ = std::max(copied_, number);
  changed_.NotifyAll();
}

// -------------------------------------------------------------------------------------- on another thread

absl::Status ShardCopies::Join(const proto::Form& form, bool restores, Nanoseconds patience) {
  const Wait wait = {form.group(), patience, options_.client.clock->Now() + patience};
  if (absl::c_linear_search(form.restored(), primary_)) TETHYS_RETURN_IF_ERROR(GiveBack(form, wait));
  if (restores)
    TETHYS_RETURN_IF_ERROR(Await(&ShardCopies::taken_, wait, backup_, "did not give the shards back"));
  if (served_->store->layout().shards().empty()) return absl::OkStatus();
  {
    MutexLock lock(mu_);
    generation_ = form.group().generation();
    offered_ = false;
  }
  TETHYS_ASSIGN_OR_RETURN(std::unique_ptr<CopySender> sender,
                          SendTo(backup_, server_, form.group(), [this](int64_t version) {
                            options_.on_copied(version);
                            MutexLock lock(mu_);
                            offered_ = true;
                            changed_.NotifyAll();
                          }));
  // In lock step, a copy has no book.
  const StoreCopy copy = leased_ ? options_.offer() : StoreCopy{.number = form.step()};
  {
    MutexLock lock(sender_mu_);
    sender_ = std::move(sender);
    sender_->Offer(copy.number, copy.book.SerializeAsString());
  }
  return Await(&ShardCopies::offered_, wait, backup_, "did not take the copy");
}

absl::Status ShardCopies::GiveBack(const proto::Form& form, const Wait& wait) {
  if (kept_->layout().shards().empty()) return absl::OkStatus();
  const bool has = leased_ ? kept_->version().has_value() : kept_->version() == form.step();
  if (!has) {
    return absl::FailedPreconditionError(
        absl::StrCat("server ", server_, " is to give server ", primary_, " its shards",
                     leased_ ? "" : absl::StrCat(" of step ", form.step()), " back, but ",
                     kept_->version().has_value() ? absl::StrCat("its copy is of step ", *kept_->version())
                                                  : "it has no copy"));
  }
  {
    MutexLock lock(mu_);
    given_back_ = false;
  }
  TETHYS_ASSIGN_OR_RETURN(const std::unique_ptr<CopySender> sender,
                          SendTo(primary_, primary_, form.group(), [this](int64_t) {
                            MutexLock lock(mu_);
                            given_back_ = true;
                            changed_.NotifyAll();
                          }));
  const StoreCopy copy = leased_ ? kept_->Whole() : StoreCopy{.number = form.step()};
  sender->Offer(copy.number, copy.book.SerializeAsString());
  return Await(&ShardCopies::given_back_, wait, primary_, "did not take its shards back");
}

absl::StatusOr<std::unique_ptr<CopySender>> ShardCopies::SendTo(
    int receiver, int primary, const proto::Group& group, std::function<void(int64_t)> on_copied) const {
  CopySenderOptions sender;
  sender.client = options_.client;
  sender.client.reconnect_tries = INT_MAX;  // If the receiver is lost, the chief halts the group.
  sender.client.reconnect_pause = kPause;
  sender.client.handshake = handshake_;
  sender.client.handshake.set_generation(group.generation());
  for (const proto::Member& member : group.member()) {
    if (member.role() != proto::PS) continue;
    sender.client.servers.push_back({member.host(), member.data_address()});
    if (member.index() == server_) sender.client.handshake.set_incarnation(member.incarnation());
  }
  if (receiver >= static_cast<int>(sender.client.servers.size())) {
    return absl::InvalidArgumentError(absl::StrCat("the group has no server ", receiver));
  }
  sender.receiver = receiver;
  sender.primary = primary;
  if (primary == server_) {
    sender.size = served_->store->layout().local_size();
    sender.arenas = served_->store->values();
    sender.memory = served_;
  } else {
    sender.size = kept_->layout().local_size();
    for (int arena = 0; arena < kept_->arenas(); ++arena) sender.arenas.push_back(kept_->values(arena));
    sender.memory = kept_;
  }
  sender.on_copied = std::move(on_copied);
  sender.on_refused = options_.on_refused;
  return CopySender::Start(std::move(sender));
}

absl::Status ShardCopies::Await(bool ShardCopies::*done, const Wait& wait, int server,
                                absl::string_view what) {
  MutexLock lock(mu_);
  while (!(this->*done)) {
    if (halted_ >= wait.group.generation()) {
      return absl::AbortedError("the chief halted the group of servers");
    }
    const Nanoseconds left = wait.until - options_.client.clock->Now();
    if (left > 0) {
      changed_.WaitFor(mu_, left);
      continue;
    }
    std::string host;
    for (const proto::Member& member : wait.group.member()) {
      if (member.role() == proto::PS && member.index() == server) host = member.host();
    }
    return absl::DeadlineExceededError(absl::StrCat("server ", server_, ": server ", server, " on ", host,
                                                    " ", what, " within ", ToSeconds(wait.patience),
                                                    " s (timeouts.start)"));
  }
  return absl::OkStatus();
}

absl::Status ShardCopies::AwaitCopied(int64_t number) {
  MutexLock lock(mu_);
  while (copied_ < number) {
    if (halted_ >= generation_) return absl::AbortedError("the chief halted the group of servers");
    changed_.Wait(mu_);
  }
  return absl::OkStatus();
}

void ShardCopies::Leave() {
  std::unique_ptr<CopySender> sender;  // Destroyed after the lock is released.
  MutexLock lock(sender_mu_);
  sender.swap(sender_);
}

void ShardCopies::Interrupt(uint32_t generation) {
  MutexLock lock(mu_);
  halted_ = std::max(halted_, generation);
  changed_.NotifyAll();
}

}  // namespace tethys
