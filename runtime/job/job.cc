#include "runtime/job/job.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/text_format.h>

#include "absl/strings/match.h"
#include "runtime/base/random.h"
#include "runtime/base/status.h"
#include "runtime/job/field_numbers.h"
#include "runtime/shape/job_shape.h"

namespace tethys {

int64_t GlobalBatch(const proto::Job& job) {
  return job.has_global_batch_size() ? job.global_batch_size() : job.workers() * job.batch_size_per_worker();
}

int64_t BatchPerWorkerRows(const proto::Job& job) {
  const int64_t workers = job.workers();
  return (GlobalBatch(job) + workers - 1) / workers;
}

std::string OptimizerText(const proto::Optimizer& optimizer) {
  const google::protobuf::FieldDescriptor* kind =
      optimizer.GetReflection()->GetOneofFieldDescriptor(optimizer, optimizer.GetDescriptor()->oneof_decl(0));
  if (kind == nullptr) return "none";
  std::string text(kind->name());
  const google::protobuf::Message& message = optimizer.GetReflection()->GetMessage(optimizer, kind);
  for (int i = 0; i < message.GetDescriptor()->field_count(); ++i) {
    const google::protobuf::FieldDescriptor& field = *message.GetDescriptor()->field(i);
    const double value = GetNumber(message, field);
    if (value == 0) continue;
    absl::StrAppend(&text, ", ", field.name());
    if (field.type() != google::protobuf::FieldDescriptor::TYPE_BOOL) absl::StrAppend(&text, " ", value);
  }
  if (optimizer.has_clip()) absl::StrAppend(&text, ", clip.global_norm ", optimizer.clip().global_norm());
  if (optimizer.weight_decay() == 0) return text;
  absl::StrAppend(&text, ", weight_decay ", optimizer.weight_decay());
  if (optimizer.decoupled_weight_decay()) absl::StrAppend(&text, ", decoupled_weight_decay");
  return text;
}

bool UsesField(absl::string_view path, const proto::Job& job) {
  const bool servers = TraitsOf(job).servers();
  const bool mirrored = TraitsOf(job).exchanges && !servers;
  struct Use {
    absl::string_view field;
    bool used;
  };
  for (const Use& use : {Use{"tuning.bucket_bytes", mirrored}, Use{"tuning.transport", mirrored},
                         Use{"tuning.message_bytes", servers}, Use{"tuning.partitioner", servers}}) {
    if (path == use.field || absl::StartsWith(path, absl::StrCat(use.field, "."))) return use.used;
  }
  return true;
}

uint64_t JobHash(const proto::Job& job) {
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);
    TETHYS_CHECK(job.SerializeToCodedStream(&coded));
  }
  return Fnv1a(bytes.data(), bytes.size());
}

std::string ResolvedText(const proto::Job& job) {
  std::string text;
  TETHYS_CHECK(google::protobuf::TextFormat::PrintToString(job, &text));
  return text;
}

}  // namespace tethys
