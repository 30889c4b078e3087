#include "ps/server_call.h"

#include "runtime/cluster/grpc_status.h"

namespace tethys {

ServerCall::ServerCall(Owner& owner, grpc::AsyncGenericService& service, grpc::ServerCompletionQueue& queue)
    : owner_(owner),
      stream_(&context_),
      arrived_([this](bool ok) { OnArrived(ok); }),
      read_([this](bool ok) { OnRead(ok); }),
      written_([this](bool ok) {
        --operations_;
        writing_ = false;
        // The pending read reports the broken stream.
        if (!ok) outgoing_.clear();
        StartWrite();
        FinishWhenWritten();
        Release();
      }),
      finished_([this](bool) {
        --operations_;
        Release();
      }) {
  ++operations_;
  service.RequestCall(&context_, &stream_, &queue, &queue, &arrived_);
}

std::string ServerCall::Metadata(const std::string& key) const {
  const auto entry = context_.client_metadata().find(key);
  return entry == context_.client_metadata().end() ? ""
                                                   : std::string(entry->second.data(), entry->second.size());
}

void ServerCall::OnArrived(bool ok) {
  --operations_;
  if (ok && !abandoned_) {
    peer_ = context_.peer();
    owner_.OnArrival(*this);
  } else {
    ending_ = finish_started_ = true;
  }
  Release();
}

void ServerCall::AnswerAndEnd(const grpc::ByteBuffer& answer) {
  ending_ = finish_started_ = true;
  ++operations_;
  stream_.WriteAndFinish(answer, grpc::WriteOptions(), grpc::Status::OK, &finished_);
}

void ServerCall::Receive(int rank, bool from_server) {
  rank_ = rank;
  from_server_ = from_server;
  StartRead();
}

void ServerCall::StartRead() {
  if (abandoned_ || ending_) return;
  ++operations_;
  stream_.Read(&incoming_, &read_);
}

void ServerCall::OnRead(bool ok) {
  --operations_;
  if (!ok) {
    End(absl::OkStatus());
  } else if (!ending_) {
    absl::Status status = message_.Parse(incoming_);
    incoming_.Clear();
    if (status.ok()) status = owner_.OnMessage(*this, message_);
    message_.Clear();
    if (status.ok()) {
      StartRead();
    } else {
      End(status);
    }
  }
  Release();
}

void ServerCall::Send(grpc::ByteBuffer message) {
  if (ending_) return;
  outgoing_.push_back(std::move(message));
  StartWrite();
}

void ServerCall::StartWrite() {
  if (writing_ || abandoned_ || outgoing_.empty()) return;
  writing_ = true;
  ++operations_;
  // gRPC takes its own references to the slices.
  stream_.Write(outgoing_.front(), &written_);
  outgoing_.pop_front();
}

void ServerCall::End(const absl::Status& status) {
  if (ending_) return;
  ending_ = true;
  end_status_ = status;
  FinishWhenWritten();
}

void ServerCall::FinishWhenWritten() {
  if (!ending_ || finish_started_ || writing_ || !outgoing_.empty() || abandoned_) return;
  finish_started_ = true;
  ++operations_;
  stream_.Finish(ToGrpcStatus(end_status_), &finished_);
}

void ServerCall::Release() {
  if (operations_ == 0 && (finish_started_ || abandoned_)) owner_.OnEnd(*this);
}

}  // namespace tethys
