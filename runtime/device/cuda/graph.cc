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

// If the object is destroyed during a launch, CUDA frees the graph when the launch ends.
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
  // Calls that cannot be captured fail during the capture, but in this thread only, because threads of NCCL
  // and of the data loader may make such calls.
  TETHYS_RETURN_IF_CUDA_ERROR(cudaStreamBeginCapture(Handle(stream), cudaStreamCaptureModeThreadLocal));
  const absl::Status put = work();
  cudaGraph_t captured = nullptr;
  const cudaError_t ended = cudaStreamEndCapture(Handle(stream), &captured);
  const CapturedGraph graph(captured);
  if (!put.ok()) {
    cudaGetLastError();  // Clears the capture's own error, which the next launch would report.
    return put;
  }
  TETHYS_RETURN_IF_ERROR(CudaStatus(ended, "cudaStreamEndCapture()"));
  cudaGraphExec_t executable = nullptr;
  TETHYS_RETURN_IF_CUDA_ERROR(cudaGraphInstantiate(&executable, graph.get(), 0));
  return std::make_unique<CudaGraph>(executable);
}

}  // namespace tethys::cuda
