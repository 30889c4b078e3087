#include "deploy/model_files/onnx_model.h"

#include <map>
#include <utility>
#include <vector>

#include "runtime/nn/layers/layer_defaults.h"
#include "runtime/nn/layers/model_inputs.h"
#include "runtime/nn/layers/window.h"
#include "runtime/nn/zoo/zoo.h"

namespace tethys {
namespace {

using proto::onnx::AttributeProto;
using proto::onnx::NodeProto;
using proto::onnx::TensorProto;

constexpr int64_t kOpset = 13;
// The version of the file format in ONNX 1.8, the first release with this opset.
constexpr int64_t kIrVersion = 7;
constexpr int64_t kMostBytes = (int64_t{1} << 31) - 1;
constexpr char kLogits[] = "logits";

// A value of the graph: its name, and the shape of one sample in Tethys's layout.
struct Value {
  std::string name;
  Shape shape;
};

// True for images, which are [channels, height, width] in ONNX, and [height, width, channels] or [height,
// width] (one channel) in Tethys.
bool IsImage(const Shape& shape) { return shape.size() == 2 || shape.size() == 3; }

// The index in ONNX of the axis that is the last axis of a sample in Tethys. Axis 0 counts the samples.
int64_t LastAxis(const Shape& shape) {
  if (shape.size() == 3) return 1;
  return shape.size() == 2 ? 3 : static_cast<int64_t>(shape.size());
}

class GraphWriter {
 public:
  explicit GraphWriter(proto::onnx::GraphProto& graph) : graph_(graph) {}

  NodeProto& Add(const std::string& op, const std::vector<std::string>& inputs, const std::string& output) {
    NodeProto& node = *graph_.add_node();
    node.set_op_type(op);
    node.set_name(output);
    for (const std::string& input : inputs) node.add_input(input);
    node.add_output(output);
    return node;
  }
  TensorProto& AddTensor(const std::string& name, const Shape& shape, absl::Span<const float> values) {
    TensorProto& tensor = *graph_.add_initializer();
    tensor.set_name(name);
    tensor.set_data_type(TensorProto::FLOAT);
    tensor.mutable_dims()->Assign(shape.begin(), shape.end());
    tensor.set_raw_data(values.data(), values.size() * sizeof(float));
    return tensor;
  }
  // Adds a tensor of one number for each channel of [batch, channels, height, width], or of a single number.
  // `pictures`: the channels are the axis before height and width; otherwise they are the last axis.
  std::string AddPerChannel(const std::string& name, const std::vector<float>& values, bool pictures) {
    const auto channels = static_cast<int64_t>(values.size());
    AddTensor(name, channels == 1 ? Shape{} : pictures ? Shape{channels, 1, 1} : Shape{channels}, values);
    return name;
  }
  std::string AddScalar(const std::string& name, float value) {
    AddTensor(name, {}, {value});
    return name;
  }

