#include "runtime/nn/zoo/family.h"

#include "absl/strings/str_cat.h"

namespace tethys {

proto::Layer& LayerWriter::NewLayer(absl::string_view name, absl::string_view input) {
  proto::Layer& layer = *model_.add_layer();
  layer.set_name(std::string(name));
  if (!input.empty()) layer.add_input(std::string(input));
  return layer;
}

std::string LayerWriter::Add(absl::string_view name, const Convolution& convolution,
                             absl::string_view input) {
  proto::Convolution& fields = *NewLayer(name, input).mutable_convolution();
  fields.set_filters(convolution.filters);
  fields.set_kernel_size(convolution.kernel_size);
  fields.set_stride(convolution.stride);
  if (convolution.pad.has_value()) {
    if (*convolution.pad > 0) fields.set_pad(*convolution.pad);
  } else {
    fields.set_padding(convolution.padding);
  }
  fields.set_groups(convolution.groups);
  fields.set_bias(convolution.bias);
  fields.set_activation(convolution.activation);
  fields.set_initializer(convolution.initializer);
  return std::string(name);
}

std::string LayerWriter::Add(absl::string_view name, const Normalisation& normalisation) {
  proto::BatchNormalisation& fields = *NewLayer(name).mutable_batch_normalisation();
  fields.set_decay(normalisation.decay);
  fields.set_epsilon(normalisation.epsilon);
  fields.set_activation(normalisation.activation);
  return std::string(name);
}

std::string LayerWriter::Dense(absl::string_view name, int64_t units, proto::Activation activation) {
  proto::Dense& fields = *NewLayer(name).mutable_dense();
  fields.set_units(units);
  fields.set_activation(activation);
  return std::string(name);
}

std::string LayerWriter::MaxPooling(absl::string_view name, int64_t size, int64_t stride, int64_t pad) {
  proto::MaxPooling& fields = *NewLayer(name).mutable_max_pooling();
  fields.set_size(size);
  fields.set_stride(stride);
  if (pad > 0) fields.set_pad(pad);
  return std::string(name);
}

std::string LayerWriter::GlobalAveragePooling(absl::string_view name) {
  NewLayer(name).mutable_global_average_pooling();
  return std::string(name);
}

std::string LayerWriter::Flatten(absl::string_view name) {
  NewLayer(name).mutable_flatten();
  return std::string(name);
}

void LayerWriter::Dropout(absl::string_view name, double rate) {
  if (rate > 0) NewLayer(name).mutable_dropout()->set_rate(rate);
}

std::string LayerWriter::Enlarge(absl::string_view name, int64_t filters, int64_t times) {
  proto::TransposedConvolution& fields = *NewLayer(name).mutable_transposed_convolution();
  fields.set_filters(filters);
  fields.set_kernel_size(2 * times);
  fields.set_stride(times);
  fields.set_padding(proto::SAME);
  fields.set_initializer(proto::BILINEAR);
  fields.set_bias(false);
  return std::string(name);
}

std::string LayerWriter::Sum(absl::string_view name, absl::string_view a, absl::string_view b) {
  proto::Layer& sum = NewLayer(name, a);
  sum.add_input(std::string(b));
  sum.mutable_add();
  return std::string(name);
}

std::string LayerWriter::SumRelu(absl::string_view name, absl::string_view a, absl::string_view b) {
  Sum(absl::StrCat(name, ".sum"), a, b);
  NewLayer(name).mutable_activate()->set_activation(proto::RELU);
  return std::string(name);
}

std::string RangeProblem(absl::string_view field, int64_t value, int64_t most) {
  if (value >= 1 && value <= most) return "";
  return absl::StrCat(field, " is ", value, ": it must be 1 to ", most);
}

std::string RateProblem(absl::string_view field, double rate) {
  if (rate >= 0 && static_cast<float>(rate) < 1) return "";
  return absl::StrCat(field, " is ", rate, ": it must be at least 0 and below 1");
}

}  // namespace tethys
