#include "runtime/device/cuda/cudnn_graph.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "runtime/device/cuda/cuda_status.h"
#include "runtime/device/cuda/stream.h"
#include "runtime/device/workspace_bounds.h"

namespace tethys::cuda {
namespace {

constexpr int64_t kAlignmentBytes = 16;
constexpr int64_t kMostWorkspaceBytes = kMostConvolutionWorkspace;
// Ids of the tensors within a graph.
constexpr int64_t kImages = 1, kFilters = 2, kOutputs = 3;

// A descriptor of cuDNN's graph interface. Finalize checks the attributes that were set.
class Descriptor {
 public:
  Descriptor() = default;
  Descriptor(Descriptor&& other) noexcept : descriptor_(std::exchange(other.descriptor_, nullptr)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~Descriptor() {
    if (descriptor_ != nullptr) cudnnBackendDestroyDescriptor(descriptor_);
  }

  absl::Status Create(cudnnBackendDescriptorType_t type) {
    TETHYS_RETURN_IF_CUDNN_ERROR(cudnnBackendCreateDescriptor(type, &descriptor_));
    return absl::OkStatus();
  }
  template <typename T, size_t kCount>
  absl::Status Set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                   const std::array<T, kCount>& values) {
    TETHYS_RETURN_IF_CUDNN_ERROR(cudnnBackendSetAttribute(descriptor_, name, type, kCount, values.data()));
    return absl::OkStatus();
  }
  template <typename T>
  absl::Status Set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, const T& value) {
    return Set(name, type, std::array<T, 1>{value});
  }
  absl::Status Set(cudnnBackendAttributeName_t name, const Descriptor& value) {
    return Set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, value.get());
  }
  absl::Status Finalize() {
    TETHYS_RETURN_IF_CUDNN_ERROR(cudnnBackendFinalize(descriptor_));
    return absl::OkStatus();
  }
  cudnnBackendDescriptor_t get() const { return descriptor_; }

 private:
  cudnnBackendDescriptor_t descriptor_ = nullptr;
};

// `dimensions` are [n, c, h, w], in cuDNN's order; in memory c is innermost.
absl::StatusOr<Descriptor> TensorDescriptor(int64_t name, cudnnDataType_t type,
                                            const std::array<int64_t, 4>& dimensions) {
  const auto [n, c, h, w] = dimensions;
  const std::array<int64_t, 4> strides = {h * w * c, 1, w * c, c};
  Descriptor tensor;
  TETHYS_RETURN_IF_ERROR(tensor.Create(CUDNN_BACKEND_TENSOR_DESCRIPTOR));
  TETHYS_RETURN_IF_ERROR(tensor.Set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, name));
  TETHYS_RETURN_IF_ERROR(tensor.Set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, type));
  TETHYS_RETURN_IF_ERROR(tensor.Set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, dimensions));
  TETHYS_RETURN_IF_ERROR(tensor.Set(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, strides));
  TETHYS_RETURN_IF_ERROR(tensor.Set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, kAlignmentBytes));
  TETHYS_RETURN_IF_ERROR(tensor.Finalize());
  return tensor;
}

absl::StatusOr<Descriptor> WindowDescriptor(const Window& window) {
  using Pair = std::array<int64_t, 2>;
  const Window::Axis &h = window.height, &w = window.width;
  Descriptor convolution;
  TETHYS_RETURN_IF_ERROR(convolution.Create(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR));
  TETHYS_RETURN_IF_ERROR(convolution.Set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, int64_t{2}));
  TETHYS_RETURN_IF_ERROR(
      convolution.Set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT));
  TETHYS_RETURN_IF_ERROR(convolution.Set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE,
                                         CUDNN_CROSS_CORRELATION));
  TETHYS_RETURN_IF_ERROR(
      convolution.Set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, Pair{h.before, w.before}));
  TETHYS_RETURN_IF_ERROR(
      convolution.Set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, Pair{h.after, w.after}));
  TETHYS_RETURN_IF_ERROR(
      convolution.Set(CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, Pair{h.dilation, w.dilation}));
  TETHYS_RETURN_IF_ERROR(
      convolution.Set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, Pair{h.stride, w.stride}));
  TETHYS_RETURN_IF_ERROR(convolution.Finalize());
  return convolution;
}