 private:
  proto::onnx::GraphProto& graph_;
};

AttributeProto& AddAttribute(const char* name, AttributeProto::AttributeType type, NodeProto& node) {
  AttributeProto& attribute = *node.add_attribute();
  attribute.set_name(name);
  attribute.set_type(type);
  return attribute;
}

void SetInt(const char* name, int64_t value, NodeProto& node) {
  AddAttribute(name, AttributeProto::INT, node).set_i(value);
}

void SetInts(const char* name, const std::vector<int64_t>& values, NodeProto& node) {
  AddAttribute(name, AttributeProto::INTS, node).mutable_ints()->Assign(values.begin(), values.end());
}

void SetWindow(const Window& window, NodeProto& node) {
  const Window::Axis& height = window.height;
  const Window::Axis& width = window.width;
  SetInts("kernel_shape", {height.size, width.size}, node);
  SetInts("strides", {height.stride, width.stride}, node);
  SetInts("pads", {height.before, width.before, height.after, width.after}, node);
  if (height.dilation > 1) SetInts("dilations", {height.dilation, width.dilation}, node);
}

// Transposes [out, height, width, in] to [out, in, height, width]; for a transposed convolution, in and out
// are exchanged.
std::vector<float> WithChannelsSecond(const std::vector<float>& values, const Shape& shape) {
  const int64_t pixels = shape[1] * shape[2], channels = shape[3];
  std::vector<float> moved(values.size());
  for (int64_t out = 0; out < shape[0]; ++out) {
    for (int64_t pixel = 0; pixel < pixels; ++pixel) {
      for (int64_t c = 0; c < channels; ++c) {
        moved[(out * channels + c) * pixels + pixel] = values[(out * pixels + pixel) * channels + c];
      }
    }
  }
  return moved;
}

absl::Status CannotWrite(const proto::Layer& layer, const std::string& what) {
  return absl::InvalidArgumentError(
      absl::StrCat("layer '", layer.name(), "': ", what, " cannot be written to ONNX"));
}

absl::Status TooLarge() {
  return absl::ResourceExhaustedError("the model has more than 2 GB, the limit of an ONNX file");
}

ImageShape ImageOf(const Shape& shape) { return {shape[0], shape[1], shape.size() == 3 ? shape[2] : 1}; }

class Exporter {
 public:
  Exporter(const Model& model, ReadVariable read, proto::onnx::GraphProto& graph)
      : model_(model), read_(read), graph_(graph) {
    for (const Model::Layer& layer : model.layers()) shapes_[layer.name()] = layer.output;
  }

  // Adds the nodes that compute a layer; the last node makes the value `output`.
  absl::StatusOr<Value> Add(const proto::Layer& layer, const std::vector<Value>& inputs,
                            const std::string& output);
  std::string Standardise(const std::string& input, const InputScaling& scaling);

 private:
  // Copies the variable LAYER/`name` into the graph; returns its name.
  absl::StatusOr<std::string> AddVariable(const proto::Layer& layer, const char* name,
                                          bool statistic = false);
  absl::Status AddProduct(const proto::Layer& layer, const char* op, const char* weights, bool has_bias,
                          const Value& input, const std::string& output, NodeProto** node);
  absl::Status AddConvolution(const proto::Layer& layer, const Value& input, const std::string& output);
  absl::Status AddTransposedConvolution(const proto::Layer& layer, const Value& input,
                                        const std::string& output);
  absl::Status AddNormalisation(const proto::Layer& layer, const Value& input, const std::string& output);
  template <typename Pooling>
  absl::StatusOr<NodeProto*> AddPooling(const char* op, const Pooling& pooling, const Value& input,
                                        const std::string& output);
  absl::Status AddFlatten(const Value& input, const std::string& output);
  absl::Status AddActivation(const proto::Layer& layer, proto::Activation activation,
                             const std::string& input, const std::string& output);
  absl::Status AddKind(const proto::Layer& layer, const std::vector<Value>& inputs,
                       const std::string& output);

