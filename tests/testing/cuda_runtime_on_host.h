// Settings of the CUDA runtime on the host (cuda_runtime_on_host.cc), for tests.
#ifndef TETHYS_TESTS_TESTING_CUDA_RUNTIME_ON_HOST_H_
#define TETHYS_TESTS_TESTING_CUDA_RUNTIME_ON_HOST_H_

namespace tethys::cuda {

// If `reads`, the runtime behaves as on a GPU that reads pageable host memory (GH200): copies from such
// memory to the device are asynchronous and run when a stream is synchronized. Devices query this when they
// are created.
void SetReadsPageableMemory(bool reads);

}  // namespace tethys::cuda

#endif  // TETHYS_TESTS_TESTING_CUDA_RUNTIME_ON_HOST_H_