// The three passes take the same attributes under different names.
struct OperationNames {
  cudnnBackendDescriptorType_t operation;
  cudnnBackendAttributeName_t alpha, beta, window, images, filters, outputs;
};
OperationNames NamesOf(ConvolutionPass pass) {
  if (pass == ConvolutionPass::kForward) {
    return {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA,
            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y};
  }
  if (pass == ConvolutionPass::kData) {
    return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY};
  }
  return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY};
}

// True if an engine with this numerical note is reproducible and as precise as required.
bool IsAllowed(cudnnBackendNumericalNote_t note, Precision precision) {
  switch (note) {
    case CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC:
    case CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION:
    case CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS:
    // Engines with these transforms lose several bits.
    case CUDNN_NUMERICAL_NOTE_FFT:
    case CUDNN_NUMERICAL_NOTE_WINOGRAD:
    case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4:
    case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6:
    case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13:
      return false;
    case CUDNN_NUMERICAL_NOTE_TENSOR_CORE:  // Tensor cores round float32 factors to TF32.
      return precision != Precision::kFp32;
    default:
      return true;
  }
}

class CudnnConvolutionPlan final : public ConvolutionPlan {
 public:
  explicit CudnnConvolutionPlan(const CudnnTarget& target) : target_(target) {}

