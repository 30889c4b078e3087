#include "runtime/device/cuda/graph.h"

#include <cuda_runtime_api.h>

#include <type_traits>

#include "runtime/device/cuda/cuda_status.h"
#include "runtime/device/cuda/stream.h"

namespace tethys::cuda {
namespace {

struct DestroyGraph {
  void operator()(cudaGraph_t graph) const { cudaGraphDestroy(graph); }
};
using CapturedGraph = std::unique_ptr<std::remove_pointer_t<cudaGraph_t>, DestroyGraph>;

// Destroyed while a launch is under way, it ends when the launch does.
class CudaGraph final : public Graph {
 public:
  explicit CudaGraph(cudaGraphExec_t graph) : graph_(graph) {}
  ~CudaGraph() override { cudaGraphExecDestroy(graph_); }
  absl::Status Launch(Stream& stream) override {
    TETHYS_RETURN_IF_CUDA_ERROR(cudaGraphLaunch(graph_, Handle(stream)));
    return absl::OkStatus();
  }

 private:
  const cudaGraphExec_t graph_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Graph>> Capture(Stream& stream, absl::FunctionRef<absl::Status()> work) {
  // Of this thread only what cannot be captured is refused: NCCL and the loader's thread go on with theirs.
  TETHYS_RETURN_IF_CUDA_ERROR(cudaStreamBeginCapture(Handle(stream), cudaStreamCaptureModeThreadLocal));
  const absl::Status put = work();
  cudaGraph_t captured = nullptr;
  const cudaError_t ended = cudaStreamEndCapture(Handle(stream), &captured);
  const CapturedGraph graph(captured);
  if (!put.ok()) {
    cudaGetLastError();  // What became of the capture is no news, and must not surface at the next launch.
    return put;
  }
  TETHYS_RETURN_IF_ERROR(CudaStatus(ended, "cudaStreamEndCapture()"));
  cudaGraphExec_t executable = nullptr;
  TETHYS_RETURN_IF_CUDA_ERROR(cudaGraphInstantiate(&executable, graph.get(), 0));
  return std::make_unique<CudaGraph>(executable);
}

}  // namespace tethys::cuda