  const Model& model_;
  const ReadVariable read_;
  GraphWriter graph_;
  std::map<std::string, Shape> shapes_;  // The shape of each layer's output, by layer.
  int64_t bytes_ = 0;
};

std::string Exporter::Standardise(const std::string& input, const InputScaling& scaling) {
  const float unit = scaling.type == ValueType::kByte ? 255 : 1;
  std::vector<float> slopes, offsets;
  for (int64_t channel = 0; channel < scaling.channels(); ++channel) {
    slopes.push_back(1 / (unit * scaling.deviation[channel]));
    offsets.push_back(-scaling.mean[channel] / scaling.deviation[channel]);
  }
  const bool pictures = model_.sample_shape().size() > 1;
  const std::string slope = graph_.AddPerChannel("input:slope", slopes, pictures);
  const std::string offset = graph_.AddPerChannel("input:offset", offsets, pictures);
  graph_.Add("Mul", {input, slope}, "input:scaled");
  graph_.Add("Add", {"input:scaled", offset}, "input:standardised");
  return "input:standardised";
}

absl::StatusOr<std::string> Exporter::AddVariable(const proto::Layer& layer, const char* name,
                                                  bool statistic) {
  const std::string full_name = absl::StrCat(layer.name(), "/", name);
  const Variable& variable = *(statistic ? model_.statistics() : model_.variables()).Find(full_name);
  bytes_ += variable.range.count * static_cast<int64_t>(sizeof(float));
  if (bytes_ > kMostBytes) return TooLarge();
  std::vector<float> values(variable.range.count);
  TETHYS_RETURN_IF_ERROR(read_(variable, statistic, absl::MakeSpan(values)));
  Shape shape = variable.shape;
  if (variable.layout == "out,height,width,in" || variable.layout == kBilinearLayout) {
    values = WithChannelsSecond(values, shape);
    shape = {shape[0], shape[3], shape[1], shape[2]};
  }
  graph_.AddTensor(full_name, shape, values);
  return full_name;
}

absl::Status Exporter::AddProduct(const proto::Layer& layer, const char* op, const char* weights,
                                  bool has_bias, const Value& input, const std::string& output,
                                  NodeProto** node) {
  std::vector<std::string> operands = {input.name};
  TETHYS_ASSIGN_OR_RETURN(operands.emplace_back(), AddVariable(layer, weights));
  if (has_bias) {
    TETHYS_ASSIGN_OR_RETURN(operands.emplace_back(), AddVariable(layer, "bias"));
  }
  *node = &graph_.Add(op, operands, output);
  return absl::OkStatus();
}

absl::Status Exporter::AddConvolution(const proto::Layer& layer, const Value& input,
                                      const std::string& output) {
  const proto::Convolution& convolution = layer.convolution();
  WindowFields fields = {.size = convolution.kernel_size(),
                         .stride = convolution.stride(),
                         .dilation = convolution.dilation(),
                         .padding = convolution.padding()};
  if (convolution.has_pad()) fields.pad = convolution.pad();
  TETHYS_ASSIGN_OR_RETURN(const Window window, MakeWindow(ImageOf(input.shape), fields));
  NodeProto* node = nullptr;
  TETHYS_RETURN_IF_ERROR(AddProduct(layer, "Conv", "filters", convolution.bias(), input, output, &node));
  SetWindow(window, *node);
  SetInt("group", convolution.groups(), *node);
  return absl::OkStatus();
}

absl::Status Exporter::AddTransposedConvolution(const proto::Layer& layer, const Value& input,
                                                const std::string& output) {
  const proto::TransposedConvolution& fields = layer.transposed_convolution();
  const ImageShape in = ImageOf(input.shape), out = ImageOf(shapes_.at(layer.name()));
  WindowFields window_fields = {
      .size = fields.kernel_size(), .stride = fields.stride(), .padding = fields.padding()};
  if (fields.has_pad()) window_fields.pad = fields.pad();
  TETHYS_ASSIGN_OR_RETURN(const Window window, MakeWindow(out, window_fields));
  NodeProto* node = nullptr;
  TETHYS_RETURN_IF_ERROR(AddProduct(layer, "ConvTranspose", "filters", fields.bias(), input, output, &node));
  SetWindow(window, *node);
  // The number of pixels at the end of an axis that no window covers.
  const auto beyond = [](const Window::Axis& axis, int64_t from, int64_t to) {
    return to + axis.before + axis.after - axis.size - (from - 1) * axis.stride;
  };
  SetInts("output_padding",
          {beyond(window.height, in.height, out.height), beyond(window.width, in.width, out.width)}, *node);
  return absl::OkStatus();
}

absl::Status Exporter::AddNormalisation(const proto::Layer& layer, const Value& input,
                                        const std::string& output) {
  if (input.shape.size() > 3) {
    return CannotWrite(layer, "batch normalisation of " + ShapeText(input.shape));
  }
  std::vector<std::string> operands = {input.name};
  for (const char* name : {"scale", "offset"}) {
    TETHYS_ASSIGN_OR_RETURN(operands.emplace_back(), AddVariable(layer, name));
  }
  for (const char* name : {"moving_mean", "moving_variance"}) {
    TETHYS_ASSIGN_OR_RETURN(operands.emplace_back(), AddVariable(layer, name, /*statistic=*/true));
  }
  AddAttribute("epsilon", AttributeProto::FLOAT, graph_.Add("BatchNormalization", operands, output))
      .set_f(static_cast<float>(layer.batch_normalisation().epsilon()));
  return absl::OkStatus();
}

template <typename Pooling>
absl::StatusOr<NodeProto*> Exporter::AddPooling(const char* op, const Pooling& pooling, const Value& input,
                                                const std::string& output) {
  TETHYS_ASSIGN_OR_RETURN(const Window window, MakeWindow(ImageOf(input.shape), PoolingFields(pooling)));
  NodeProto& node = graph_.Add(op, {input.name}, output);
  SetWindow(window, node);
  return &node;
}

// Transposes images to Tethys's order, [height, width, channels], before they are flattened: ONNX alone would
// flatten them in the order [channels, height, width].
absl::Status Exporter::AddFlatten(const Value& input, const std::string& output) {
  std::string from = input.name;
  if (IsImage(input.shape)) {
    from = output + ":pixels";
    SetInts("perm", {0, 2, 3, 1}, graph_.Add("Transpose", {input.name}, from));
  }
  SetInt("axis", 1, graph_.Add("Flatten", {from}, output));
  return absl::OkStatus();
}

absl::Status Exporter::AddActivation(const proto::Layer& layer, proto::Activation activation,
                                     const std::string& input, const std::string& output) {
  switch (activation) {
    case proto::RELU:
      graph_.Add("Relu", {input}, output);
      return absl::OkStatus();
    case proto::RELU6:
      graph_.Add("Clip",
                 {input, graph_.AddScalar(output + ":least", 0), graph_.AddScalar(output + ":most", 6)},
                 output);
      return absl::OkStatus();
    case proto::SIGMOID:
      graph_.Add("Sigmoid", {input}, output);
      return absl::OkStatus();
    case proto::TANH:
      graph_.Add("Tanh", {input}, output);
      return absl::OkStatus();
    default:
      return CannotWrite(layer, absl::StrCat("activation ", static_cast<int>(activation)));
  }
}

absl::Status Exporter::AddKind(const proto::Layer& layer, const std::vector<Value>& inputs,
                               const std::string& output) {
  const Value& input = inputs[0];
  std::vector<std::string> names;
  for (const Value& value : inputs) names.push_back(value.name);
  NodeProto* node = nullptr;
  switch (layer.kind_case()) {
    case proto::Layer::kFlatten:
      return AddFlatten(input, output);
    case proto::Layer::kDense:
      return AddProduct(layer, "Gemm", "weights", /*has_bias=*/true, input, output, &node);
    case proto::Layer::kConvolution:
      return AddConvolution(layer, input, output);
    case proto::Layer::kTransposedConvolution:
      return AddTransposedConvolution(layer, input, output);
    case proto::Layer::kBatchNormalisation:
      return AddNormalisation(layer, input, output);
    case proto::Layer::kMaxPooling:
      return AddPooling("MaxPool", layer.max_pooling(), input, output).status();
    case proto::Layer::kAveragePooling: {
      TETHYS_ASSIGN_OR_RETURN(node, AddPooling("AveragePool", layer.average_pooling(), input, output));
      SetInt("count_include_pad", layer.average_pooling().count_padding() ? 1 : 0, *node);
      return absl::OkStatus();
    }
    case proto::Layer::kGlobalAveragePooling:
      graph_.Add("GlobalAveragePool", {input.name}, output + ":image");
      SetInt("axis", 1, graph_.Add("Flatten", {output + ":image"}, output));
      return absl::OkStatus();
    case proto::Layer::kActivate:
      return AddActivation(layer, layer.activate().activation(), input.name, output);
    case proto::Layer::kDropout:
      graph_.Add("Identity", {input.name}, output);
      return absl::OkStatus();
    case proto::Layer::kAdd:
      graph_.Add("Sum", names, output);
      return absl::OkStatus();
    case proto::Layer::kConcatenation:
      SetInt("axis", LastAxis(input.shape), graph_.Add("Concat", names, output));
      return absl::OkStatus();
    default:
      return CannotWrite(layer, "a layer of kind " + LayerKindName(layer));
  }
}

// The activation that is fused into the layer.
proto::Activation FusedActivation(const proto::Layer& layer) {
  if (layer.has_dense()) return layer.dense().activation();
  if (layer.has_convolution()) return layer.convolution().activation();
  return layer.batch_normalisation().activation();
}

absl::StatusOr<Value> Exporter::Add(const proto::Layer& layer, const std::vector<Value>& inputs,
                                    const std::string& output) {
  const proto::Activation activation = FusedActivation(layer);
  const bool fused = activation != proto::ACTIVATION_NONE;
  const std::string linear = fused ? output + ":linear" : output;
  TETHYS_RETURN_IF_ERROR(AddKind(layer, inputs, linear));
  if (fused) TETHYS_RETURN_IF_ERROR(AddActivation(layer, activation, linear, output));
  const auto shape = shapes_.find(layer.name());
  if (shape != shapes_.end()) return Value{output, shape->second};
  TETHYS_ASSIGN_OR_RETURN(const int64_t elements, ElementCount(inputs[0].shape));
  // The layer is a flatten: model.layers() does not contain it, because it computes nothing.
  return Value{output, {elements}};
}

void Describe(const std::string& name, const Shape& sample, proto::onnx::ValueInfoProto& info) {
  info.set_name(name);
  proto::onnx::TypeProto::Tensor& type = *info.mutable_type()->mutable_tensor_type();
  type.set_elem_type(TensorProto::FLOAT);
  type.mutable_shape()->add_dim()->set_dim_param("N");
  for (const int64_t axis : sample) type.mutable_shape()->add_dim()->set_dim_value(axis);
}

}  // namespace

absl::StatusOr<proto::onnx::ModelProto> MakeOnnxModel(const proto::Model& config, const Model& model,
                                                      const InputScaling& scaling, ReadVariable read) {
  proto::onnx::ModelProto file;
  file.set_ir_version(kIrVersion);
  file.set_producer_name("tethys");
  file.add_opset_import()->set_version(kOpset);
  proto::onnx::GraphProto& graph = *file.mutable_graph();
  graph.set_name("model");
  Shape input = model.sample_shape();
  if (IsImage(input)) input = {ImageOf(input).channels, input[0], input[1]};
  Describe(kBatchName, input, *graph.add_input());
  Shape logits = model.output_shape();
  if (IsImage(logits)) logits = {logits[2], logits[0], logits[1]};
  Describe(kLogits, logits, *graph.add_output());

  const proto::Model expanded = ExpandModel(config, model.classes());
  const ModelInputs inputs = FindInputs(expanded);
  Exporter exporter(model, read, graph);
  const Value batch = {exporter.Standardise(kBatchName, scaling), model.sample_shape()};
  std::vector<Value> values;
  for (int i = 0; i < expanded.layer_size(); ++i) {
    std::vector<Value> operands;
    for (const int from : inputs.layers[i]) {
      operands.push_back(from == ModelInputs::kBatch ? batch : values[from]);
    }
    // The names of added nodes contain a colon. No layer's name contains one.
    const proto::Layer& layer = expanded.layer(i);
    const bool is_last = i + 1 == expanded.layer_size();
    const std::string output = is_last ? kLogits : layer.name() == kLogits ? "logits:layer" : layer.name();
    TETHYS_ASSIGN_OR_RETURN(values.emplace_back(), exporter.Add(layer, operands, output));
  }
  if (static_cast<int64_t>(file.ByteSizeLong()) > kMostBytes) return TooLarge();
  return file;
}

void AddNotes(const ModelNotes& notes, proto::onnx::ModelProto& model) {
  std::string text;
  for (const auto& [key, value] : notes) {
    proto::onnx::StringStringEntryProto& entry = *model.add_metadata_props();
    entry.set_key(key);
    entry.set_value(value);
    absl::StrAppend(&text, key, ": ", value, "\n");
    if (key == "values") model.mutable_graph()->mutable_input(0)->set_doc_string(value);
  }
  model.set_doc_string(text);
}

}  // namespace tethys