  absl::Status Initialize(ConvolutionPass pass, const ConvolutionShape& shape, Precision precision) {
    TETHYS_RETURN_IF_ERROR(DescribeOperation(pass, shape, precision));
    TETHYS_RETURN_IF_ERROR(graph_.Create(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR));
    if (target_.handle != nullptr) {
      TETHYS_RETURN_IF_ERROR(graph_.Set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, target_.handle));
    }
    TETHYS_RETURN_IF_ERROR(graph_.Set(CUDNN_ATTR_OPERATIONGRAPH_OPS, operation_));
    TETHYS_RETURN_IF_ERROR(graph_.Finalize());
    absl::Status problem = absl::UnimplementedError("cuDNN has no engine for this shape");
    for (const cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
      problem = ChooseEngine(mode, precision);
      if (problem.ok()) return problem;
    }
    return problem;
  }

  absl::Status Run(Stream& stream, const void* images, const void* filters, const void* outputs,
                   void* workspace) override {
    using Names = std::array<int64_t, 3>;
    TETHYS_RETURN_IF_CUDNN_ERROR(cudnnSetStream(target_.handle, Handle(stream)));
    Descriptor pack;
    TETHYS_RETURN_IF_ERROR(pack.Create(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR));
    TETHYS_RETURN_IF_ERROR(
        pack.Set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, Names{kImages, kFilters, kOutputs}));
    TETHYS_RETURN_IF_ERROR(pack.Set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR,
                                    std::array<const void*, 3>{images, filters, outputs}));
    TETHYS_RETURN_IF_ERROR(pack.Set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, workspace));
    TETHYS_RETURN_IF_ERROR(pack.Finalize());
    TETHYS_RETURN_IF_CUDNN_ERROR(cudnnBackendExecute(target_.handle, plan_.get(), pack.get()));
    return absl::OkStatus();
  }

  int64_t workspace_bytes() const override { return workspace_bytes_; }
  std::string Describe() const override { return absl::StrCat("cuDNN ", engine_); }

 private:
  absl::Status DescribeOperation(ConvolutionPass pass, const ConvolutionShape& shape, Precision precision) {
    const cudnnDataType_t type = precision == Precision::kBf16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT;
    const ImageShape &in = shape.in, out = shape.output();
    TETHYS_ASSIGN_OR_RETURN(images_,
                            TensorDescriptor(kImages, type, {shape.rows, in.channels, in.height, in.width}));
    TETHYS_ASSIGN_OR_RETURN(filters_, TensorDescriptor(kFilters, type,
                                                       {shape.out, in.channels / shape.groups,
                                                        shape.window.height.size, shape.window.width.size}));
    TETHYS_ASSIGN_OR_RETURN(
        outputs_, TensorDescriptor(kOutputs, type, {shape.rows, out.channels, out.height, out.width}));
    TETHYS_ASSIGN_OR_RETURN(window_, WindowDescriptor(shape.window));
    const OperationNames names = NamesOf(pass);
    TETHYS_RETURN_IF_ERROR(operation_.Create(names.operation));
    TETHYS_RETURN_IF_ERROR(operation_.Set(names.alpha, CUDNN_TYPE_FLOAT, 1.0f));
    TETHYS_RETURN_IF_ERROR(operation_.Set(names.beta, CUDNN_TYPE_FLOAT, 0.0f));
    TETHYS_RETURN_IF_ERROR(operation_.Set(names.window, window_));
    TETHYS_RETURN_IF_ERROR(operation_.Set(names.images, images_));
    TETHYS_RETURN_IF_ERROR(operation_.Set(names.filters, filters_));
    TETHYS_RETURN_IF_ERROR(operation_.Set(names.outputs, outputs_));
    return operation_.Finalize();
  }

  // Chooses the first engine that is allowed, compiles and fits the workspace limit. The heuristics order
  // engines from best to worst.
  absl::Status ChooseEngine(cudnnBackendHeurMode_t mode, Precision precision) {
    Descriptor heuristics;
    TETHYS_RETURN_IF_ERROR(heuristics.Create(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR));
    TETHYS_RETURN_IF_ERROR(heuristics.Set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph_));
    TETHYS_RETURN_IF_ERROR(heuristics.Set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, mode));
    if (target_.handle == nullptr) {
      TETHYS_RETURN_IF_ERROR(
          heuristics.Set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, CUDNN_TYPE_BACKEND_DESCRIPTOR, target_.gpu));
    }
    TETHYS_RETURN_IF_ERROR(heuristics.Finalize());
    TETHYS_ASSIGN_OR_RETURN(std::vector<Descriptor> configurations, Configurations(heuristics));
    absl::Status problem =
        absl::UnimplementedError("cuDNN has no engine with reproducible results in this precision");
    for (Descriptor& configuration : configurations) {
      TETHYS_ASSIGN_OR_RETURN(const Engine engine, EngineOf(configuration));
      if (!engine.Allowed(precision)) continue;
      problem = Compile(configuration);
      if (!problem.ok()) continue;
      configuration_ = std::move(configuration);
      engine_ = engine.index;
      return problem;
    }
    return problem;
  }

  // The configurations that the heuristics propose, best first.
  static absl::StatusOr<std::vector<Descriptor>> Configurations(const Descriptor& heuristics) {
    int64_t count = 0;
    TETHYS_RETURN_IF_CUDNN_ERROR(cudnnBackendGetAttribute(heuristics.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                                          CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &count, nullptr));
    std::vector<Descriptor> configurations(count);
    std::vector<cudnnBackendDescriptor_t> results;
    for (Descriptor& configuration : configurations) {
      TETHYS_RETURN_IF_ERROR(configuration.Create(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR));
      results.push_back(configuration.get());
    }
    int64_t found = 0;
    TETHYS_RETURN_IF_CUDNN_ERROR(cudnnBackendGetAttribute(heuristics.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                                          CUDNN_TYPE_BACKEND_DESCRIPTOR, count, &found,
                                                          results.data()));
    configurations.resize(std::min(count, found));
    return configurations;
  }

  struct Engine {
    int64_t index = 0;
    std::vector<cudnnBackendNumericalNote_t> notes;
    bool Allowed(Precision precision) const {
      return std::all_of(notes.begin(), notes.end(), [precision](cudnnBackendNumericalNote_t note) {
        return IsAllowed(note, precision);
      });
    }
  };
  static absl::StatusOr<Engine> EngineOf(const Descriptor& configuration) {
    Descriptor engine;
    TETHYS_RETURN_IF_ERROR(engine.Create(CUDNN_BACKEND_ENGINE_DESCRIPTOR));
    cudnnBackendDescriptor_t result = engine.get();
    int64_t count = 0;
    TETHYS_RETURN_IF_CUDNN_ERROR(cudnnBackendGetAttribute(configuration.get(), CUDNN_ATTR_ENGINECFG_ENGINE,
                                                          CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &result));
    Engine found = {.notes = std::vector<cudnnBackendNumericalNote_t>(CUDNN_NUMERICAL_NOTE_TYPE_COUNT)};
    TETHYS_RETURN_IF_CUDNN_ERROR(cudnnBackendGetAttribute(result, CUDNN_ATTR_ENGINE_GLOBAL_INDEX,
                                                          CUDNN_TYPE_INT64, 1, &count, &found.index));
    TETHYS_RETURN_IF_CUDNN_ERROR(cudnnBackendGetAttribute(result, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
                                                          CUDNN_TYPE_NUMERICAL_NOTE, found.notes.size(),
                                                          &count, found.notes.data()));
    found.notes.resize(std::min<int64_t>(count, found.notes.size()));
    return found;
  }

  absl::Status Compile(const Descriptor& configuration) {
    Descriptor plan;
    TETHYS_RETURN_IF_ERROR(plan.Create(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR));
    TETHYS_RETURN_IF_ERROR(
        target_.handle != nullptr
            ? plan.Set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, target_.handle)
            : plan.Set(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, CUDNN_TYPE_BACKEND_DESCRIPTOR, target_.gpu));
    TETHYS_RETURN_IF_ERROR(plan.Set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration));
    TETHYS_RETURN_IF_ERROR(plan.Finalize());
    int64_t bytes = 0, count = 0;
    TETHYS_RETURN_IF_CUDNN_ERROR(cudnnBackendGetAttribute(
        plan.get(), CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &count, &bytes));
    if (bytes > kMostWorkspaceBytes) {
      return absl::UnimplementedError(absl::StrCat("cuDNN's engine needs a workspace of ", bytes,
                                                   " bytes; the limit is ", kMostWorkspaceBytes, " bytes"));
    }
    workspace_bytes_ = bytes;
    plan_ = std::move(plan);
    return absl::OkStatus();
  }

  const CudnnTarget target_;
  Descriptor images_, filters_, outputs_, window_, operation_, graph_, configuration_, plan_;
  int64_t workspace_bytes_ = 0;
  int64_t engine_ = 0;
};

const char* PassText(ConvolutionPass pass) {
  if (pass == ConvolutionPass::kForward) return "convolution";
  return pass == ConvolutionPass::kData ? "data gradient of a convolution"
                                        : "filter gradient of a convolution";
}

}  // namespace

absl::StatusOr<std::unique_ptr<ConvolutionPlan>> CreateCudnnPlan(const CudnnTarget& target,
                                                                 ConvolutionPass pass,
                                                                 const ConvolutionShape& shape,
                                                                 Precision precision) {
  auto plan = std::make_unique<CudnnConvolutionPlan>(target);
  TETHYS_RETURN_IF_ERROR(
      Annotate(plan->Initialize(pass, shape, precision),
               absl::StrCat(PassText(pass), " of ", shape.rows, " images of ", shape.in.height, " x ",
                            shape.in.width, " x ", shape.in.channels, " by ", shape.out, " filters of ",
                            shape.window.height.size, " x ", shape.window.width.size)));
  return plan;
}

}  // namespace tethys::cuda
